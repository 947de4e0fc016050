from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest

import cotempo as ct
from cotempo.data import Posts, make_posts
from cotempo.errors import DataError, DataWarning, ParameterError
from cotempo.social import EventDetector, cluster_scores
from cotempo.social.detector.client import hold_out
from cotempo.social.detector.words import has_words
from cotempo.testing import CHECKS

CLIENTS, TRUTH = make_posts(clients=3, posts=150, events=12, seed=1)
SMALL = EventDetector(dimension=40, buckets=2048)
ONE = CLIENTS["client-0"]
SLOW = ("every_engine_gives_the_same_bits", "killed_anywhere_equals_never_killed")


def bare(posts: Posts) -> Posts:
    return replace(posts, event=(None,) * posts.rows)


def nmi(posts: Posts, found: np.ndarray) -> float:
    return cluster_scores(posts.event, found)["NMI"]


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in SLOW])
def test_contract(name: str, tmp_path: Path) -> None:
    method, clients, public = EventDetector.example()
    CHECKS[name](method, clients, public, tmp_path)


def test_known_events_are_recognised_in_new_posts() -> None:
    learn, new = ONE.select(np.arange(0, 150, 2)), ONE.select(np.arange(1, 150, 2))
    detection = SMALL.fit(learn).detect(new)
    assert nmi(new, detection.event) > 0.9
    assert set(detection.event) <= {*learn.event, "outlier"}
    assert set(SMALL.fit(learn).detect(new, outliers=False).event) <= set(learn.event)
    assert ((detection.confidence > 0) & (detection.confidence <= 1)).all()


def test_together_clients_keep_their_labels_to_themselves_and_few_labels_go_further() -> None:
    rng = np.random.default_rng(0)
    few = {
        name: replace(posts, event=tuple(event if rng.random() < 0.4 else None for event in posts.event))
        for name, posts in CLIENTS.items()
    }
    fitted = SMALL.fit(few)
    for name, posts in CLIENTS.items():
        assert nmi(posts, fitted[name].detect(posts).event) > 0.85
    assert set(fitted.benefit) <= set(CLIENTS)
    assert "event" not in " ".join(str(value) for value in vars(fitted.state).values() if isinstance(value, str))


def test_a_client_with_few_labels_learns_from_others_with_the_same_events() -> None:
    posts = make_posts(clients=2, posts=400, events=8, seed=3)[0]["client-0"]
    shuffled = posts.select(np.random.default_rng(0).permutation(400))
    large, small, new = (shuffled.select(rows) for rows in np.split(np.arange(400), (250, 255)))
    known = np.isin(new.event, sorted(set(small.event)))
    new = new.select(known)
    alone = nmi(new, SMALL.fit(small).detect(new).event)
    together = nmi(new, SMALL.fit({"large": large, "small": small})["small"].detect(new).event)
    elsewhere = replace(large, event=tuple(f"other {event}" for event in large.event))
    apart = nmi(new, SMALL.fit({"large": elsewhere, "small": small})["small"].detect(new).event)
    assert together > alone + 0.05
    assert together > apart + 0.05  # only events of the same name are shared


def test_a_client_without_labels_finds_events_beside_others_with_labels() -> None:
    fitted = SMALL.fit({**CLIENTS, "client-0": bare(ONE)})
    assert nmi(ONE, fitted["client-0"].detect(ONE).event) > 0.8
    assert "client-0" not in fitted.benefit


def test_a_client_sends_and_receives_less_than_a_megabyte() -> None:
    fitted = EventDetector().fit(CLIENTS)
    for way in ("sent", "received"):
        for name in CLIENTS:
            assert sum(step[way].get(name, 0) for step in fitted.history) < 1e6


def test_neither_order_nor_names_of_clients_nor_the_order_of_posts_matter() -> None:
    rng = np.random.default_rng(0)
    other = {
        new: CLIENTS[old].select(rng.permutation(CLIENTS[old].rows))
        for new, old in (("z", "client-0"), ("m", "client-2"), ("a", "client-1"))
    }
    first, second = SMALL.fit(CLIENTS), SMALL.fit({**other, "nobody": ONE.select([])})
    for new, old in (("z", "client-0"), ("a", "client-1")):
        found, again = first[old].detect(ONE), second[new].detect(ONE)
        np.testing.assert_array_equal(found.event, again.event)
        np.testing.assert_allclose(found.confidence, again.confidence, rtol=1e-6)
        assert first.benefit[old].together == pytest.approx(second.benefit[new].together)
        assert first.benefit[old].alone == pytest.approx(second.benefit[new].alone)
    with pytest.raises(DataError, match="at least one post"):
        second["nobody"]


@pytest.mark.parametrize("options", [{}, {"events": 6}])
def test_without_labels(options: dict[str, object]) -> None:
    detector = EventDetector(dimension=40, buckets=2048, **options).fit(bare(ONE))
    assert nmi(ONE, detector.detect(ONE).event) > 0.6
    if "events" in options:
        assert len(detector.events()) == 6


def test_new_events_are_grouped_by_their_number() -> None:
    events = sorted(set(ONE.event))
    known = np.isin(ONE.event, events[:3])
    detector = SMALL.fit(ONE.select(known))
    found = detector.detect(ONE.select(~known), events=len(events) - 3).event
    assert nmi(ONE.select(~known), found) > 0.7


