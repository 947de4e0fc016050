"""``python -m cotempo`` is the command ``cotempo``."""

from cotempo.cli import main

main()
