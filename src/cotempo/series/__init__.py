"""Series: filling and generating time series that are spread over owners and misaligned."""

from cotempo.series.comparison import Comparison
from cotempo.series.diffusion import SeriesDiffusion
from cotempo.series.fedmoments import FedMoments, FittedMoments
from cotempo.series.fedtdd import FedTDD
from cotempo.series.filling.gaps import interpolate
from cotempo.series.fitted import FittedFedTDD, SeriesModel
from cotempo.series.generators import Generator, register_generator
from cotempo.series.imputed import Forecast, Imputed
from cotempo.series.seriesmoments import MomentsModel, SeriesMoments

__all__ = [
    "Comparison",
    "FedMoments",
    "FedTDD",
    "FittedFedTDD",
    "FittedMoments",
    "Forecast",
    "Generator",
    "Imputed",
    "MomentsModel",
    "SeriesDiffusion",
    "SeriesModel",
    "SeriesMoments",
    "interpolate",
    "register_generator",
]
