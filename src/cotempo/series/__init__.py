"""Series: filling and generating time series that are spread over owners and misaligned."""

from cotempo.series.diffusion import SeriesDiffusion
from cotempo.series.fedmoments import FedMoments, FittedMoments
from cotempo.series.fedtdd import FedTDD
from cotempo.series.filling.gaps import interpolate
from cotempo.series.fitted import FittedFedTDD, Imputed, SeriesModel
from cotempo.series.seriesmoments import MomentsModel, SeriesMoments

__all__ = [
    "FedMoments",
    "FedTDD",
    "FittedFedTDD",
    "FittedMoments",
    "Imputed",
    "MomentsModel",
    "SeriesDiffusion",
    "SeriesModel",
    "SeriesMoments",
    "interpolate",
]
