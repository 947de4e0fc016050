#!/bin/sh
# Joins @FEDERATION@ as @SITE@ and stays until stopped by Ctrl-C.
cd "$(dirname "$0")" && exec cotempo client start . --foreground
