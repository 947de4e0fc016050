"""Posts as analysts have them: some labelled, some without a word, a few with absurd dates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cotempo.data import Posts, make_posts
from cotempo.errors import DataError, DataWarning, ParameterError
from cotempo.social import EventDetector
from cotempo.social.detector.store import middle_of

SMALL = EventDetector(dimension=40, buckets=2048, compare=False)
HOUR = 480_000.0  # a date, in hours


def partly(seed: int, hidden: str | None, share: float = 0.5, posts: int = 300) -> tuple[Posts, np.ndarray]:
    """Generated posts of four events with so many labels, none of the hidden event; and the truth."""
    table = make_posts(clients=1, posts=posts, events=4, seed=seed)[0]["client-0"]
    table = replace(table, time=table.time * 24 + HOUR, unit="h", zone="UTC")
    truth = np.array(table.event)
    shown = (np.random.default_rng(seed).random(posts) < share) & (truth != hidden)
    labels = tuple(str(name) if show else None for name, show in zip(truth, shown, strict=True))
    return replace(table, event=labels), truth


@pytest.mark.parametrize("seed", [0, 1])
def test_an_event_without_any_label_is_found_and_said(seed: int) -> None:
    largest = max(set(partly(seed, None)[1].tolist()), key=partly(seed, None)[1].tolist().count)
    posts, truth = partly(seed, largest)
    fitted = SMALL.fit({"a": posts, "b": posts})
    found = fitted["a"].detect(replace(posts, event=None)).event
    hidden = found[truth == largest]
    name = max(set(hidden.tolist()), key=hidden.tolist().count)
    assert name.startswith("found-a-")
    assert np.mean(hidden == name) > 0.8
    assert np.mean(truth[found == name] == largest) > 0.9
    assert np.mean(found[truth != largest] == truth[truth != largest]) > 0.85
    assert any(name in line for line in fitted.advice())
    table = fitted["a"].events()
    assert table["size"].sum() + fitted["a"].store.nameless == posts.rows


def test_nothing_is_found_where_every_event_has_labels() -> None:
    for seed in range(3):
        posts, truth = partly(seed, None, share=0.3)
        assert set(SMALL.fit(posts).events()["event"]) <= set(truth)


def test_posts_of_no_event_are_counted_and_said() -> None:
    posts, _ = partly(0, None)
    noise = [" ".join(np.random.default_rng(row).choice(list("qwxyz"), 12)) for row in range(6)]
    more = Posts(
        np.concatenate([posts.time, np.full(6, HOUR)]),
        (*posts.text, *noise),
        event=(*posts.event, *(None,) * 6),
        unit="h",
        zone="UTC",
    )
    fitted = SMALL.fit({"a": more, "b": posts})
    assert fitted["a"].store.nameless >= 6
    assert "posts that belong to no event: " in " ".join(fitted.advice())
    assert "to no event" in fitted.answer()


def test_merging_with_a_badly_dated_post_leaves_an_event_recognisable() -> None:
    posts, truth = partly(0, None, share=1.0)
    first = truth[0]
    twin = np.flatnonzero(truth == first)[:1]
    event = list(posts.event)
    time = posts.time.copy()
    for row in twin:
        event[row] = "TWIN"
    time[twin[0]] = 0.0  # 1970
    for unit, zone in (("h", "UTC"), ("", "")):  # recognised as absurd, and not
        learned = replace(posts, event=tuple(event), time=time, unit=unit, zone=zone)
        detector = SMALL.model_copy(update={"time": "use"}).fit(learned).merge(first, "TWIN", into="both")
        found = detector.detect(replace(posts, event=None, unit=unit, zone=zone)).event
        assert np.mean(found[truth == first] == "both") > 0.8
        both = next(record for record in detector.store.events if record.name == "both")
        assert np.ptp(posts.time[truth == first]) > abs(both.middle - np.median(posts.time[truth == first]))
        assert both.mean_time_distance < np.ptp(posts.time[truth == first])


def test_a_few_far_times_do_not_make_an_event_long() -> None:
    middle, away = middle_of(np.array([*np.arange(20.0), 1e6]))
    assert middle == 10
    assert away < 15
    assert middle_of(np.array([1.0, 1.0, 5.0])) == (1.0, pytest.approx(4 / 3))


def test_absurd_dates_are_no_times() -> None:
    posts, _ = partly(1, None, share=1.0)
    time = posts.time.copy()
    time[[0, 100]] = 0.0, 1_139_000.0  # 1970 and 2099
    fitted = SMALL.fit({"a": replace(posts, time=time), "b": posts})
    table = fitted["a"].events()
    assert table["start"].min() > pd.Timestamp("2020", tz="UTC")
    assert table["end"].max() < pd.Timestamp("2030", tz="UTC")
    assert any("dates more than a year from all others: 2 of a" in line for line in fitted.advice())
    same = fitted["a"].detect(replace(posts, time=time)).event == fitted["b"].detect(posts).event
    assert same.mean() > 0.97
    assert any("2 dates" in fitted["a"].plot().axes[1].get_title(side) for side in ("left", "center"))


def test_posts_without_a_word_are_outliers_everywhere() -> None:
    posts, _ = partly(0, None)
    detector = SMALL.fit(posts)
    odd = ["", "http", "https://a.b/c", "@somebody", "🔥🔥", "..."]
    assert detector.detect([*odd, posts.text[0]]).outlier.tolist()[:6] == [True] * 6
    with pytest.warns(DataWarning, match="1 post without any text"):
        found = detector.detect(pd.DataFrame({"text": ["", posts.text[0]]}))
    assert found.event[0] == "outlier"
    grouped = detector.detect([*odd, *posts.text[:20]], events=2)
    assert grouped.outlier.tolist() == [True] * 6 + [False] * 20
    assert set(grouped.event[6:]) == {"group-0", "group-1"}
    with_empty = replace(posts, text=("", *posts.text[1:]))
    assert SMALL.fit(with_empty).store.nameless >= 1
    with pytest.raises(DataError, match="at least one post with a word, beside emoji and addresses"):
        SMALL.fit(["", "...", "🔥 http"])


def test_a_found_event_is_renamed() -> None:
    posts, _ = partly(0, None)
    detector = SMALL.fit(replace(posts, event=None))
    first, second = detector.events()["event"][:2]
    detector.rename(first, "the storm")
    assert {"the storm", second} <= set(detector.events()["event"])
    assert "the storm" in set(detector.detect(replace(posts, event=None)).event)
    labelled = SMALL.fit(posts)
    name = labelled.events()["event"][0]
    before = labelled.detect(posts).event
    after = labelled.rename(name, "other").detect(posts).event
    np.testing.assert_array_equal(np.where(before == name, "other", before), after)
    for wrong in ("outlier", " ", second):
        with pytest.raises(ParameterError):
            detector.rename("the storm", wrong)


def test_labels_on_posts_taken_in_before_are_taken() -> None:
    posts, _ = partly(0, None)
    detector = SMALL.fit(replace(posts, event=None))
    found = detector.detect(replace(posts, event=None)).event
    name = found[0]
    rows = np.flatnonzero(found == name)
    total = detector.events()["size"].sum() + detector.store.nameless
    again = replace(posts, event=("storm",) * posts.rows).select(rows)
    detector.partial_fit(again)
    table = detector.events().set_index("event")
    assert table.loc["storm", "labelled"] == len(rows)
    assert table["size"].sum() + detector.store.nameless == total
    assert np.mean(detector.detect(replace(again, event=None)).event == "storm") > 0.9


def test_central_posts_differ() -> None:
    posts, _ = partly(0, None)
    copied = Posts(np.tile(posts.time, 3), posts.text * 3, event=posts.event * 3, unit="h", zone="UTC")
    for shown in SMALL.fit(copied).events()["posts"]:
        assert len(set(shown)) == len(shown)


def test_a_stray_post_of_a_stream_is_not_the_central_one() -> None:
    """One post is its own centre, and was shown first; so was a stray one among the posts without a label."""
    posts, truth = partly(0, None, share=1.0)
    first, second = np.unique(truth)[:2]
    detector = SMALL.fit(posts)
    stray = posts.select(np.flatnonzero(truth == second)[:1])
    later = Posts(stray.time + 1, ("once more " + stray.text[0],), event=(str(first),), unit="h", zone="UTC")
    before = detector.events().set_index("event")["posts"]
    shown = detector.partial_fit(later).events().set_index("event")
    assert shown["size"][first] == (truth == first).sum() + 1
    assert shown["posts"][first] == before[first]


def test_texts_and_frames_with_clients_can_be_learned_from() -> None:
    posts, _ = partly(0, None)
    assert len(SMALL.fit(list(posts.text)).events())
    frame = posts.to_frame().assign(client=["a", "b"] * (posts.rows // 2))
    assert set(SMALL.fit(frame).names) == {"a", "b"}


def test_how_many_posts_of_unknown_events_are_told_is_measured() -> None:
    posts, _ = partly(0, None, share=1.0)
    learned = SMALL.fit(posts).familiarity
    code = 0
    rest = learned.codes != code
    kept = [posts.text[row] for row in learned.rows[rest]]
    inner = type(learned).of(("shared", 2048), kept, np.array(learned.names)[learned.codes[rest]], learned.times[rest])
    assert learned.unseen.shape == learned.codes.shape
    assert np.mean(learned.unseen[~rest] <= learned.level) > 0.9
    strange = inner.scores([posts.text[row] for row in learned.rows[~rest]], learned.times[~rest])
    assert np.mean(inner.p_values(strange) <= inner.level) > 0.9
