"""A network of one's own, with rows borrowed from the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cotempo.networks.compare import log_densities, varying
from cotempo.networks.gram import Gram
from cotempo.networks.network import Network
from cotempo.networks.search.orders import Prior, learn_order
from cotempo.networks.search.search_result import Found
from cotempo.networks.search.wishes import Wishes

FloatArray = NDArray[np.float64]

#: Rows borrowed from the others per row of one's own; the last borrows all of them.
SHARES = np.array([0.0, 0.5, 1.0, 2.0, np.inf])
FOLDS = 3


def learn_personal(
    own: Gram,
    others: Gram,
    share: float,
    wishes: Wishes,
    rng: np.random.Generator,
    *,
    restarts: int,
    averaged: bool = True,
    scaled: bool = True,
) -> Found:
    """Learn a client's network from its Gram and a share of the others'.

    The others' Gram enters as if summed over ``share`` times the client's own rows: it decides where the client's rows
    do not tell, and is outvoted where they do.
    """
    borrowed = min(share * own.rows, others.rows)
    prior = Prior(others.gram * (borrowed / others.rows), borrowed) if borrowed > 0 else None
    count = wishes.forbidden.shape[1]
    lags = wishes.forbidden.shape[0] - 1
    gram = own.gram + 1e-9 * np.diag(own.gram.diagonal() + others.gram.diagonal() / max(others.rows, 1.0))
    # The Bayesian evidence whatever the rows: a penalty that counts borrowed rows as own ones selects too little.
    return learn_order(
        gram, own.rows, count, lags, rng, restarts=restarts, evidence="bayes", prior=prior, averaged=averaged,
        scaled=scaled, **wishes.arguments,
    )  # fmt: skip


def score_shares(
    rows: FloatArray, others: Gram, wishes: Wishes, rng: np.random.Generator, *, scaled: bool = True
) -> FloatArray:
    """Score each share by the log-density of held-out blocks of rows, in nats per row, `(shares,)`."""
    lags = wishes.forbidden.shape[0] - 1
    scores = np.zeros(len(SHARES))
    blocks = np.array_split(np.arange(len(rows)), FOLDS)
    for judged in blocks:
        # Rows beside the judged block share cells with it through their lags.
        near = np.arange(judged[0] - lags, judged[-1] + lags + 1)
        seen = rows[np.setdiff1d(np.arange(len(rows)), near)]
        if len(seen) < 3:
            continue
        kept = varying(seen[:, : wishes.forbidden.shape[1]])
        mean = seen.mean(axis=0)
        centred = seen - mean
        side = rows.shape[1]
        own = Gram(centred.T @ centred, float(len(seen)), mean, np.zeros((side, side), np.bool_), 0.0)
        for index, share in enumerate(SHARES):
            found = learn_personal(own, others, float(share), wishes, rng, restarts=0, averaged=False, scaled=scaled)
            density = log_densities(rows[judged], Network(found.within, found.across), mean, found.variance)
            scores[index] += float(density[:, kept].sum()) / len(rows)
    return scores
