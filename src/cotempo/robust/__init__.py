"""Absorb what clients send so that a few liars cannot stop or own a result."""
