"""`find_unlabelled`: events that nobody labelled, among posts some of which have labels.

All posts, labelled or not, are joined into Ward's tree by their texts. Labels are given to posts of an event here and
there, so that a branch in which hardly any post has one is not about a labelled event: it is searched for new ones, if
so few labels have a probability of at most one in a thousand at the rate of the other posts. The tree of those posts is
cut into as many events as words held out tell best apart, beside the labelled ones. Those whose posts are hardly more
alike than posts of different events are none: everyday posts are about as many subjects.
At last, a classifier of the labelled posts and of those found gives all others to the event that they fit best.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cotempo.social.clustering import group_known
from cotempo.social.detector.detection import OUTLIER
from cotempo.social.detector.familiarity import EVERYDAY_ALIKE, HALVES_ALIKE, LEAST_ALIKE, Familiarity
from cotempo.social.detector.held_out_words import HeldOutWords, distinct_texts, spread
from cotempo.social.encoders.characters import CharacterEncoder
from cotempo.typing import Bools, Floats, Indices

FEW_LABELS = 0.1  # of those expected
CHANCE = 0.001
MOST_JOINED = 2000
MOST_FOUND = 12
PASSES = 2
Names = NDArray[np.object_]


def find_unlabelled(
    encoder: CharacterEncoder, texts: Sequence[str], labels: Sequence[str], times: Floats, smallest: int
) -> Indices:
    """Return for each post the number of the event found that it belongs to, -1 if it belongs to none, ``(posts,)``.

    Labels are empty where there is none; times are NaN where unknown or not used. An event has at least `smallest`
    different texts.
    """
    first, place = distinct_texts(texts)
    names = np.full(len(first), "", dtype=object)
    for post in np.flatnonzero(np.array(labels) != "").tolist():  # a copy of a labelled post is about its event
        names[place[post]] = labels[post]
    labelled, texts, times = names != "", [texts[post] for post in first], times[first]
    few = np.unique(np.linspace(0, len(first) - 1, min(len(first), MOST_JOINED)).astype(np.intp))
    nothing = np.full(len(place), -1, dtype=np.intp)
    if labelled.all() or labelled[few].sum() < 2 or len(few) < 2 * smallest:
        return nothing
    points = encoder.encode([texts[row] for row in few]).astype(np.float64)
    unlabelled = _branches(points, labelled[few], smallest)
    if not unlabelled.any():
        return nothing
    guesses = _nearest(encoder, texts, times, names, labelled, outliers=False)
    groups = _cut(encoder, texts, np.where(labelled, names, guesses), few[unlabelled], points[unlabelled], smallest)
    groups = _without_unlike(encoder, texts, names, groups)
    for _ in range(PASSES if (groups >= 0).any() else 0):
        known = np.where(labelled, names, groups)
        best = _nearest(encoder, texts, times, known, labelled | (groups >= 0))
        # Names of labelled events are texts, those of groups are numbers.
        groups = np.array(
            [-1 if own or isinstance(name, str) else name for own, name in zip(labelled, best, strict=True)]
        )
        sizes = np.bincount(groups + 1, minlength=1)[1:]
        groups = np.where((groups >= 0) & (sizes[groups] >= smallest) if len(sizes) else False, groups, -1)
    kept = np.unique(groups[groups >= 0])
    return np.where(groups < 0, -1, np.searchsorted(kept, groups))[place].astype(np.intp)


def _branches(points: Floats, labelled: Bools, smallest: int) -> Bools:
    """Return which posts without a label are in a branch of Ward's tree with hardly any label, ``(posts,)``.

    Of branches inside each other the largest counts. The rate of labels is that of the posts outside them.
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.stats import binom

    count, tree = len(points), linkage(points, "ward")[:, :2].astype(int)
    members = [np.array([row]) for row in range(count)]
    for left, right in tree:
        members.append(np.concatenate([members[left], members[right]]))
    found = np.zeros(count, dtype=bool)
    for _ in range(PASSES + 1):
        rate, nodes, found = labelled[~found].mean(), [len(members) - 1], np.zeros(count, dtype=bool)
        while nodes:
            node = nodes.pop()
            rows = members[node]
            given = labelled[rows].sum()
            if given <= FEW_LABELS * rate * len(rows) and binom.cdf(given, len(rows), rate) <= CHANCE:
                found[rows] = True
            elif len(rows) > smallest:
                nodes += tree[node - count].tolist()
        found &= ~labelled
    return found if found.sum() >= smallest else np.zeros(count, dtype=bool)


