"""The short way to a ranking of edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from cotempo.networks.ranked import Ranking
from cotempo.networks.ranking import EdgeRanking, Score


def rank_edges(
    clients: Mapping[str, Any],
    score: Score = "chosen",
    lags: int | Literal["auto"] = "auto",
    seed: int = 0,
    *,
    options: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Ranking:
    """Rank all edges by how sure they are, in one round and from sums over clients alone.

    Parameters
    ----------
    clients : mapping from str to Series or dataframe
    score, lags
        See `EdgeRanking`, also for the further `parameters`.
    seed : int
        Decides the Fourier features; other scores draw nothing.
    options : mapping, optional
        Options of `cotempo.fit`. A client that cannot answer is an error here, not left out, unless the options say
        otherwise by ``quorum``.

    Returns
    -------
    Ranking

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=5, clients=4, samples=400, degree=0, seed=0)
    >>> ranking = ct.rank_edges(clients, score="granger")
    >>> list(ranking.to_frame().columns)
    ['source', 'target', 'score']
    """
    method = EdgeRanking(score=score, lags=lags, **parameters)
    fitted = method.fit(clients, **{"seed": seed, "quorum": 1.0, **(options or {})})
    ranking: Ranking = fitted.ranking
    return ranking
