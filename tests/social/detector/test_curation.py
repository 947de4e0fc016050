"""Events as an analyst handles them: merged, split, described, saved, drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from matplotlib.patches import StepPatch

import cotempo as ct
from cotempo.data import Posts, make_posts
from cotempo.errors import DataError, ParameterError
from cotempo.social import Detection, EventDetector
from cotempo.social import fitted as fitted_detectors
from cotempo.social.detector.words import language_of
from cotempo.social.encoders import pretrained

POSTS = make_posts(clients=2, posts=200, events=8, seed=1)[0]["client-0"]
SMALL = EventDetector(dimension=40, buckets=2048, compare=False)
BARE = replace(POSTS, event=(None,) * POSTS.rows)


@pytest.mark.parametrize("posts", [POSTS, BARE], ids=["labels", "no labels"])
def test_merged_events_are_one(posts: Posts) -> None:
    detector = SMALL.fit(posts)
    before = detector.detect(posts, outliers=False).event
    first, second = detector.events().sort_values("size")["event"].iloc[-2:]
    sizes = detector.events().set_index("event")["size"]
    assert detector.merge(first, second, into="both") is detector
    table = detector.events().set_index("event")
    assert table.loc["both", "size"] == sizes[first] + sizes[second]
    assert first not in table.index
    after = detector.detect(posts, outliers=False).event
    joined = np.isin(before, [first, second])
    assert (after[joined] == "both").mean() > 0.95
    assert (after[~joined] == before[~joined]).mean() > 0.95


def one_label_of_the_largest(seed: int) -> tuple[Posts, np.ndarray, str]:
    """Posts with three labels in ten, of the largest event one only; the truth, and that event."""
    posts = make_posts(clients=1, posts=300, events=6, seed=seed)[0]["client-0"]
    truth = np.array(posts.event)
    shown = np.random.default_rng(seed).random(300) < 0.3
    largest = max(set(truth.tolist()), key=truth.tolist().count)
    shown[np.flatnonzero((truth == largest) & shown)[1:]] = False
    labels = tuple(str(name) if show else None for name, show in zip(truth, shown, strict=True))
    return replace(posts, event=labels), truth, largest


@pytest.mark.parametrize("seed", [102, 104, 108])
def test_a_found_event_merged_into_its_label_keeps_its_posts_and_the_label(seed: int) -> None:
    posts, truth, label = one_label_of_the_largest(seed)
    detector = SMALL.fit(posts)
    unlabelled = replace(posts, event=None)
    before = detector.detect(unlabelled).event
    names, counts = np.unique(before[truth == label], return_counts=True)
    found = names[counts.argmax()]
    assert found.startswith("found-")
    detector.merge(found, label)
    after = detector.detect(unlabelled).event
    assert (after[before == found] == label).mean() > 0.97
    assert (after[truth != label] == before[truth != label]).mean() > 0.97


def test_a_found_event_beside_its_label_is_told_of() -> None:
    posts, _, label = one_label_of_the_largest(102)
    detector = SMALL.fit(posts)
    found = next(name for name in detector.events()["event"] if name.startswith("found-"))
    assert [line for line in detector.advice() if "may be one event" in line] == [
        f"{label!r} and {found!r} may be one event, as their posts are alike: compare their central posts; "
        f"merge({label!r}, {found!r}) makes them one"
    ]
    assert any(line.startswith(f"a: {label!r} and") for line in SMALL.fit({"a": posts}).advice() if "be one" in line)
    detector.merge(label, found)
    assert not any("may be one event" in line for line in detector.advice())


def test_posts_of_no_event_that_are_like_a_labelled_one_are_told_of() -> None:
    posts, truth, label = one_label_of_the_largest(100)
    detector = SMALL.fit(posts)
    assert (detector.detect(replace(posts, event=None)).outlier[truth == label]).mean() > 0.9
    assert f"posts of no event are like those of {label!r}: label some more of them" in detector.advice()


def test_pieces_of_an_event_are_told_of_and_events_are_not() -> None:
    detector = SMALL.fit(BARE)
    assert not any("may be one event" in line for line in detector.advice())
    largest = detector.events().sort_values("size")["event"].iloc[-1]
    detector.split(largest)
    assert any(f"'{largest}-1' and '{largest}-2' may be one event" in line for line in detector.advice())


def test_one_event_of_all_posts_is_told_of() -> None:
    one = POSTS.select(np.flatnonzero(np.array(POSTS.event) == POSTS.event[0]))
    lines = SMALL.set_params(events=1).fit(replace(one, event=None)).advice()
    assert any("more than half of the posts are taken for one event, found-0000: without" in line for line in lines)


def test_a_split_event_comes_apart_as_it_was_put_together() -> None:
    detector = SMALL.fit(POSTS)
    first, second = detector.events().sort_values("size")["event"].iloc[-2:]
    detector.merge(first, second, into="both").split("both")
    assert {"both-1", "both-2"} <= set(detector.events()["event"])
    truth = np.array(POSTS.event)
    found = detector.detect(POSTS, outliers=False).event
    for part in ("both-1", "both-2"):
        inside = truth[found == part]
        assert max(np.mean(inside == first), np.mean(inside == second)) > 0.9


def test_reducing_merges_pieces_and_quality_says_so() -> None:
    pieces = SMALL.fit(POSTS)
    true = pieces.quality
    for event in set(POSTS.event):
        pieces.split(event)  # little tells the halves of an event apart
    torn = pieces.quality
    assert torn < true - 0.03
    pieces.reduce(len(set(POSTS.event)))
    assert len(pieces.events()) == len(set(POSTS.event))
    assert pieces.quality > torn + 0.03
    assert pieces.reduce(1).quality == 0


def test_what_cannot_be_merged_or_split_is_said() -> None:
    detector = SMALL.fit(POSTS)
    name = detector.events()["event"][0]
    with pytest.raises(ParameterError, match=f"did you mean '{name}'"):
        detector.merge(name, f"{name}x")
    with pytest.raises(ParameterError, match="two different"):
        detector.merge(name, name)
    with pytest.raises(DataError, match="kept posts"):
        detector.split(name, parts=90)
    with pytest.raises(ParameterError, match="between 1 and"):
        detector.reduce(99)


def test_a_saved_detector_keeps_its_stream(tmp_path: Path) -> None:
    clients = make_posts(clients=2, posts=120, events=8, seed=3)[0]
    early = {name: posts.select(np.arange(80)) for name, posts in clients.items()}
    late = replace(clients["client-0"], event=(None,) * 120).select(np.arange(80, 120))
    fitted = SMALL.fit(early)
    detector = fitted["client-0"].partial_fit(late)
    names = detector.events()["event"].tolist()
    detector.merge(*names[:2])
    again = ct.load(fitted.save(tmp_path / "federation"))["client-0"]
    alone = ct.load(detector.save(tmp_path / "detector"))
    for loaded in (again, alone):
        pandas.testing.assert_frame_equal(loaded.events(), detector.events())
        np.testing.assert_array_equal(loaded.detect(late).confidence, detector.detect(late).confidence)
        assert loaded.store.window == 1


DATED = replace(POSTS, time=POSTS.time * 24 + 480_000, unit="h", zone="Europe/Madrid")


def test_dates_come_out_where_dates_went_in() -> None:
    detector = SMALL.fit(DATED)
    table = detector.events()
    assert str(table["start"].dtype).startswith("datetime64")
    assert str(table["start"].dt.tz) == "Europe/Madrid"
    first = table["start"].min()
    assert first == DATED.clock.date(DATED.time.min()).floor("s")
    assert detector.events("polars")["start"].dtype.is_temporal()
    frame = pandas.DataFrame({"text": DATED.text, "time": DATED.clock.dates_of(DATED.time)})
    np.testing.assert_array_equal(detector.detect(frame).event, detector.detect(DATED).event)
    with pytest.raises(DataError, match=r"with a time zone .*got as plain numbers"):
        detector.detect(POSTS)
    with pytest.raises(DataError, match="got as dates without"):
        detector.partial_fit(replace(DATED, zone=""))


def test_posts_without_times_have_none_in_the_table() -> None:
    table = SMALL.fit(replace(POSTS, time=np.full(POSTS.rows, np.nan))).events()
    assert table["start"].isna().all()


def test_posts_come_as_texts_frame_or_table() -> None:
    detector = SMALL.fit(POSTS)
    expected = detector.detect(replace(POSTS, time=np.full(POSTS.rows, np.nan))).event
    frame = pandas.DataFrame({"text": POSTS.text})
    for given in (list(POSTS.text), frame, frame["text"], np.array(POSTS.text)):
        np.testing.assert_array_equal(detector.detect(given).event, expected)
    with pytest.raises(DataError, match="text"):
        detector.detect(pandas.DataFrame({"words": ["a"]}))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_the_detection_of_a_dataframe_is_in_its_order(kind: str) -> None:
    detector = SMALL.fit(POSTS)
    order = np.random.default_rng(0).permutation(POSTS.rows)
    frame = POSTS.select(order).to_frame(kind)
    np.testing.assert_array_equal(detector.detect(frame).event, detector.detect(POSTS).event[order])


def test_reprs_are_short_and_html_is_a_table() -> None:
    detector = SMALL.fit(POSTS)
    detection = detector.detect(POSTS)
    for thing in (detector, detection):
        assert len(repr(thing)) < 100
        assert "<table>" in thing._repr_html_()
    assert isinstance(detection, Detection)
    assert list(detection.to_frame().columns) == ["event", "confidence"]
    assert list(pandas.DataFrame(detection)["event"]) == detection.event.tolist()


def test_keywords_mark_the_event_and_are_no_stop_words() -> None:
    rng = np.random.default_rng(0)
    text, event = [], []
    for name, topic in (("a", "flood river bridge"), ("b", "fire smoke forest")):
        for _ in range(40):
            stop = rng.choice(["the", "and", "was", "yet", "once", "while"], 3)
            text.append(" ".join(rng.permutation([*stop, *rng.choice(topic.split(), 2, replace=False)])))
            event.append(name)
    found = EventDetector(dimension=8, buckets=4096).fit(Posts([np.nan] * 80, tuple(text), event=tuple(event)))
    assert set(found.keywords(3)["a"]) == {"flood", "river", "bridge"}
    assert set(found.keywords()["b"]) == {"fire", "smoke", "forest"}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("the river is over the bridge", "en"),
        ("los bomberos y las víctimas del tren", "es"),
        ("il fiume è sopra gli argini della città", "it"),
        ("les secours sont dans la ville", "fr"),
        ("der Fluss ist über die Brücke", "de"),
        ("nao ha agua em toda a cidade do interior", "pt"),
        ("さくらまち", "ja"),
        ("Madrid Sevilla", "Latin script"),
        ("наводнение в городе", "Cyrillic script"),
        ("123 🌊", "unknown"),
    ],
)
def test_a_language_is_named_only_where_it_shows(text: str, language: str) -> None:
    assert language_of(Posts([np.nan], (text,)), 0) == language
    assert language_of(Posts([np.nan], (text,), extra={"lang": ("xx",)}), 0) == "xx"


@pytest.mark.parametrize("zone", ["", "+01:00", "Europe/Madrid"])
def test_the_figure_shows_keywords_and_dates_and_labels_do_not_overlap(zone: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    detector = SMALL.fit(replace(DATED, event=(None,) * DATED.rows, zone=zone))
    figure = detector.plot()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    right = figure.axes[1]
    shown = " ".join(label.get_text() for label in right.texts)
    assert all(f"{name}:" in shown for name in detector.events()["event"])  # the name to look up in the table
    assert any(word in right.texts[0].get_text() for words in detector.keywords().values() for word in words)
    for labels in (right.get_xticklabels(), right.texts):
        boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels if label.get_text()]
        assert not any(one.overlaps(two) for place, one in enumerate(boxes) for two in boxes[:place])


def test_the_timeline_shows_when_an_event_had_many_posts() -> None:
    time = np.concatenate([[0.0], np.full(30, 50.0), [100.0]])
    posts = Posts(time, tuple(f"flood river {row}" for row in range(32)), event=("flood",) * 32)
    (steps,) = (patch for patch in SMALL.fit(posts).plot().axes[1].patches if isinstance(patch, StepPatch))
    counts, edges, _ = steps.get_data()
    fullest = int(np.argmax(counts))
    assert edges[fullest] <= 50 <= edges[fullest + 1]
    assert np.count_nonzero(counts) == 3


def test_a_timeline_without_times_has_no_axis_of_times() -> None:
    right = SMALL.fit(replace(POSTS, time=np.full(POSTS.rows, np.nan))).plot().axes[1]
    assert not len(right.get_xticks())
    assert not right.get_xlabel()
    assert "without times" in right.get_title(loc="center") + right.get_title(loc="left")
    assert right.texts


def test_the_report_has_a_table_of_events(tmp_path: Path) -> None:
    fitted = SMALL.fit({"es": DATED, "en": replace(DATED, zone="UTC")})
    page = fitted.report(tmp_path / "page.html").read_text()
    words = fitted["es"].events().sort_values("size")["keywords"].iloc[-1]
    assert words in page
    assert set(fitted.tables()["events"]["client"]) == {"es", "en"}


class Dictionary:
    """An encoder that reads two languages alike."""

    name, dimension = "dictionary", 16
    topics = ("flood inundación", "fire incendio", "strike huelga", "the los", *[""] * 12)

    def encode(self, texts: list[str]) -> np.ndarray:
        found = [[sum(word in topic.split() for word in text.split()) for topic in self.topics] for text in texts]
        return np.array(found, np.float32) / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)


def test_the_same_event_is_linked_across_languages_by_an_encoder_that_knows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (pretrained, fitted_detectors):
        monkeypatch.setattr(module, "load_encoder", lambda name: Dictionary())
    english = Posts([np.nan] * 40, ("the flood", "the fire") * 20, event=("flood", "fire") * 20)
    spanish = Posts([np.nan] * 40, ("los inundación", "los huelga") * 20, event=("inundación", "huelga") * 20)
    method = EventDetector(encoder="sentence:x", buckets=16, dimension=4, compare=False)
    links = method.fit({"en": english, "es": spanish}).links(least=0.8)
    assert links[["event", "other event"]].to_numpy().tolist() == [["flood", "inundación"]]
    with pytest.raises(ParameterError, match="compares spellings"):
        SMALL.fit({"en": english, "es": spanish}).links()


def test_events_with_one_name_are_linked_and_others_by_all_their_posts() -> None:
    """Three central posts that mislead, among many that do not."""
    english = Posts([np.nan] * 60, ("the flood",) * 20 + ("the fire",) * 20 + ("the strike",) * 20,
                    event=("wet",) * 20 + ("hot",) * 20 + ("huelga",) * 20)  # fmt: skip
    spanish = Posts([np.nan] * 60, ("los inundación",) * 20 + ("los incendio",) * 20 + ("los huelga",) * 20,
                    event=("agua",) * 20 + ("huelga",) * 20 + ("paro",) * 20)  # fmt: skip
    fitted = SMALL.fit({"en": english, "es": spanish})
    links = fitted.links(Dictionary())
    found = {tuple(pair) for pair in links[["event", "other event"]].to_numpy().tolist()}
    assert found == {("wet", "agua"), ("huelga", "huelga")}


def test_groups_of_two_clients_have_different_names_and_what_a_client_has_is_not_the_results() -> None:
    fitted = SMALL.fit({"es": DATED, "en": DATED})
    assert set(fitted["es"].detect(DATED, events=2).event) == {"group-es-0", "group-es-1"}
    assert set(SMALL.fit(DATED).detect(DATED, events=2).event) == {"group-0", "group-1"}
    with pytest.raises(AttributeError, match=r"use fitted\[client\].partial_fit; clients are en, es"):
        fitted.partial_fit(DATED)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = fitted.nothing


def test_times_are_refused_where_none_were_learned_from() -> None:
    detector = SMALL.fit(list(DATED.text))
    with pytest.raises(DataError, match="posts must have no times, as those learned from had none"):
        detector.partial_fit(DATED)


def test_found_events_of_two_clients_have_different_names() -> None:
    unlabelled = replace(DATED, event=(None,) * DATED.rows)
    fitted = SMALL.fit({"es": unlabelled, "en": unlabelled})
    names = [set(fitted[client].events()["event"]) for client in ("es", "en")]
    assert not names[0] & names[1]
    assert all(name.startswith("found-es-") for name in names[0])
    assert f"Found {len(names[0]) + len(names[1])} events" in fitted.answer()
    alone = SMALL.fit(unlabelled)
    assert all(re.fullmatch(r"found-\d{4}", name) for name in alone.events()["event"])


def test_events_with_one_name_at_two_clients_count_once() -> None:
    fitted = SMALL.fit({"es": DATED, "en": DATED})
    assert f"Found {len(set(DATED.event) - {None})} events in the posts of 2 clients" in fitted.answer()
    table = fitted.tables()["events_by_client"].set_index("event")
    assert (table["es"] == table["en"]).all()
    assert table["es"].sum() == DATED.rows


def test_a_result_saved_into_its_run_is_the_runs(tmp_path: Path) -> None:
    """It was written beside the result, and never read again."""
    fitted = SMALL.fit({"es": DATED, "en": DATED}, run=tmp_path / "run")
    first, second = fitted["es"].events()["event"][:2]
    fitted["es"].merge(first, second, into="both")
    fitted.save(tmp_path / "run")
    assert "both" in set(ct.load(tmp_path / "run")["es"].events()["event"])
    assert not (tmp_path / "run" / "fitted.json").exists()


def test_resuming_a_finished_run_keeps_what_was_done_since(tmp_path: Path) -> None:
    """Windows taken in and names given were thrown away without a word."""
    clients = {"es": DATED, "en": DATED}
    fitted = SMALL.fit(clients, run=tmp_path / "run")
    fitted["es"].rename(fitted["es"].events()["event"][0], "the storm")
    fitted.save(tmp_path / "run")
    again = ct.resume(tmp_path / "run", clients, progress=False)
    assert again.digest == fitted.digest
    for result in (again, ct.load(tmp_path / "run")):
        assert "the storm" in set(result["es"].events()["event"])
    assert "the storm" in (tmp_path / "run" / "report.html").read_text()


def test_an_event_is_split_into_at_least_two() -> None:
    detector = SMALL.fit(DATED)
    with pytest.raises(ParameterError, match="parts must be at least 2, got 1"):
        detector.split(detector.events()["event"][0], parts=1)


def test_central_posts_and_keywords_have_no_entities() -> None:
    texts = [f"flood &amp; storm &quot;{word}&quot;" for word in ("harbour", "bridge", "river", "town")] * 3
    table = SMALL.fit([*texts, *["a fire in the forest", "smoke over the forest"] * 6]).events()
    shown = " ".join(text for posts in table["posts"] for text in posts)
    assert '& storm "' in shown
    assert "amp" not in ", ".join(table["keywords"])
