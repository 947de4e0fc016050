"""Survey: before learning, compare the sites' tables by sums, and tell each site what is wrong with its own."""

from cotempo.surveys.fitted import FittedSurvey
from cotempo.surveys.method import EventsSurvey, PostsSurvey, SeriesSurvey, survey
from cotempo.surveys.trials import Finding

__all__ = ["EventsSurvey", "Finding", "FittedSurvey", "PostsSurvey", "SeriesSurvey", "survey"]
