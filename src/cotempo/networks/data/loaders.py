"""`read_dream4` and `read_netsim`: the two data sets of the papers, cut into clients as the papers cut them.

Both are read as published, DREAM4's ``.tsv`` and NetSim's ``.mat`` (`published.py`), or from ``.npz`` files of plain
arrays. `read_dream4` wants ``ts (networks, series, times, genes)``, ``gold (networks, genes, genes)`` and ``time
(times,)``; `read_netsim` wants ``sim{1,2,3}_ts (subjects, times, nodes)`` and ``sim{1,2,3}_net (subjects, nodes,
nodes)``. Adjacency is ``[source, target]``.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series, client_names
from cotempo.errors import DataError, ParameterError
from cotempo.networks.data.published import dream4_arrays, netsim_arrays
from cotempo.networks.network import Network, variable_names

#: DREAM4's perturbations are taken away at this time, half way through each series.
DREAM4_PERTURBED_UNTIL = 500.0

#: Subjects the papers used, counted from 1, by nodes: for FDBNL each is cut into five clients, for PFDBNL each is one.
NETSIM_SUBJECTS = {
    "FDBNL": {5: (3, 6, 9, 12, 15), 10: (2, 4, 6, 8, 10), 15: (1, 3, 5, 7, 9)},
    "PFDBNL": {5: (2, 4, 6, 8, 10), 10: (1, 3, 5, 7, 9), 15: (1, 3, 5, 7, 9)},
}

_SIMULATIONS = {5: "sim1", 10: "sim2", 15: "sim3"}


def read_dream4(
    path: str | Path, network: int | None = None, clients: int = 5
) -> tuple[dict[str, Series], Network | dict[str, Network]]:
    """Read DREAM4's InSilico time series from the folder of its ``.tsv`` files, or from an ``.npz`` file.

    The folder, at any depth, holds ``insilico_size100_1_timeseries.tsv`` and its gold standard,
    ``insilico_size100_1_goldstandard.tsv`` or ``DREAM4_GoldStandard_InSilico_Size100_1.tsv``, for every network.

    One `network`, from 1 to 5: its ten series are dealt to `clients`, as for FDBNL in the papers. Without it every
    network is one client with all its series, as for PFDBNL.

    Returns
    -------
    clients : dict from str to Series
    truth : Network, or dict from str to Network where every network is a client
        Edges of lag 1 with weight 1.
    """
    arrays = dream4_arrays(Path(path)) if Path(path).is_dir() else _arrays(path, ("ts", "gold", "time"))
    series, gold, time = arrays["ts"].astype(np.float64), arrays["gold"], arrays["time"].astype(np.float64)
    genes = tuple(f"G{number}" for number in range(1, series.shape[3] + 1))
    truths = [Network(np.zeros(edges.shape), edges[None].astype(np.float64), genes) for edges in gold]
    if network is None:
        names = [f"network-{number}" for number in range(1, len(series) + 1)]
        tables = [Series.from_arrays(list(one), [time] * len(one), genes) for one in series]
        return dict(zip(names, tables, strict=True)), dict(zip(names, truths, strict=True))
    _within("network", network, 1, len(series))
    own = series[network - 1]
    _within("clients", clients, 1, len(own))
    dealt = np.array_split(np.arange(len(own)), clients)
    tables = [Series.from_arrays(list(own[part]), [time] * len(part), genes) for part in dealt]
    return dict(zip(client_names(clients), tables, strict=True)), truths[network - 1]


def read_netsim(
    path: str | Path, nodes: int = 5, subject: int | None = None, clients: int = 5, *, subjects: Sequence[int] = ()
) -> tuple[dict[str, Series], Network | dict[str, Network]]:
    """Read the NetSim simulations of fMRI with 5, 10 or 15 nodes (simulations 1, 2 and 3).

    They lie in ``sim1.mat``, ``sim2.mat`` and ``sim3.mat``: give one of them, or the folder of all, or an ``.npz``
    file.

    One `subject`, from 1: its time steps are cut into `clients` consecutive parts, as for FDBNL in the papers. Without
    it each of `subjects`, by default the papers' five, is one client, as for PFDBNL.

    Returns
    -------
    clients : dict from str to Series
    truth : Network, or dict from str to Network where every subject is a client
        Effects inside a time step: they are faster than the scanner. The self decay on the diagonal is left out.

    References
    ----------
    Smith et al. (2011), Network modelling methods for FMRI.
    """
    if nodes not in _SIMULATIONS:
        raise ParameterError(f"nodes must be one of {tuple(_SIMULATIONS)}, got {nodes}")
    simulation = _SIMULATIONS[nodes]
    if Path(path).is_dir() or Path(path).suffix == ".mat":
        series, weights = netsim_arrays(Path(path), simulation, nodes)
    else:
        arrays = _arrays(path, (f"{simulation}_ts", f"{simulation}_net"))
        series, weights = (arrays[f"{simulation}_{part}"].astype(np.float64) for part in ("ts", "net"))
    names = variable_names(nodes)
    within = weights * ~np.eye(nodes, dtype=np.bool_)
    if subject is not None:
        _within("subject", subject, 1, len(series))
        _within("clients", clients, 1, series.shape[1])
        parts = np.array_split(series[subject - 1], clients)
        tables = [Series.from_arrays(part, features=names) for part in parts]
        truth = Network(within[subject - 1], np.zeros((0, nodes, nodes)), names)
        return dict(zip(client_names(clients), tables, strict=True)), truth
    chosen = tuple(subjects) or NETSIM_SUBJECTS["PFDBNL"][nodes]
    for one in chosen:
        _within("subjects", one, 1, len(series))
    return (
        {f"subject-{one:02}": Series.from_arrays(series[one - 1], features=names) for one in chosen},
        {f"subject-{one:02}": Network(within[one - 1], np.zeros((0, nodes, nodes)), names) for one in chosen},
    )


def _arrays(path: str | Path, names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in names if name not in file]
            if not missing:
                return {name: file[name] for name in names}
    except (OSError, ValueError) as error:
        raise DataError(f"{path} must be an .npz file with the arrays {', '.join(names)}: {error}") from error
    raise DataError(f"{path} must hold the arrays {', '.join(names)}; {', '.join(missing)} are not there")


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ParameterError(f"{name} must lie between {low} and {high}, got {value}")
