"""Attacks by a coordinator that only reads: rows, event times, posts and windows from the messages of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cotempo.auditing.listening import Heard, Listener
from cotempo.data import Events, Posts, Series, Table
from cotempo.federation import Method
from cotempo.networks.moments import pack, unpack
from cotempo.series.moments.moments import WindowMoments
from cotempo.series.release import nearest_distance
from cotempo.social.encoders.characters import hash_ngrams
from cotempo.typing import Floats

#: A row is found if all its cells are, within this share of their columns' standard deviations.
ROWS_WITHIN = 1e-3
#: An event is found within this share of the mean gap, a window within this share of the distance between real ones.
EVENTS_WITHIN, WINDOWS_WITHIN = 0.1, 0.1
#: A post is found if a set of n-grams has this Jaccard similarity with its own.
POSTS_WITHIN = 0.8


class Recovered(NamedTuple):
    """How many of a run's units came back, of how many, and how near they had to come."""

    what: str
    found: int
    of: int
    within: str

    @property
    def share(self) -> float:
        """The share that came back."""
        return self.found / max(self.of, 1)


def reconstruct(method: Method, listener: Listener, tables: Mapping[str, Table]) -> Recovered:
    """Return what comes back of clients' tables, by the attack on the kind of messages that the run had."""
    attack = next(found for cls in type(method).__mro__ if (found := ATTACKS.get(cls.__name__)))
    return attack(method, listener, tables)


# Rows, from sums of products.


def rows_at_the_ends(sums: Floats, products: Floats) -> tuple[Floats, Floats]:
    """Return the first and the last row behind moments of transitions, exact if they are of one contiguous piece.

    The blocks of the Gram at lags 0 and 1 differ by a a' - b b' with a the last and b the first row, and the sums by
    a - b, which together is linear in b. With one lag only these blocks exist.
    """
    count = len(sums) // 2
    gram, step = unpack(products, 2 * count), sums[:count] - sums[count:]
    difference = gram[:count, :count] - gram[count:, count:] - np.outer(step, step)
    size = max(float(step @ step), 1e-300)
    along = step @ difference @ step / (2 * size)
    first = (difference @ step - step * along) / size
    return first, first + step


def gram_from_rounds(rounds: Iterator[tuple[Floats, Floats, float]]) -> Floats:
    """Return the Gram a client stepped with, from its targets in FDBNL's first rounds.

    Each round the client solves (G + rho) Z_k = G E - dual + rho Z with E = [I; 0]. The server knows Z and rho, and
    learns Z_k and the dual one after the other from the targets Z_k + dual / rho: G (Z_k - E) = rho (Z - Z_k) - dual.
    """
    left, right = [], []
    dual: Any = None
    local: Any = None
    before = 0.0
    for target, shared, penalty in rounds:
        dual = np.zeros_like(target) if local is None else dual + before * (local - shared)
        local, before = target - dual / penalty, penalty
        left.append(local - np.eye(*local.shape))
        right.append(penalty * (shared - local) - dual)
    return np.asarray(np.linalg.lstsq(np.hstack(left).T, np.hstack(right).T, rcond=None)[0].T)


def final_rounds(listener: Listener, client: str | None) -> Iterator[tuple[Floats, Floats, float]]:
    """Yield target, Z and rho of the last stage of FDBNL, of a client or of the mean over clients."""
    for heard in _final(listener):
        common, total = heard.question.common, heard.total
        if client is None:
            assert total is not None
            target = total["target"] / total.weight
        else:
            target = heard.singles[client]["target"]
        yield target[0], common["shared"][0], float(common["penalties"][0, 2])


def last_rows(products: Floats, counts: Floats) -> Floats:
    """Return the last row behind window moments of one piece, once with each sign.

    Sums of products of steps, and of levels and steps, differ from those a row farther back by those of the last row.
    """
    table = WindowMoments.unpack(products, counts).products
    steps, levels = table[0, :, 0] - table[2, :, 2], table[1, :, 0] + table[0, :, 0] - table[1, :, 2]
    values, vectors = np.linalg.eigh((steps + steps.T) / 2)
    row = levels @ vectors[:, -1] / np.sqrt(max(values[-1], 1e-300))
    return np.array([row, -row])


