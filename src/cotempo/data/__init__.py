"""Time-stamped data of clients: tables, readers, splits, partitions, masks and generators."""

from cotempo.data.description import Description, describe, detect_kind
from cotempo.data.events import Events
from cotempo.data.events_reader import read_events
from cotempo.data.posts import Posts
from cotempo.data.posts_reader import read_posts
from cotempo.data.series import Series
from cotempo.data.series_reader import read_series
from cotempo.data.tables import Schema, Table
