"""Clients at their own sites, on Flower: the extra ``cotempo[flower]``, the only package that imports flwr.

Flower's server carries the bytes: TLS, node keys, queues, a database. What is said stays cotempo's: the one loop runs
in the process that a person started, and one worker per site answers. Both speak Flower's wire themselves, so no
process is started per message, no code that came over the wire is ever run, and what Flower does not document is hardly
touched.

===============  ==================================================================================
`coordinator/`   the process that a person started, with the loop, and the server, Flower's SuperLink
`site/`          a site's processes: daemon and worker
`simulation`     virtual clients under Ray instead of sites
`protocol`       what crosses: verbs, parts, versions; `wire` sends them, `transport` is one exchange
`patches`        every use of a name that Flower does not document
`provision`      certificates, keys and startup kits, from the templates in `kit/`
===============  ==================================================================================
"""

import os
from importlib.util import find_spec

from cotempo.errors import EngineError

if find_spec("flwr") is None:
    raise EngineError("flwr must be installed for this engine; pip install 'cotempo[flower]'")

# Nothing in Flower or Ray may call out. flwr reads this when it is imported; processes that we start inherit it.
os.environ.update(
    FLWR_TELEMETRY_ENABLED="0",
    FLWR_DISABLE_UPDATE_CHECK="1",
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
)
