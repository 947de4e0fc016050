"""Texts without spaces between words, and times that are wrong."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from cotempo.data import Posts, make_posts
from cotempo.drawing.style import make_panels
from cotempo.errors import DataWarning, ParameterError
from cotempo.social import EventDetector, cluster_scores
from cotempo.social.detector.store import EventRecord
from cotempo.social.detector.words import count_words, words_of

SMALL = EventDetector(dimension=40, buckets=4096, compare=False)


def write(seed: int, number: int) -> tuple[tuple[str, ...], list[str]]:
    """Return posts of some events: three of an event's twelve words and six common ones, in any order, no spaces."""
    rng = np.random.default_rng(seed)
    letters = [chr(0x4E00 + number) for number in range(300)]
    words = ["".join(rng.choice(letters, 2)) for _ in range(12 * number + 40)]
    texts, events = [], []
    for event in range(number):
        for _ in range(40):
            own = rng.choice(words[12 * event : 12 * event + 12], 3, replace=False)
            texts.append("".join(rng.permutation([*own, *rng.choice(words[12 * number :], 6, replace=False)])))
            events.append(str(event))
    return tuple(texts), events


@pytest.mark.parametrize("number", [3, 4])
def test_events_of_texts_without_spaces_are_found(number: int) -> None:
    texts, truth = write(0, number)
    detector = SMALL.set_params(events=number).fit(Posts(np.full(len(texts), np.nan), texts))
    found = detector.detect(list(texts), outliers=False).event
    assert cluster_scores(truth, found)["NMI"] > 0.5  # with whole lines as words, less than 0.1
    assert detector.quality > 0.4


def test_words_of_scripts_without_spaces() -> None:
    assert words_of("PK戦で負けた! so sad https://a.b/震") == {"戦で", "で負", "負け", "けた", "sad"}
    assert words_of("서울에 지진") == {"서울에"}  # Korean has spaces
    assert words_of("แผ่น") == {"แผ", "ผ่", "่น"}


def test_keywords_are_whole_where_letters_always_stand_together() -> None:
    counted = count_words(["緊急速報です", "また緊急速報", "東京の地震", "地震だ", "大地震"])
    assert counted["緊急速報"] == 2
    assert counted["地震"] == 3
    assert not {"緊急", "急速", "速報"} & set(counted)
    texts = ["余震が続く緊急速報だ", "また緊急速報か", "緊急速報よ出る"] * 5
    texts += ["投票に行く", "今日は投票", "投票率低い"] * 5
    labels = ("quake",) * 15 + ("vote",) * 15
    found = SMALL.fit(Posts(np.full(30, np.nan), tuple(texts), event=labels)).keywords(1)
    assert found == {"quake": ("緊急速報",), "vote": ("投票",)}


def test_an_event_begins_and_ends_with_a_post() -> None:
    times = np.concatenate([np.zeros(3), 1e9 + np.arange(57.0), [3e9] * 3])  # fewer than 1 in 20 at either end
    posts = Posts(times, ("a",) * len(times))
    record = EventRecord.of("found-0000", posts, np.zeros((len(times), 1)))
    assert {record.start, record.end} <= set(times[3:-3])


def test_letters_that_no_font_has_are_one_warning() -> None:
    figure, (axes,) = make_panels(1)
    axes.set(title="\U0001fae8\U0001fae9", xlabel="\U0001fae8")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure.draw_without_rendering()
    assert [(one.category, "no font has some letters" in str(one.message)) for one in told] == [(DataWarning, True)]


def test_the_headline_says_how_few_posts_were_labelled() -> None:
    clients, _ = make_posts(clients=2, posts=120, events=4, seed=0)
    some = {
        name: replace(posts, event=tuple(label if row % 2 else None for row, label in enumerate(posts.event)))
        for name, posts in clients.items()
    }
    rows = sum(posts.rows for posts in clients.values())
    labelled = sum(label is not None for posts in some.values() for label in posts.event)
    answer = SMALL.set_params(compare=True).fit(some).answer()
    assert re.search(rf", from their {labelled} labelled posts of \d+\.$", answer), answer
    assert labelled < int(re.findall(r"\d+", answer)[-1]) <= rows
    assert "labelled posts" not in SMALL.set_params(compare=True).fit(clients).answer()


def test_links_say_what_an_encoder_must_have() -> None:
    texts = ("a flood in town", "the flood goes on", "a fire in the hills", "fire again")
    posts = Posts(np.arange(4.0), texts, event=("flood", "flood", "fire", "fire"))
    with pytest.raises(ParameterError, match=r"pretrained one or have encode\(texts\), got object"):
        SMALL.fit({"a": posts, "b": posts}).links(object())
