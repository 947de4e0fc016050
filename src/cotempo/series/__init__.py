"""Series: filling and generating time series that are spread over owners and misaligned."""

from cotempo.series.diffusion import SeriesDiffusion
from cotempo.series.fedmoments import FedMoments, FittedMoments
from cotempo.series.fedtdd import FedTDD
from cotempo.series.fitted import FittedFedTDD
from cotempo.series.imputed import Imputed
from cotempo.series.filling.interpolation import carry_forward, interpolate
from cotempo.series.owner import SeriesModel
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
    "carry_forward",
    "interpolate",
]
