"""New is new: posts of unseen events are outliers, and become events of their own in a stream."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotempo.data import Posts, make_posts
from cotempo.social import Detector, EventDetector
from cotempo.social.detector.familiarity import LEVEL, PENALTY, Familiarity, products


def bare(posts: Posts) -> Posts:
    return replace(posts, event=(None,) * posts.rows)


def stream(seed: int, labels: bool) -> tuple[Detector, Posts, Posts]:
    """A detector of all events but one, further posts of the same events, and posts of the one left out."""
    posts = make_posts(clients=2, posts=500, events=10, seed=seed)[0]["client-0"]
    names, counts = np.unique(posts.event, return_counts=True)
    unseen = np.array(posts.event) == names[np.argsort(counts)[-2]]
    rest = np.flatnonzero(~unseen)
    learn, old = posts.select(rest[::2]), posts.select(rest[1::2])
    return EventDetector(compare=False).fit(learn if labels else bare(learn)), bare(old), bare(posts.select(unseen))


def outside(detector: Detector, posts: Posts, known: set[str]) -> float:
    return float(np.mean([event not in known for event in detector.detect(posts).event]))


@pytest.mark.parametrize("labels", [True, False])
def test_an_unseen_event_is_outside_the_known_ones_and_few_old_posts_are(labels: bool) -> None:
    shares = []
    for seed in range(3):
        detector, old, new = stream(seed, labels)
        known = set(detector.events()["event"])
        before = outside(detector, new, known), outside(detector, old, known)
        both = Posts(np.concatenate([old.time, new.time]), (*old.text, *new.text))
        assert detector.partial_fit(both) is detector
        shares.append((*before, outside(detector, new, known), outside(detector, old, known)))
    new_before, old_before, new_after, old_after = np.mean(shares, axis=0)
    assert new_before >= 0.7
    assert new_after >= 0.7
    assert old_before <= 0.06  # a few hundred posts: the level is 3 %
    assert old_after <= 0.06


def test_a_stream_opens_one_event_for_an_unseen_one_and_names_its_words() -> None:
    detector, _, new = stream(0, labels=True)
    known = set(detector.events()["event"])
    table = detector.partial_fit(new).events()
    opened = table[~table["event"].isin(known)]
    assert opened["size"].max() >= 0.8 * new.rows
    largest = opened.sort_values("size").iloc[-1]
    words = set(largest["keywords"].split(", "))
    assert all(sum(word in text.lower() for text in new.text) > 0.1 * new.rows for word in words)


def test_confidence_falls_for_posts_of_unseen_events() -> None:
    detector, old, new = stream(1, labels=True)
    familiar, strange = detector.detect(old), detector.detect(new)
    assert np.median(familiar.confidence) > 0.8
    assert (strange.confidence[~strange.outlier] < np.median(familiar.confidence)).all()
    assert (strange.confidence[strange.outlier] >= 0.5).all()
    forced = detector.detect(new, outliers=False)
    assert not forced.outlier.any()


def test_outliers_wait_until_there_are_enough_for_an_event() -> None:
    detector, _, new = stream(0, labels=True)
    known = set(detector.events()["event"])
    detector.partial_fit(new.select(np.arange(4)))
    assert set(detector.events()["event"]) == known
    detector.partial_fit(new.select(np.arange(4, 40)))
    opened = detector.events().query("event not in @known")
    assert opened["size"].sum() >= 36  # those of the first window, too


def test_posts_long_after_an_event_are_less_familiar_unless_time_is_ignored() -> None:
    posts = make_posts(clients=2, posts=200, events=6, seed=2)[0]["client-0"]
    late = replace(posts, time=posts.time + 3000.0)
    heeds, ignores = (EventDetector(time=time, compare=False).fit(posts) for time in ("auto", "ignore"))
    assert heeds.detect(late).outlier.mean() > heeds.detect(posts).outlier.mean() + 0.2
    np.testing.assert_array_equal(ignores.detect(late).event, ignores.detect(posts).event)


def test_left_out_scores_are_those_of_learning_without_the_post() -> None:
    posts = make_posts(clients=2, posts=60, events=4, seed=0)[0]["client-0"]
    events, unknown = np.array(posts.event), np.full(60, np.nan)
    whole = Familiarity.of(("shared", 1024), posts.text, events, unknown)
    inner = products(whole.kept, whole.kept)
    rest = np.delete(np.arange(60), 7)
    indicators = np.eye(len(whole.names))[whole.codes]
    solved = np.linalg.solve(inner[np.ix_(rest, rest)] + PENALTY * np.eye(59), indicators[rest])
    np.testing.assert_allclose(whole.left_out[7], inner[7, rest] @ solved, atol=1e-10)


def test_p_values_are_ranks_among_the_kept_posts() -> None:
    posts = make_posts(clients=2, posts=99, events=4, seed=0)[0]["client-0"]
    learned = Familiarity.of(("shared", 1024), posts.text, np.array(posts.event), np.full(99, np.nan))
    p = learned.p_values(learned.left_out)
    assert np.mean(p <= LEVEL) <= LEVEL
    np.testing.assert_allclose(np.sort(p)[[0, -1]], [0.02, 1.0])
    assert learned.p_values(np.full((1, 4), -9.0)) == pytest.approx(0.01)


def test_posts_too_few_for_an_event_are_told_of() -> None:
    posts = Posts([np.nan] * 2, ("flood here", "fire there"))
    advice = EventDetector(dimension=4, buckets=64).fit({"a": posts, "b": posts}).advice()
    assert any(
        "a: all its 2 posts are taken for one event, found-a-0000, though smallest is 8" in line for line in advice
    )


def test_a_few_kept_posts_are_too_few_to_call_anything_new() -> None:
    posts = Posts([np.nan] * 20, ("flood here", "fire there") * 10, event=("a", "b") * 10)  # copies count once
    detector = EventDetector(dimension=4, buckets=64).fit(posts)
    found = detector.detect(["something else entirely", "flood here"])
    assert not found.outlier.any()
    assert (found.confidence <= 0.5).all()
    fitted = EventDetector(dimension=4, buckets=64).fit({"a": posts, "b": posts})
    assert any(
        "a: 2 posts with a label or of an event found are too few to tell new" in line for line in fitted.advice()
    )
