"""Learn together from time-stamped data that must not leave its owners."""

from cotempo.data import Events, Posts, Series, read_events, read_posts, read_series
from cotempo.errors import CotempoError
from cotempo.federation.fitted import load
from cotempo.federation.mean import FedMean
from cotempo.federation.participation import Participation
from cotempo.fitting import dry_run, fit, resume

__version__ = "0.1.0"
