"""What lying clients do, to measure how much a few of them can spoil."""