def _rows_of_oneround(listener: Listener) -> Iterator[Floats]:
    heard = listener.phase("products")[-1]
    count = len(heard.question.common["centre"])
    for message in _readable(heard):
        sums, products = message["sums"].sum(axis=0), message["products"].sum(axis=0)
        if 2 * count <= len(sums):  # with lags=0 there is one block, and nothing to subtract
            gram = unpack(products, len(sums))[: 2 * count, : 2 * count]
            for row in rows_at_the_ends(sums[: 2 * count], pack(gram)):
                yield row + heard.question.common["centre"]


def rows_from_rounds(listener: Listener) -> Iterator[Floats]:
    """Yield rows at the ends that follow from the Grams of FDBNL's clients and the sums they sent before."""
    centre = listener.phase("centre")[-1].singles
    final = _final(listener)
    if not final or "target" not in final[0].singles.get(next(iter(centre), ""), ()):
        return
    mean, scale = (final[0].question.common[name] for name in ("mean", "scale"))
    for name, said in centre.items():
        rows, sums = said["rows"][1], said["sums"][1]
        gram = gram_from_rounds(final_rounds(listener, name)) * np.outer(scale, scale)
        products = rows * (gram - np.outer(mean, mean)) + np.outer(mean, sums) + np.outer(sums, mean)
        count = 2 * final[0].question.common["shared"].shape[2]
        yield from rows_at_the_ends(sums[:count], pack(products[:count, :count]))


def _rows_of_moments(listener: Listener) -> Iterator[Floats]:
    heard = listener.phase("moments")[-1]
    units = heard.question.common
    for message in _readable(heard):
        (first, whole), (before, counted) = message["products"], message["counts"]
        for part, counts in ((first, before), (whole, counted), (whole - first, counted - before)):
            for row in last_rows(part, counts):
                yield row * units["step"] + units["centre"]


def _rows(claims: Callable[[Listener], Iterator[Floats]]) -> Callable[..., Recovered]:
    """Return the attack that counts the rows that claims come near to."""

    def attack(method: Method, listener: Listener, tables: Mapping[str, Table]) -> Recovered:
        claimed, found, of = list(claims(listener)), 0, 0
        for table in tables.values():
            assert isinstance(table, Series)
            spread = np.maximum(np.nanstd(table.values, axis=0), 1e-300)
            near = np.zeros(table.rows, np.bool_)
            for row in claimed:
                if row.shape == spread.shape:
                    near |= (np.abs(table.values - row) / spread <= ROWS_WITHIN).all(axis=1)
            found, of = found + int(near.sum()), of + table.rows
        return Recovered("rows", found, of, f"{ROWS_WITHIN:g} standard deviations")

    return attack


# Times of events, from counts in cells.


def event_times(counts: Floats, start: float, end: float) -> Floats:
    """Return the middle of each cell, as often as it has events."""
    width = (end - start) / len(counts)
    middles = start + width * (np.arange(len(counts)) + 0.5)
    return np.repeat(middles, np.maximum(np.rint(counts), 0).astype(np.intp))


def match_times(claimed: Floats, known: Floats, within: float) -> int:
    """Return how many known times have a claimed one of their own that is near; both are sorted."""
    place = found = 0
    for time in known.tolist():
        while place < len(claimed) and claimed[place] < time - within:
            place += 1
        if place < len(claimed) and claimed[place] <= time + within:
            found, place = found + 1, place + 1
    return found


def _events(method: Any, listener: Listener, tables: Mapping[str, Table]) -> Recovered:
    """Count events that claims of each client come near to.

    A coordinator that sees the sum over clients cannot tell whose an event is: of too many claims it keeps as many as
    the client has events, at random, and as many are found as that keeps on average.
    """
    inner = getattr(method, "inner", method)
    heard = listener.last("recount", "counts")
    found, of = 0.0, 0
    for name, table in tables.items():
        assert isinstance(table, Events)
        of += table.rows
        seen = None if heard is None or inner.period else heard.seen_of(name)
        if heard is None or seen is None or not table.rows:
            continue
        summary = heard.question.common["summary"][2:4] if "summary" in heard.question.common else inner.window
        claimed = event_times(seen["events"].reshape(-1, seen["events"].shape[-1]).sum(axis=0), *map(float, summary))
        within = EVENTS_WITHIN * float((table.end - table.start).sum()) / table.rows
        matched = match_times(claimed, np.sort(table.time), within)
        found += matched * min(1.0, table.rows / max(len(claimed), 1))
    return Recovered("event times", int(found), of, f"{EVENTS_WITHIN:g} of the mean gap")


