"""`score_network`: the distance of a learned network from the true one."""

from collections.abc import Mapping

import numpy as np
from scipy.stats import rankdata

from cotempo.errors import DataError
from cotempo.networks.network import Network
from cotempo.typing import Bools, Floats


def score_network(found: Network | Mapping[str, Network], truth: Network | Mapping[str, Network]) -> dict[str, float]:
    """Compare a network with the truth, or many with theirs and average over clients.

    Every number comes for the edges within a time step (``within_...``), across time steps (``across_...``) and
    for both together (no prefix):

    ``shd``, ``shd_double``
        Structural Hamming distance: edges too many plus edges missing. A reversed edge counts 1 in ``shd`` and 2
        in ``shd_double``. Across time steps nothing can be reversed, and the two are equal.
    ``tpr``, ``fdr``, ``f1``
        True edges found; found edges that are false (a reversed one is false); their harmonic summary
        ``2 TP / (2 TP + FP + FN)``. Nothing to find is tpr 1, nothing found is fdr 0.
    ``within_auroc``, ``within_aupr``, ``across_auroc``, ``across_aupr``
        Areas under the ROC and the precision-recall curve (average precision) when edges are ranked by |weight|.
        Within, the diagonal is left out, as it is zero by definition. Across, a variable's effect on its own
        future is a real edge and counts; ``across_auroc_off_diagonal`` and ``across_aupr_off_diagonal`` leave it
        out, for data where it is not scored. Undefined areas (no edge, or no non-edge) are NaN.

    Parameters
    ----------
    found, truth : Network, or mapping from client to Network
        A single network on one side stands for every client of the other.

    Returns
    -------
    dict from str to float

    Examples
    --------
    >>> truth = Network([[0.0, 0.5], [0.0, 0.0]], [[[0.4, 0.0], [0.0, 0.0]]])
    >>> found = Network([[0.0, 0.0], [0.5, 0.0]], [[[0.4, 0.0], [0.0, 0.0]]])
    >>> scores = score_network(found, truth)
    >>> scores["within_shd"], scores["within_shd_double"], scores["across_shd"], scores["f1"]
    (1.0, 2.0, 0.0, 0.5)
    """
    if isinstance(found, Network) and isinstance(truth, Network):
        return _score_one(found, truth)
    pairs = _pair_up(found, truth)
    scores = [_score_one(one, true) for one, true in pairs]
    return {name: _mean_of_defined([score[name] for score in scores]) for name in scores[0]}


def area_under_roc(scores: Floats, labels: Bools) -> float:
    """Return the chance that a true edge outranks a false one, ties counting half.

    Examples
    --------
    >>> area_under_roc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False]))
    0.875
    """
    positives, negatives = int(labels.sum()), int((~labels).sum())
    if positives == 0 or negatives == 0:
        return float("nan")
    rank_sum = float(rankdata(scores)[labels].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def average_precision(scores: Floats, labels: Bools) -> float:
    """Return ``sum_n (recall_n - recall_{n-1}) precision_n`` over the distinct scores, highest first.

    Examples
    --------
    >>> round(average_precision(np.array([0.9, 0.8, 0.7]), np.array([True, False, True])), 4)
    0.8333
    """
    if not labels.any() or labels.all():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(labels[order])
    last_of_tie = np.append(np.flatnonzero(scores[order][1:] != scores[order][:-1]), len(scores) - 1)
    hits_there = hits[last_of_tie]
    precision = hits_there / (last_of_tie + 1)
    return float((np.diff(hits_there, prepend=0) * precision).sum() / hits[-1])


def check_comparable(found: Network, truth: Network) -> None:
    """Raise `DataError` unless both networks have the same variables and lags."""
    if found.variables != truth.variables or found.lags != truth.lags:
        raise DataError(
            "found and true network must have the same variables, in the same order, and lags, got "
            f"{found.variables} with {found.lags} lags and {truth.variables} with {truth.lags}"
        )


def _score_one(found: Network, truth: Network) -> dict[str, float]:
    check_comparable(found, truth)
    off_diagonal = ~np.eye(len(truth.variables), dtype=np.bool_)
    lagged = np.broadcast_to(off_diagonal, truth.across.shape)
    everywhere = np.ones(truth.across.shape, dtype=np.bool_)
    within, across = (found.within != 0, truth.within != 0), (found.across != 0, truth.across != 0)
    reversed_edges = _reversed(*within)
    both = tuple(np.append(one.ravel(), other.ravel()) for one, other in zip(within, across, strict=True))
    return {
        **_counts("within_", *within, reversed_edges),
        **_areas("within_", "", found.within, within[1], off_diagonal),
        **_counts("across_", *across, 0),
        **_areas("across_", "", found.across, across[1], everywhere),
        **_areas("across_", "_off_diagonal", found.across, across[1], lagged),
        **_counts("", both[0], both[1], reversed_edges),
    }


def _reversed(found: Bools, truth: Bools) -> int:
    only_forward = truth & ~truth.T
    return int((only_forward & found.T & ~found).sum())


def _counts(prefix: str, found: Bools, truth: Bools, reversed_edges: int) -> dict[str, float]:
    right, extra, missing = int((found & truth).sum()), int((found & ~truth).sum()), int((truth & ~found).sum())
    return {
        f"{prefix}shd": float(extra + missing - reversed_edges),
        f"{prefix}shd_double": float(extra + missing),
        f"{prefix}tpr": right / (right + missing) if right + missing else 1.0,
        f"{prefix}fdr": extra / (right + extra) if right + extra else 0.0,
        f"{prefix}f1": 2 * right / (2 * right + extra + missing) if right + extra + missing else 1.0,
    }


def _areas(prefix: str, suffix: str, weights: Floats, truth: Bools, cells: Bools) -> dict[str, float]:
    scores, labels = np.abs(weights[cells]), truth[cells]
    return {
        f"{prefix}auroc{suffix}": area_under_roc(scores, labels),
        f"{prefix}aupr{suffix}": average_precision(scores, labels),
    }


def _pair_up(
    found: Network | Mapping[str, Network], truth: Network | Mapping[str, Network]
) -> list[tuple[Network, Network]]:
    mappings = [side for side in (found, truth) if not isinstance(side, Network)]
    clients = sorted(mappings[0])
    if any(sorted(mapping) != clients for mapping in mappings):
        raise DataError(
            f"found and true networks must name the same clients, got {[sorted(side) for side in mappings]}"
        )
    if not clients:
        raise DataError("at least one client's network must be given, got an empty mapping")

    def of(side: Network | Mapping[str, Network], client: str) -> Network:
        return side if isinstance(side, Network) else side[client]

    return [(of(found, client), of(truth, client)) for client in clients]


def _mean_of_defined(values: list[float]) -> float:
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")
