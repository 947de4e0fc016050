"""`triplet_loss` over pairs inside a batch, and `event_constraint` (GLECC). Imports torch: import it late."""

import torch

MOST_PAIRS = 20_000
MARGIN = 3.0


def distances(vectors: torch.Tensor) -> torch.Tensor:
    """Return Euclidean distances between all rows, ``(rows, rows)``, with a gradient that stays finite at zero."""
    squares = (vectors**2).sum(dim=1)
    gaps = squares[:, None] + squares - 2 * vectors @ vectors.T
    return torch.sqrt(gaps.clamp_min(1e-12))


def triplet_loss(vectors: torch.Tensor, codes: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return the mean of ``max(D(m, m+) - D(m, m-) + 3, 0)`` for vectors ``(posts, outputs)`` (equation 14).

    Every pair (m, m+) of one event is taken, at most 20,000 of them; m- is a random post of another event among those
    that violate the margin. Without such triplets the loss is zero.
    """
    gaps = distances(vectors)
    same = codes[:, None] == codes
    anchor, positive = torch.nonzero(torch.triu(same, diagonal=1), as_tuple=True)
    if len(anchor) > MOST_PAIRS:
        chosen = torch.randperm(len(anchor), generator=generator)[:MOST_PAIRS].to(anchor.device)
        anchor, positive = anchor[chosen], positive[chosen]
    if not len(anchor) or bool(same.all()):
        return vectors.sum() * 0.0
    # The first post in a random order that violates the margin is a random violating one.
    order = torch.randperm(len(vectors), generator=generator).to(anchor.device)
    reach = gaps.detach()[anchor, positive] + MARGIN
    violates = (gaps.detach()[anchor][:, order] < reach[:, None]) & ~same[anchor][:, order]
    found = violates.any(dim=1)
    if not bool(found.any()):
        return vectors.sum() * 0.0
    negative = order[violates[found].float().argmax(dim=1)]
    anchor, positive = anchor[found], positive[found]
    return torch.relu(gaps[anchor, positive] - gaps[anchor, negative] + MARGIN).mean()


def event_centres(vectors: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Return the mean vector of every event in the batch (equation 15), ``(events, outputs)``."""
    present, place = torch.unique(codes, return_inverse=True)
    total = vectors.new_zeros(len(present), vectors.shape[1]).index_add(0, place, vectors)
    return total / torch.bincount(place, minlength=len(present))[:, None]


def event_constraint(common: torch.Tensor, own: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Return the mean distance between two models' event centres (equation 16)."""
    gaps = event_centres(common, codes) - event_centres(own, codes)
    return torch.sqrt((gaps**2).sum(dim=1).clamp_min(1e-12)).mean()
