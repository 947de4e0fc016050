"""The command line."""

from cotempo.cli.main import main

__all__ = ["main"]
