"""Scores by which EdgeRanking ranks edges, all computed from summed moments."""
