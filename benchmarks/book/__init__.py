"""The benchmark book: what was measured, with which command, where it is quoted, and whether the quotes are right."""
