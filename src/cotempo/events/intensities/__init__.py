"""Intensities that a model returns: over time, given the history, and by type of event."""
