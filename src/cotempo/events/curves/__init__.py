"""Estimators of a rate over time from counts and exposures in cells, and the curve that all clients share."""
