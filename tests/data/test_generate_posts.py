"""Made posts tell of events in bursts, in several languages, and some events are shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cotempo.data import make_posts
from cotempo.data.generate.posts import LANGUAGES, MOST_WORDS, word
from cotempo.errors import ParameterError


def test_labels_stand_in_table_and_truth() -> None:
    clients, truth = make_posts(seed=3)
    for name, posts in clients.items():
        assert posts.event == truth.labels[name]
        assert all(name in truth.events[label].clients for label in truth.labels[name])
        heard = {label for label, event in truth.events.items() if name in event.clients}
        assert set(posts.event) == heard
        assert posts.extra["language"] == (truth.languages[name],) * 300


@pytest.mark.parametrize("shared", [0.1, 0.2, 0.25])
def test_share_of_shared_events(shared: float) -> None:
    clients, truth = make_posts(clients=4, events=40, shared=shared, seed=1)
    posted = [set(posts.event) for posts in clients.values()]
    both = {label for label in truth.events if sum(label in own for own in posted) > 1}
    assert both == set(truth.shared)
    assert len(both) == round(shared * 40)


def test_posts_come_in_bursts_after_the_onset() -> None:
    clients, truth = make_posts(posts=2000, seed=2)
    for posts in clients.values():
        onset = np.array([truth.events[label].onset for label in posts.event])
        delay = posts.time - onset
        assert (delay >= 0).all()
        assert posts.time.max() <= 30
        assert (np.diff(posts.time) >= 0).all()
        early = delay[onset < 15]  # far from the end the cut of the exponential does not show
        assert early.mean() == pytest.approx(truth.width, rel=4 / np.sqrt(len(early)))


def test_words_tell_events_apart_and_languages_have_their_own() -> None:
    clients, truth = make_posts(clients=5, posts=400, events=10, seed=5)
    for name, posts in clients.items():
        topics = {
            label: {word(truth.languages[name], concept) for concept in event.concepts}
            for label, event in truth.events.items()
        }
        guesses = [max(topics, key=lambda label: len(topics[label] & set(text.split()))) for text in posts.text]
        right = np.mean([guess == label for guess, label in zip(guesses, posts.event, strict=True)])
        assert right > 0.95
    english, *_, japanese = ({token for text in posts.text for token in text.split()} for posts in clients.values())
    common = english & japanese
    assert common
    assert all(token[0] in "#@" or token.istitle() for token in common)


def test_tags_and_mentions_stand_in_the_text() -> None:
    clients, _ = make_posts(clients=5, posts=100, events=30)
    for posts in clients.values():
        for text, tags, names in zip(posts.text, posts.hashtags, posts.mentions, strict=True):
            assert all(f"#{tag}" in text for tag in tags)
            assert all(f"@{name}" in text for name in names)
        assert any(posts.hashtags)
        assert any(posts.mentions)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_concepts_share_a_word(language: str) -> None:
    assert len({word(language, concept) for concept in range(MOST_WORDS)}) == MOST_WORDS


def test_equal_seeds_equal_posts() -> None:
    first, again, other = (make_posts(2, 30, 8, seed=seed)[0]["client-1"].fingerprint() for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"clients": 0}, "clients must be"),
        ({"events": 2}, "events must be a whole number of at least 3"),
        ({"posts": 5}, "posts must be a whole number of at least 30"),
        ({"events": 200, "posts": 300}, "events must be at most 131"),
        ({"shared": 2}, "shared must be"),
    ],
)
def test_wrong_sizes_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make_posts(**options)
