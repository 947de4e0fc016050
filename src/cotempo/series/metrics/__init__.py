"""Scores of generated series, and of what they reveal."""

from cotempo.series.metrics.distances import ContextFID, correlational, frechet
from cotempo.series.metrics.recurrent import discriminative, discriminative_all, predictive, predictive_all
from cotempo.series.release import membership, nearest_distance

__all__ = [
    "ContextFID",
    "correlational",
    "discriminative",
    "discriminative_all",
    "frechet",
    "membership",
    "nearest_distance",
    "predictive",
    "predictive_all",
]
