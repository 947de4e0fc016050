"""`learn_personal`: a client's own network, with rows borrowed from the others."""

import numpy as np

from cotempo.networks.moments import Gram, log_densities, varying
from cotempo.networks.network import Network
from cotempo.networks.search.orders import SearchOptions, SearchResult, learn_order
from cotempo.networks.search.prior_knowledge import PriorKnowledge
from cotempo.typing import Floats

#: Rows borrowed from the others per own row; the last borrows all of them.
SHARES = np.array([0.0, 0.5, 1.0, 2.0, np.inf])
FOLDS = 3


def learn_personal(
    own: Gram, others: Gram, share: float, knowledge: PriorKnowledge, rng: np.random.Generator, options: SearchOptions
) -> SearchResult:
    """Learn a client's network from its Gram and a share of the others'.

    The others' Gram enters as if summed over ``share`` times the client's own rows: it decides where the client's rows
    are ambiguous. The options should ask for the Bayesian evidence whatever the rows: a penalty that counts borrowed
    rows as own ones selects too little.
    """
    return learn_order(*borrow(own, others, share), knowledge, rng, options)


def borrow(own: Gram, others: Gram, share: float) -> tuple[Floats, float]:
    """Return the Gram of own and borrowed rows, and how many these are."""
    borrowed = min(share * own.rows, others.rows)
    gram = own.gram + 1e-9 * np.diag(own.gram.diagonal() + others.gram.diagonal() / max(others.rows, 1.0))
    if borrowed > 0:
        gram = gram + others.gram * (borrowed / others.rows)
    return gram, own.rows + max(borrowed, 0.0)


def score_shares(
    rows: Floats, others: Gram, knowledge: PriorKnowledge, rng: np.random.Generator, *, scaled: bool = True
) -> Floats:
    """Score each share by the log-density of held-out blocks of rows, in nats per row, `(shares,)`."""
    options = SearchOptions("bayes", restarts=0, averaged=False, scaled=scaled)
    scores = np.zeros(len(SHARES))
    for judged in np.array_split(np.arange(len(rows)), FOLDS):
        # Rows beside the judged block share cells with it through their lags.
        near = np.arange(judged[0] - knowledge.lags, judged[-1] + knowledge.lags + 1)
        seen = rows[np.setdiff1d(np.arange(len(rows)), near)]
        if len(seen) < 3:
            continue
        kept, own = varying(seen[:, : knowledge.variables]), Gram.of_rows(seen)
        for index, share in enumerate(SHARES):
            found = learn_personal(own, others, float(share), knowledge, rng, options)
            density = log_densities(rows[judged], Network(found.within, found.across), own.mean, found.variance)
            scores[index] += float(density[:, kept].sum()) / len(rows)
    return scores


def judge_shares(
    rows: Floats,
    mean: Floats,
    own: Gram,
    others: Gram,
    knowledge: PriorKnowledge,
    rng: np.random.Generator,
    scaled: bool,
) -> Floats:
    """Return the log-density of held-out rows under the network of each share, `(shares, rows)`."""
    options = SearchOptions("bayes", restarts=0, averaged=False, scaled=scaled)
    found = [learn_personal(own, others, float(share), knowledge, rng, options) for share in SHARES]
    return np.array(
        [log_densities(rows, Network(one.within, one.across), mean, one.variance).sum(axis=1) for one in found]
    )