def _cut(
    encoder: CharacterEncoder, texts: Sequence[str], names: Names, rows: Indices, points: Floats, smallest: int
) -> Indices:
    """Return the numbers of events in some rows, -1 elsewhere, that words held out tell best apart, ``(texts,)``."""
    from scipy.cluster.hierarchy import fcluster, linkage

    judged = spread(len(texts))
    halves = HeldOutWords.of(encoder, [texts[row] for row in judged], smallest)
    tree = linkage(points, "ward")
    best, quality = np.full(len(texts), -1, dtype=np.intp), -1.0
    for number in range(1, min(len(rows) // smallest, MOST_FOUND) + 1):
        found = np.full(len(texts), -1, dtype=np.intp)
        found[rows] = fcluster(tree, number, "maxclust") - 1
        mixed = np.where(found >= 0, found.astype(str), np.char.add("=", names.astype(str)))
        told = halves.quality(np.unique(mixed[judged], return_inverse=True)[1])
        if told > quality:
            best, quality = found, told
    return best


def _without_unlike(encoder: CharacterEncoder, texts: Sequence[str], names: Names, groups: Indices) -> Indices:
    """Return the groups with -1 for those whose posts are not alike beside labelled events, ``(texts,)``."""
    rows = np.flatnonzero((names != "") | (groups >= 0))
    codes = np.array([f"={names[row]}" if names[row] else str(groups[row]) for row in rows.tolist()])
    kind, kept = (encoder.kind, len(encoder.weights)), [texts[row] for row in rows.tolist()]
    learned = Familiarity.of(kind, kept, codes, np.full(len(rows), np.nan))
    alike = [code for code in np.unique(groups[groups >= 0]) if learned.alike(str(code)) >= LEAST_ALIKE]
    return np.where(np.isin(groups, alike), groups, -1)


def without_unlike(
    encoder: CharacterEncoder, texts: Sequence[str], groups: Indices, points: Floats, smallest: int
) -> Indices:
    """Return groups that are alike beside each other, -1 for posts of none; of others, the halves are tried.

    A group of more than half of the posts has too little to be compared with, and stays.
    """
    if groups.max() < 1:
        return groups
    found, unknown = groups.copy(), np.full(len(texts), np.nan)
    few = np.flatnonzero(2 * np.bincount(groups) <= len(texts)).tolist()
    waiting = [(code, EVERYDAY_ALIKE) for code in few]
    while waiting:
        code, least = waiting.pop()
        rows = np.flatnonzero(found == code)
        known = np.flatnonzero(found >= 0)
        learned = Familiarity.of(
            (encoder.kind, len(encoder.weights)),
            [texts[row] for row in known.tolist()],
            found[known].astype(str),
            unknown[known],
        )
        if len(rows) >= smallest and learned.alike(str(code), np.nanmedian) >= least:
            continue
        if len(rows) < 2 * smallest:
            found[rows] = -1
            continue
        more = int(found.max()) + 1
        found[rows[group_known(points[rows], 2) == 1]] = more
        waiting += [(code, HALVES_ALIKE), (more, HALVES_ALIKE)]
    kept = np.unique(found[found >= 0])
    return np.where(found < 0, -1, np.searchsorted(kept, found)).astype(np.intp)


def _nearest(
    encoder: CharacterEncoder,
    texts: Sequence[str],
    times: Floats,
    names: Names,
    known: Bools,
    *,
    outliers: bool = True,
) -> Names:
    """Return the event that each post fits best, learned from the known ones without itself; outliers fit none."""
    rows = np.flatnonzero(known)
    order = {name: code for code, name in enumerate(dict.fromkeys(names[rows].tolist()))}
    codes = np.array([f"{order[name]:06d}" for name in names[rows]])
    kept = [texts[row] for row in rows.tolist()]
    learned = Familiarity.of((encoder.kind, len(encoder.weights)), kept, codes, times[rows])
    scores = learned.scores(texts, times)
    scores[rows[learned.rows]] = learned.left_out
    best = np.array([*order, OUTLIER], dtype=object)
    own = np.array([int(code) for code in learned.names])[scores.argmax(axis=1)]
    strange = outliers & (learned.p_values(scores) <= learned.level)
    return np.asarray(best[np.where(strange, len(order), own)])
