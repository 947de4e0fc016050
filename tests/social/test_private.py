"""Private detectors: what one post moves is what the noise is sized for, and events are found all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cotempo as ct
from cotempo.data import Posts, make_posts
from cotempo.errors import DataWarning
from cotempo.social import EventDetector
from cotempo.social.clustering import cluster_scores
from cotempo.social.detector.detection import OUTLIER
from cotempo.social.private import PrivateDetector
from cotempo.testing import check_method
from cotempo.testing.sensitivity import sensitivity_used

texts = st.text("abcdefgh ", max_size=80)
labels = st.sampled_from([None, "flood", "fire"])


def form(**privacy: Any) -> PrivateDetector:
    method = EventDetector(dimension=8, buckets=64, compare=False)
    private = method.private(ct.Privacy(**{"epsilon": 1, "seeded": True, **privacy}))
    assert isinstance(private, PrivateDetector)
    return private


def table(*posts: tuple[str, str | None]) -> Posts:
    rows, _ = make_posts(clients=1, posts=len(posts), events=1)
    (one,) = rows.values()
    return Posts(**{**vars(one), "text": tuple(t for t, _ in posts), "event": tuple(e for _, e in posts)})


@settings(max_examples=40, deadline=None)
@given(
    posts=st.lists(st.tuples(texts, labels), min_size=1, max_size=4),
    more=st.tuples(texts, labels),
    clip=st.sampled_from([None, 2.0, 1000.0]),
)
def test_a_post_moves_the_sums_by_no_more_than_is_claimed(
    posts: list[tuple[str, str | None]], more: tuple[str, str | None], clip: float | None
) -> None:
    tables = table(*posts, more), table(*posts)
    assert sensitivity_used(form(clip=clip), "sums", tables) <= 1 + 1e-6


def test_the_claim_is_tight() -> None:
    long = " ".join(f"w{i}x{i * 7}" for i in range(300)), "flood"
    tables = table(("short", "fire"), long), table(("short", "fire"))
    assert sensitivity_used(form(clip=20.0), "sums", tables) == pytest.approx(1.0, abs=1e-3)


def test_events_are_found_with_noised_sums() -> None:
    clients, _ = make_posts(clients=4, posts=150, events=8, seed=3)
    method = EventDetector(dimension=20, buckets=1024, compare=False)
    privacy = ct.Privacy(epsilon=8, secure_sum=True, seeded=True)
    scores = [
        cluster_scores(clients["client-0"].event, fitted["client-0"].detect(clients["client-0"]).event)["NMI"]
        for fitted in (method.fit(clients), method.fit(clients, privacy=privacy))
    ]
    assert scores[1] > scores[0] - 0.05


def test_counts_of_words_that_may_be_noise_are_taken_for_none() -> None:
    clients, _ = make_posts(clients=3, posts=30, events=3, seed=0)
    fitted = EventDetector(dimension=8, buckets=64, compare=False).fit(
        clients, privacy=ct.Privacy(epsilon=0.1, seeded=True)
    )
    assert np.count_nonzero(fitted.state.sums["event_words"]) < 0.01 * fitted.state.sums["event_words"].size


@pytest.mark.slow
def test_the_private_form_keeps_the_contract() -> None:
    clients, _ = make_posts(clients=3, posts=40, events=6, seed=0)
    check_method(form(), dict(clients))


def test_no_label_of_a_post_decides_whether_a_table_is_refused() -> None:
    tables = table(("storm", None), ("flood", OUTLIER)), table(("storm", None))
    with pytest.warns(DataWarning, match="taken for unlabelled"):
        assert sensitivity_used(form(), "sums", tables) <= 1 + 1e-6
