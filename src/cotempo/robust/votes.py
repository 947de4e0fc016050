"""`count_votes`: a choice among alternatives that a minority cannot force on the others."""

from __future__ import annotations

import numpy as np

from cotempo.robust.screening import FEWEST
from cotempo.typing import Floats

#: The share of votes left out at either end.
CUT = 0.3
#: How much the winner may cost the middle voter, in nats; more than chance makes of held-out likelihoods.
TOLERATED = 0.5


def count_votes(votes: Floats, total: Floats) -> Floats:
    """Return the sum of votes, ``(clients, ..., alternatives)``, or, in its place, the votes of those in between.

    A vote is a log-likelihood of what a client has held out; one of zeros is none. The sum's winner may be the wish of
    a few, who lie or differ much from all others. If it costs those in the middle too much, against what each of them
    would choose, the trimmed mean of these costs decides instead.

    Examples
    --------
    >>> votes = np.array([[-1.0, -2.0]] * 6 + [[-900.0, 0.0]] * 2)
    >>> count_votes(votes, votes.sum(axis=0)).tolist()
    [0.0, -8.0]
    """
    total = total.copy()
    for place in np.ndindex(votes.shape[1:-1]):
        given = votes[(slice(None), *place)]
        given = given[given.any(axis=1)]
        if len(given) < FEWEST:
            continue
        costs = given - given.max(axis=1, keepdims=True)
        cut = int(CUT * len(costs))
        middle = np.sort(costs, axis=0)[cut : len(costs) - cut].mean(axis=0)
        if middle.max() - middle[total[place].argmax()] > TOLERATED:
            total[place] = len(costs) * middle
    return total
