"""Tables of clients' time-stamped data: readers, splits, partitions, masks and generators."""

from cotempo.data.description import ClientDescription, Description, describe
from cotempo.data.events import Events
from cotempo.data.generate.events import EventsTruth, make_events
from cotempo.data.generate.posts import LatentEvent, PostsTruth, make_posts
from cotempo.data.generate.series import SeriesTruth, make_series
from cotempo.data.masks import hide, mask_cells, mask_rows
from cotempo.data.posts import Posts
from cotempo.data.public import read_crisislex, read_event_sequences, read_forecasting_csv, read_tsf
from cotempo.data.read.events import read_events
from cotempo.data.read.posts import read_posts
from cotempo.data.read.reader import detect_kind
from cotempo.data.read.series import read_series
from cotempo.data.series import Series
from cotempo.data.splits import partition, split_by_sequence, split_by_time
from cotempo.data.tables import GENERATORS, KINDS, READERS, Schema, Table, client_names, numbered
from cotempo.data.writing import clients_to_frame, write_clients

__all__ = [
    "GENERATORS",
    "KINDS",
    "READERS",
    "ClientDescription",
    "Description",
    "Events",
    "EventsTruth",
    "LatentEvent",
    "Posts",
    "PostsTruth",
    "Schema",
    "Series",
    "SeriesTruth",
    "Table",
    "client_names",
    "clients_to_frame",
    "describe",
    "detect_kind",
    "hide",
    "make_events",
    "make_posts",
    "make_series",
    "mask_cells",
    "mask_rows",
    "numbered",
    "partition",
    "read_crisislex",
    "read_event_sequences",
    "read_events",
    "read_forecasting_csv",
    "read_posts",
    "read_series",
    "read_tsf",
    "split_by_sequence",
    "split_by_time",
    "write_clients",
]
