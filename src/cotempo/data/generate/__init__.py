"""Generate data of every kind, with the truth behind it."""