def test_time_is_used_only_where_it_helps() -> None:
    text = tuple("something happened here" for _ in range(80))
    time = np.concatenate([np.linspace(0, 1, 40), np.linspace(100, 101, 40)])
    posts = Posts(time=time, text=text, event=("a",) * 40 + ("b",) * 40)
    detector = EventDetector(dimension=4, buckets=64).fit(posts)
    assert detector.space.duration > 0
    assert nmi(posts, detector.detect(posts).event) == 1
    concurrent = replace(posts, time=np.tile(np.linspace(0, 1, 40), 2), text=("red",) * 40 + ("blue",) * 40)
    assert nmi(concurrent, EventDetector(dimension=4, buckets=64).fit(concurrent).detect(concurrent).event) == 1
    assert EventDetector(dimension=4, buckets=64, time="ignore").fit(posts).space.duration == 0


def test_a_stream_keeps_ids_finds_new_events_and_retires_old_ones() -> None:
    posts = make_posts(clients=2, posts=600, events=12, seed=1)[0]["client-0"]
    history, *windows = (bare(posts).select(rows) for rows in np.split(np.arange(600), range(300, 600, 60)))
    detector = EventDetector(patience=2).fit(history)
    first = set(detector.events()["event"])
    found: list[str] = []
    for window in windows:
        assert detector.partial_fit(window) is detector
        found += detector.detect(window, outliers=False).event.tolist()
    assert nmi(posts.select(np.arange(300, 600)), np.array(found)) > 0.9
    table = detector.events()
    assert first <= set(table["event"])
    assert len(table) > len(first)
    assert table["size"].sum() + detector.store.sample.event.count("outlier") == 600
    labelled = Posts(time=[999.0], text=("a word nobody prior_scores",), event=("named",))
    assert "named" in set(detector.partial_fit(labelled).events()["event"])
    for _ in range(3):
        detector.partial_fit(ONE.select([]))
    assert not detector.events()["active"].any()
    assert len(detector.detect(ONE).event) == ONE.rows


def test_the_table_of_events_and_the_figure() -> None:
    detector = SMALL.fit(ONE)
    table = detector.events()
    assert list(table.columns) == [
        "event",
        "size",
        "labelled",
        "start",
        "end",
        "keywords",
        "posts",
        "languages",
        "told_apart",
        "active",
    ]
    assert table["size"].sum() == ONE.rows
    assert (table["end"] >= table["start"]).all()
    assert table["languages"].eq("en").all()
    for row in table.itertuples():
        assert all(post in ONE.text for post in row.posts)
    assert len(detector.plot().axes) == 2
    assert detector.events("polars").shape == table.shape


def test_a_result_is_saved_and_read_back(tmp_path: Path) -> None:
    fitted = SMALL.fit(CLIENTS)
    again = ct.load(fitted.save(tmp_path / "result"))
    np.testing.assert_array_equal(again["client-1"].detect(ONE).event, fitted["client-1"].detect(ONE).event)
    with pytest.raises(DataError, match="no such client"):
        fitted["nobody"]


def test_a_dataframe_will_do() -> None:
    frame = pandas.DataFrame(
        {"text": ["flood here", "flood there", "fire!", "fire now"] * 5, "event": list("aabb") * 5}
    )
    detector = EventDetector(dimension=4, buckets=64).fit(frame)
    assert set(detector.detect(Posts([np.nan], ("flood",))).event) == {"a"}


TEXTS = ("", "flood 🌊🌊", "فيضان في المدينة", "洪水です", "x" * 10, "ɐɓɔ", "#tag", "http://a.b/c")


@pytest.mark.parametrize(
    "posts",
    [
        Posts([np.nan] * 8, TEXTS),
        Posts([np.nan], ("one post",)),
        Posts([1.0] * 8, TEXTS, event=("same",) * 8),
        Posts([1.0] * 30, ("the same text",) * 30),
        Posts([1.0] * 4, ("a flood",) * 4, extra={"id": ("1", "1", "1", "1"), "lang": ("xx", None, "?", "en")}),
        Posts([1.0, 2.0], ("water " * 170_000, "fire")),
        Posts([1.0] * 40, tuple(f"#hub word{row % 4}" for row in range(40)), hashtags=(("hub",),) * 40),
    ],
    ids=["odd texts", "one post", "one event", "one text", "double ids", "a megabyte", "one hub"],
)
def test_odd_posts_are_handled(posts: Posts) -> None:
    detector = EventDetector(dimension=4, buckets=64).fit(posts)
    detection = detector.detect(posts)
    assert len(detection.event) == posts.rows
    assert np.isfinite(detection.confidence).all()
    words = sum(has_words(text) for text in posts.text)
    with pytest.warns(DataWarning, match=f"{words} of .* taken in before"):
        assert len(detector.partial_fit(posts).events()) >= 1


def test_nothing_to_learn_from_is_said() -> None:
    with pytest.raises(DataError, match="at least one post"):
        SMALL.fit(ONE.select([]))
    with pytest.raises(ParameterError, match="twice dimension"):
        EventDetector(dimension=100, buckets=128)
    assert len(SMALL.fit(ONE).detect(ONE.select([])).event) == 0


def test_posts_without_a_label_are_never_compared_on_however_that_is_written():
    clients, _ = make_posts(clients=1, posts=120, events=4, seed=0)
    posts = clients["client-0"]
    for missing in (None, ""):
        label = tuple(missing if row % 2 else event for row, event in enumerate(posts.event))
        out = hold_out(replace(posts, event=label), np.random.default_rng(0))
        assert len(out)
        assert (out % 2 == 0).all()
