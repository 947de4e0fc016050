"""Without labels: how many events there are, how good they are, and what an analyst may feed by mistake."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotempo.data import Posts, make_posts
from cotempo.errors import DataError, DataWarning, ParameterError
from cotempo.social import DAMe, EventDetector, cluster_scores
from cotempo.social.detector.held_out_words import HeldOutWords, distinct_texts
from cotempo.social.encoders.characters import CharacterEncoder

POSTS = make_posts(clients=2, posts=240, events=10, seed=4)[0]["client-0"]
TRUE = len(set(POSTS.event))
SMALL = EventDetector(dimension=40, buckets=4096, compare=False)


def without(posts: Posts) -> Posts:
    return replace(posts, event=None)


def nmi(posts: Posts, detector: object) -> float:
    return cluster_scores(posts.event, detector.detect(without(posts), outliers=False).event)["NMI"]  # type: ignore[attr-defined]


def test_quality_is_highest_near_the_true_number() -> None:
    quality = {number: replace_events(number).fit(without(POSTS)).quality for number in (2, TRUE, 4 * TRUE)}
    assert quality[TRUE] > quality[2] + 0.2, "lumps"
    assert quality[TRUE] > quality[4 * TRUE] + 0.2, "pieces"
    assert SMALL.fit(POSTS).quality > quality[2] + 0.2


def replace_events(number: int) -> EventDetector:
    return SMALL.set_params(events=number)


def test_the_number_of_events_is_found() -> None:
    detector = SMALL.fit(without(POSTS))
    assert abs(len(detector.events()) - TRUE) <= 2
    assert nmi(POSTS, detector) > 0.85


def test_an_event_found_whose_posts_are_hardly_alike_is_told_of() -> None:
    detector = SMALL.fit(without(make_posts(clients=1, posts=400, events=8, seed=1)[0]["client-0"]))
    assert not any("hardly alike" in line for line in detector.advice())
    lump, *others = sorted(detector.events()["event"])[:-2]
    detector.merge(lump, *others, into=lump)
    assert any(f"posts of {lump} are hardly alike: several events, or everyday" in line for line in detector.advice())


def test_events_found_by_language_are_told_of() -> None:
    """Posts in Spanish of three events were one event, of a high quality, beside those in English."""
    topics = {
        "en": ["flood river bridge boats levee rain", "strike union trains wages pickets drivers"],
        "es": ["temblor ruinas heridos casas grietas plaza", "humo bosque llamas bomberos colinas ceniza"],
    }
    small = {"en": "the and was this that with", "es": "los las del una por con"}
    rng, texts, languages = np.random.default_rng(0), [], []
    for language, events in topics.items():
        for words in events:
            for _ in range(30):
                chosen = [*rng.choice(words.split(), 4, replace=False), *rng.choice(small[language].split(), 4)]
                texts.append(" ".join(rng.permutation(chosen)))
                languages.append(language)
    posts = Posts(np.full(len(texts), np.nan), tuple(texts))
    told = [line for line in SMALL.fit(posts).advice() if "of one language each" in line]
    assert len(told) == 1
    assert "en: found-" in told[0]
    assert "es: found-" in told[0]
    english = posts.select(np.array(languages) == "en")
    assert not any("of one language each" in line for line in SMALL.fit(english).advice())


def test_copies_are_one_text_and_make_no_event() -> None:
    rows = np.concatenate([np.arange(POSTS.rows), np.repeat(5, 40)])
    many = POSTS.select(rows)
    text = tuple(t if row < POSTS.rows else f"RT @u{row}: {t} http://a.b/{row}" for row, t in enumerate(many.text))
    many = replace(many, text=text)
    first, place = distinct_texts(many.text)
    assert (place[POSTS.rows :] == place[5]).all()
    assert [text[row] for row in first[place[: POSTS.rows]]] == list(POSTS.text)
    plain, copied = SMALL.fit(without(POSTS)), SMALL.fit(without(many))
    assert len(copied.events()) == len(plain.events())
    assert nmi(many, copied) > 0.85


def test_words_are_held_out_and_noise_is_one_event() -> None:
    rng = np.random.default_rng(0)
    noise = [" ".join(f"w{word}" for word in rng.integers(3000, size=9)) for _ in range(120)]
    judged = HeldOutWords.of(CharacterEncoder.learn(noise, dimension=20), noise, 8)
    assert judged.quality(rng.integers(4, size=120)) < 0.1
    texts = [" ".join(f"w{word + 50 * (row % 2)}" for word in rng.integers(50, size=12)) for row in range(80)]
    told = HeldOutWords.of(CharacterEncoder.learn(texts, dimension=20), texts, 8)
    assert told.quality(np.arange(80) % 2) > 0.8
    assert told.quality(np.zeros(80, np.intp)) == 0


def test_sizes_count_all_posts_and_say_how_many_came_with_a_label() -> None:
    labels = tuple(event if row % 2 else None for row, event in enumerate(POSTS.event))
    table = SMALL.fit(replace(POSTS, event=labels)).events().set_index("event")
    assert table["labelled"].sum() == POSTS.rows // 2
    assert POSTS.rows * 0.9 < table["size"].sum() <= POSTS.rows
    for event, size in table["size"].items():
        assert abs(size - POSTS.event.count(event)) <= 0.2 * size + 2
    assert (SMALL.fit(POSTS).events()["labelled"] == SMALL.fit(POSTS).events()["size"]).all()
    assert not SMALL.fit(without(POSTS)).events()["labelled"].any()


def test_the_same_window_twice_is_taken_in_once() -> None:
    early, late = POSTS.select(np.arange(160)), POSTS.select(np.arange(160, 240))
    detector = SMALL.fit(early).partial_fit(without(late))
    sizes, window = detector.events()["size"].tolist(), detector.store.window
    with pytest.warns(DataWarning, match="80 of 80 posts taken in before and left out now"):
        detector.partial_fit(without(late))
    assert (detector.events()["size"].tolist(), detector.store.window) == (sizes, window)
    more = replace(late, time=late.time + 1e6, event=None)
    both = Posts(np.concatenate([late.time, more.time]), (*late.text, *more.text), unit=late.unit)
    with pytest.warns(DataWarning, match="80 of 160 posts"):
        detector.partial_fit(both)


def test_a_label_of_a_stream_that_is_a_known_event_spelled_differently_is_told_of() -> None:
    detector = SMALL.fit(POSTS)
    known = str(POSTS.event[0])
    window = Posts(np.full(2, np.nan), ("a new post", "another one"), event=(f" {known.upper()} ", known))
    with pytest.warns(DataWarning, match=f"opens an event beside the known '{known}'"):
        detector.partial_fit(window)


def test_what_is_fed_by_mistake_is_said() -> None:
    detector = SMALL.fit(POSTS)
    with pytest.raises(DataError, match="posts must be texts, got None at position 1"):
        detector.detect(["a", None])
    for call in (SMALL.fit, detector.partial_fit):
        with pytest.raises(DataError, match="must not be called 'outlier'"):
            call(replace(POSTS, event=("outlier",) * POSTS.rows))
    with pytest.raises(DataError, match=r"column 'text' must be there, got 'mensaje'; .*read_posts\(frame, columns"):
        detector.detect(POSTS.to_frame()[["text"]].rename(columns={"text": "mensaje"}))
    with pytest.raises(ParameterError) as offered:
        EventDetector(encoder="bert")
    assert "hashed" not in str(offered.value)
    with pytest.raises(ParameterError, match="'hashed', 'multilingual'"):
        DAMe(encoder="bert")
