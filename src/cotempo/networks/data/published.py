"""The files of DREAM4 and NetSim as published, as arrays: tables of tabs, and MATLAB's ``.mat``."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from cotempo.errors import DataError
from cotempo.typing import Floats

SERIES = re.compile(r"_(\d+)_timeseries\.tsv$", re.IGNORECASE)
GOLD = re.compile(r"goldstandard\D*\d*_(\d+)\.tsv$|_(\d+)_goldstandard\.tsv$", re.IGNORECASE)


def dream4_arrays(folder: Path) -> dict[str, Floats]:
    """Return ``ts, gold, time`` of all networks in a folder of ``.tsv`` files."""
    found: dict[str, dict[int, Path]] = {"series": {}, "gold": {}}
    for path in sorted(folder.rglob("*.tsv")):
        for kind, pattern in (("series", SERIES), ("gold", GOLD)):
            if match := pattern.search(path.name):
                number = int(next(group for group in match.groups() if group))
                if number in found[kind]:
                    raise DataError(f"{folder} must hold one file a network, got {found[kind][number]} and {path}")
                found[kind][number] = path
    if not found["series"] or found["series"].keys() != found["gold"].keys():
        names = {kind: ", ".join(map(str, files)) or "none" for kind, files in found.items()}
        raise DataError(
            f"{folder} must hold *_N_timeseries.tsv and a gold standard for every network N, "
            f"got series of {names['series']} and gold standards of {names['gold']}"
        )
    parts = [_dream4_series(path) for _, path in sorted(found["series"].items())]
    if len({(time.tobytes(), ts.shape, genes) for time, ts, genes in parts}) != 1:
        raise DataError(f"{folder} must hold networks of one size, with the same times")
    gold = [_dream4_gold(path, parts[0][2]) for _, path in sorted(found["gold"].items())]
    return {"ts": np.array([ts for _, ts, _ in parts]), "gold": np.array(gold), "time": parts[0][0]}


def _dream4_series(path: Path) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Return times, ``(series, times, genes)`` and the genes; every time 0 begins a series."""
    try:
        frame = pd.read_csv(path, sep="\t").astype(np.float64)
    except ValueError as error:
        raise DataError(f"{path} must be a table of numbers with tabs between them, got: {error}") from error
    genes = tuple(str(name) for name in frame.columns[1:])
    if str(frame.columns[0]) != "Time" or genes != tuple(f"G{i}" for i in range(1, len(genes) + 1)) or not genes:
        raise DataError(f"{path} must have the columns Time, G1, G2, ..., got {', '.join(map(str, frame.columns[:3]))}")
    time = frame["Time"].to_numpy()
    starts = np.flatnonzero(time == time[0])
    length = len(time) // len(starts)
    if len(time) != length * len(starts) or (time.reshape(len(starts), length) != time[:length]).any():
        raise DataError(f"{path} must hold series with the same times, each from {time[0]:g} on")
    return time[:length], frame.to_numpy()[:, 1:].reshape(len(starts), length, len(genes)), genes


def _dream4_gold(path: Path, genes: tuple[str, ...]) -> Floats:
    """Return the true network, ``[source, target]``, from lines ``source, target, 0 or 1``."""
    places = {gene: place for place, gene in enumerate(genes)}
    found = np.zeros((len(genes), len(genes)))
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        words = line.split()
        if words and (len(words) != 3 or not {*words[:2]} <= places.keys() or words[2] not in ("0", "1")):
            raise DataError(f"{path}, line {number}: must be two genes and 0 or 1, got {line!r}")
        if words:
            found[places[words[0]], places[words[1]]] = float(words[2])
    return found


def netsim_arrays(path: Path, simulation: str, nodes: int) -> tuple[Floats, Floats]:
    """Return ``(subjects, times, nodes)`` and the weights ``(subjects, nodes, nodes)`` of a ``.mat`` file."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    path = path / f"{simulation}.mat" if path.is_dir() else path
    try:
        arrays = loadmat(path, variable_names=("ts", "net", "Nsubjects"))
        series, weights = (np.asarray(arrays[name], dtype=np.float64) for name in ("ts", "net"))
        subjects = int(np.asarray(arrays.get("Nsubjects", len(weights))).reshape(-1)[0])
    except KeyError as error:
        raise DataError(f"{path} must hold the arrays ts and net, {error} is not there") from None
    except (OSError, ValueError, TypeError, NotImplementedError, MatReadError) as error:
        raise DataError(f"{path} must be a .mat file of version 7.2 or older, got: {error}") from error
    right = series.ndim == 2 and subjects > 0 and len(series) % max(subjects, 1) == 0 and series.shape[1] == nodes
    if not right or weights.shape != (subjects, nodes, nodes):
        raise DataError(
            f"{path} must hold {nodes} nodes of {subjects} subjects, got ts of shape {series.shape} and net of "
            f"shape {weights.shape}"
        )
    return series.reshape(subjects, -1, nodes), weights