# Posts, from counts of n-grams.


def read_counts(frequency: Floats, most: int = 20) -> list[set[int]]:
    """Return the sets of n-grams that occur in equally many posts, and of all that occur: all that counts tell."""
    counts = np.rint(frequency)
    alike = [set(np.flatnonzero(counts == times).tolist()) for times in range(1, most)]
    return [*alike, set(np.flatnonzero(counts > 0).tolist())]


def readable_posts(found: Sequence[set[int]], posts: Sequence[set[int]]) -> int:
    """Return how many posts have a found set with four of five of their n-grams, and hardly others."""
    best = [max((len(post & one) / max(len(post | one), 1) for one in found), default=0.0) for post in posts]
    return int(np.sum(np.array(best) >= POSTS_WITHIN))


def _posts(method: Any, listener: Listener, tables: Mapping[str, Table]) -> Recovered:
    heard = listener.phase("sums")[-1]
    buckets = int(getattr(method, "inner", method).buckets)
    found = [one for message in _readable(heard) for one in read_counts(message["frequency"])]
    posts = []
    for table in tables.values():
        assert isinstance(table, Posts)
        posts += [set(row.indices.tolist()) for row in hash_ngrams(table.text, buckets)]
    return Recovered("posts", readable_posts(found, posts), len(posts), f"{POSTS_WITHIN:g} of their n-grams")


# Windows, from what is released.


def _windows(method: Any, listener: Listener, tables: Mapping[str, Table]) -> Recovered:
    """Count real windows that a released one of their owner is far nearer to than real ones are to each other."""
    found = of = 0
    releases = listener.phase("share")
    for name, table in tables.items():
        assert isinstance(table, Series)
        data = method.prepare(table)
        real = data.scale.rows(data.rows).windows(method.window)[..., : len(method.common)]
        real = real[~np.isnan(real).any(axis=(1, 2))]
        sent = [heard.singles[name]["windows"] for heard in releases if name in heard.singles]
        of += len(real)
        if sum(map(len, sent)) and len(real) > 1:
            half = len(real) // 2
            usual = float(np.median(nearest_distance(real[:half], real[half:])))
            found += int((nearest_distance(real, np.concatenate(sent)) <= WINDOWS_WITHIN * usual).sum())
    return Recovered("windows", found, of, f"{WINDOWS_WITHIN:g} of the distance between real ones")


def _readable(heard: Heard) -> list[Any]:
    """Return the messages a coordinator can read: single ones, or their total."""
    return list(heard.singles.values()) or [heard.total]


def _final(listener: Listener) -> list[Heard]:
    return [
        heard
        for heard in listener.phase("solve")
        if heard.question.common["stage"] == "final" and heard.question.common["shared"].shape[0] == 1
    ]


def _none(listener: Listener) -> Iterator[Floats]:
    """Claim nothing: these sums are of time points, and have no ends that a difference would tell."""
    yield from ()


ATTACKS: Mapping[str, Callable[[Any, Listener, Mapping[str, Table]], Recovered]] = {
    "OneRound": _rows(_rows_of_oneround),
    "FDBNL": _rows(rows_from_rounds),
    "TrialThenFit": _rows(_none),
    "EdgeRanking": _rows(_none),
    "PrivateNetwork": _rows(_none),
    "FedMoments": _rows(_rows_of_moments),
    "PrivateMoments": _rows(_none),
    "FedPP": _events,
    "PrivateCurve": _events,
    "EventDetector": _posts,
    "PrivateDetector": _posts,
    "FedTDD": _windows,
}
