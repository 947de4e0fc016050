"""Where clients run: in this process, in a pool of processes, and (an extra) across organisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cotempo.errors import ParameterError, nearest

if TYPE_CHECKING:
    from cotempo.data import Table
    from cotempo.federation.engine import Engine
    from cotempo.federation.method import Method

ENGINES = ("inprocess", "flower-simulation", "flower")
# Options that not every engine has; `threads` and `deadline` each has.
OPTIONS = {
    "workers": ("inprocess", "flower-simulation"),
    "batched": ("inprocess",),
    "server": ("flower",),
    "participants": ("flower",),
    "share_result": ("flower",),
}


def need_own_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise `ParameterError` where an option is given that the engine does not have; nothing is swallowed."""
    if name not in ENGINES:
        raise ParameterError(f"engine must be one of {', '.join(ENGINES)}, was given {name!r}{nearest(name, ENGINES)}")
    for option, engines in OPTIONS.items():
        if options.get(option) and name not in engines:
            raise ParameterError(
                f"the engine {name} has no option {option!r}, which is for {' and '.join(engines)}, was given "
                f"{options[option]!r}; leave it out, or choose another engine"
            )
    if name == "inprocess" and options.get("workers") and options.get("batched"):
        raise ParameterError(
            "batched must be left out with workers: a batch is one call for all clients in this process, was given "
            f"workers={options['workers']}"
        )


def open_engine(name: str, method: Method, clients: Mapping[str, Table], *, seed: int, **options: Any) -> Engine:
    """Open an engine by name.

    Parameters
    ----------
    name
        `"inprocess"`: clients are called directly, or in a pool of `workers` processes. `"flower-simulation"`: many
        clients on one machine or a Ray cluster. `"flower"`: sites across organisations; `clients` are theirs.
    options
        `workers`, `batched`, `deadline`, `threads`, `server`, `participants`, `share_result`, `run`: see
        `cotempo.engines.inprocess`, `cotempo.engines.pool` and `cotempo.engines.flower`. One that the engine does not
        have is refused.
    """
    need_own_options(name, options)
    if name == "inprocess":
        return _open_here(method, clients, seed, options)
    from cotempo.engines.flower import open_flower

    return open_flower(name, method, clients, seed, options)


def _open_here(method: Method, clients: Mapping[str, Table], seed: int, options: Mapping[str, Any]) -> Engine:
    from cotempo.engines.inprocess import InProcess
    from cotempo.engines.pool import Pool

    workers, deadline = options.get("workers", 0), options.get("deadline")
    if workers < 0:
        raise ParameterError(f"workers must be at least 0 (0: no pool), was given {workers}")
    if workers:
        return Pool(method, clients, seed=seed, workers=workers, deadline=deadline, threads=options.get("threads", 1))
    if deadline is not None:
        raise ParameterError("a deadline needs workers of at least 1: a direct call cannot be cut short")
    return InProcess(method, clients, seed=seed, batched=options.get("batched") is not False)
