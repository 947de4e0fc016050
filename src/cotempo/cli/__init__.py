"""`main`, the command line interface."""

from cotempo.cli.main import main

__all__ = ["main"]
