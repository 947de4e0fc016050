"""Readers of public data sets, in the files people find: forecasting CSV, Monash .tsf, event archives, CrisisLex."""

from cotempo.data.public.crisislex import read_crisislex
from cotempo.data.public.event_archives import read_event_sequences
from cotempo.data.public.forecasting import read_forecasting_csv
from cotempo.data.public.monash import read_tsf

__all__ = ["read_crisislex", "read_event_sequences", "read_forecasting_csv", "read_tsf"]
