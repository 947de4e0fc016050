"""How good filled and generated series are."""

from cotempo.series.metrics.correlation import correlational
from cotempo.series.metrics.errors import crps, interval_coverage, mean_absolute_error, root_mean_square_error
from cotempo.series.metrics.frechet import ContextFID, frechet
from cotempo.series.metrics.recurrent import discriminative, discriminative_all, predictive, predictive_all
from cotempo.series.release import membership, nearest_distance

__all__ = [
    "ContextFID",
    "correlational",
    "crps",
    "discriminative",
    "discriminative_all",
    "frechet",
    "interval_coverage",
    "mean_absolute_error",
    "membership",
    "nearest_distance",
    "predictive",
    "predictive_all",
    "root_mean_square_error",
]
