"""The coordinator's live page: all runs of a folder, each followed to its end."""
