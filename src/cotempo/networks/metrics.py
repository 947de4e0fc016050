"""`score_network`: the distance of a learned network from the true one."""

from collections.abc import Iterable, Mapping

import numpy as np
from scipy.stats import rankdata

from cotempo.data.problems import list_names
from cotempo.errors import DataError, warn
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
    ``pair_shd``, ``pair_tpr``, ``pair_fdr``, ``pair_f1``
        The same for edges between different variables, at whatever lag: for a truth without lags and without effects of
        variables on themselves, as most known networks are.
    ``within_auroc``, ``within_aupr``, ``across_auroc``, ``across_aupr``
        Areas under the ROC and the precision-recall curve (average precision) when edges are ranked by |weight|,
        within a time step off the diagonal. ``across_auroc_off_diagonal`` and ``across_aupr_off_diagonal`` leave
        variables' effects on their own future out. Undefined areas (no edge, or no non-edge) are NaN.

    Parameters
    ----------
    found, truth : Network, or mapping from client to Network
        A single network on one side stands for every client of the other. Variables go by their names: the truth may
        have them in another order, and further ones, which are left out.

    Examples
    --------
    >>> truth = Network([[0.0, 0.5], [0.0, 0.0]], [[[0.4, 0.0], [0.0, 0.0]]])
    >>> found = Network([[0.0, 0.0], [0.5, 0.0]], [[[0.4, 0.0], [0.0, 0.0]]])
    >>> scores = score_network(found, truth)
    >>> scores["within_shd"], scores["within_shd_double"], scores["across_shd"], scores["f1"]
    (1.0, 2.0, 0.0, 0.5)
    """
    for word, given in (("found", found), ("truth", truth)):
        each = list(given.values()) if isinstance(given, Mapping) else [given]
        wrong = [one for one in each if not isinstance(one, Network)]
        if wrong:
            raise DataError(
                f"{word} must be a Network, or a mapping from client to Network, got {type(wrong[0]).__name__}; of a "
                "dataframe make one with Network.from_frame(frame, variables), of an array with Network(within, across)"
            )
    if isinstance(found, Network):
        if isinstance(truth, Network):
            return _score_one(found, truth)
        found = dict.fromkeys(truth, found)
    if isinstance(truth, Network):
        truth = dict.fromkeys(found, truth)
    clients = sorted(found)
    if sorted(truth) != clients:
        raise DataError(f"found and true networks must name the same clients, got {clients} and {sorted(truth)}")
    if not clients:
        raise DataError("at least one client's network must be given, got an empty mapping")
    import pandas

    scores = pandas.DataFrame([_score_one(found[client], truth[client]) for client in clients])
    return {str(name): float(mean) for name, mean in scores.mean().items()}  # over defined areas only


def areas(scores: Floats, labels: Bools) -> dict[str, float]:
    """Return the areas under the ROC and the precision-recall curve (average precision); NaN where undefined."""
    if not 0 < labels.sum() < len(labels):
        return {"auroc": np.nan, "aupr": np.nan}
    from sklearn.metrics import average_precision_score, roc_auc_score

    ranks = rankdata(scores)  # they are finite where scores may be infinite
    return {"auroc": float(roc_auc_score(labels, ranks)), "aupr": float(average_precision_score(labels, ranks))}


def comparable(found: Network, truth: Network) -> Network:
    """Return the true network among the variables that were found, in their order; refuse another number of lags."""
    if lacking := sorted({*found.variables} - {*truth.variables}):
        raise DataError(f"the true network must have all variables of the found one, it lacks {list_names(lacking)}")
    if found.lags != truth.lags:
        raise DataError(
            f"found and true network must have as many lags, got {found.lags} and {truth.lags}; "
            "Network.from_frame(truth.to_frame(), variables, lags) adds empty ones"
        )
    warn_of_further(truth.variables, found.variables)
    return truth.among(found.variables)


def warn_of_further(true: Iterable[str], found: Iterable[str]) -> None:
    """Warn of variables of the truth that were not learned, whose edges are left out."""
    if further := sorted({*true} - {*found}):
        warn(f"left out of the truth, because they were not learned: {list_names(further)}")


def _score_one(found: Network, truth: Network) -> dict[str, float]:
    truth = comparable(found, truth)
    off_diagonal = ~np.eye(len(truth.variables), dtype=np.bool_)
    lagged = np.broadcast_to(off_diagonal, truth.across.shape)
    have, want = found.stacked != 0, truth.stacked != 0
    turned = int((want[0] & ~want[0].T & have[0].T & ~have[0]).sum())
    return {
        **_counts("within_", have[0], want[0], turned),
        **_areas("within_", "", found.within, want[0], off_diagonal),
        **_counts("across_", have[1:], want[1:], 0),
        **_areas("across_", "", found.across, want[1:], np.ones_like(lagged)),
        **_areas("across_", "_off_diagonal", found.across, want[1:], lagged),
        **_counts("", have, want, turned),
        **_counts("pair_", have.any(axis=0) & off_diagonal, want.any(axis=0) & off_diagonal, 0),
    }


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
    return {f"{prefix}{name}{suffix}": area for name, area in areas(np.abs(weights[cells]), truth[cells]).items()}
