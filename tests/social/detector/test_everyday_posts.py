"""Posts about as many subjects as there are posts are no event, however little they are like the known ones."""

from __future__ import annotations

import numpy as np
import pytest

from cotempo.data import Posts
from cotempo.social import EventDetector
from cotempo.social.detector.familiarity import LEAST_ALIKE, Familiarity, least_alike

SMALL = EventDetector(dimension=40, buckets=2048, compare=False)
FLOOD = ("flood", "river", "water", "rain", "bridge", "boats", "streets", "rescue", "level", "mud")
STRIKE = ("strike", "trains", "union", "wages", "picket", "platform", "drivers", "station", "pay", "talks")
QUAKE = (
    "quake",
    "tremor",
    "rubble",
    "magnitude",
    "shaking",
    "epicentre",
    "aftershock",
    "collapsed",
    "seismic",
    "ground",
)
FILLERS = ("today", "now", "the", "in", "a", "is", "very", "news", "people", "area")
SMALL_WORDS = "my and of to for with on it was so we you they at not but just about when why how"
EVERYDAY = """
my dog ate the birthday cake and now hides under the sofa
anyone know a good dentist near the old market
just finished the third season, what an ending
my flight to Oslo was moved to tomorrow morning
who else is revising for the chemistry exam tonight
new shoes arrived, wrong size again, sigh
grandma's lentil soup recipe finally written down
the gym was empty today, perfect
lost my keys between the bakery and home
great goal by the captain in the second half
selling two tickets for the jazz concert on friday
does this jacket suit me or not
coffee machine broke, sending help please
happy anniversary to my lovely parents
finally learned to ride a unicycle
three meetings before noon, who does that
looking for a flat with two rooms and a balcony
the cat has learned to open the fridge
reading a novel about lighthouse keepers
my phone battery lasts forty minutes now
painted the kitchen yellow and regret nothing
best pizza in the city, no discussion
why are printers always out of cyan
planted tomatoes with the kids this afternoon
that documentary about whales made me cry
haircut disaster, hat season begins
chess club moves to thursdays from next month
my neighbour practises trumpet at six
how do you remove candle wax from a carpet
first snow in the mountains, skis are ready
the museum is free on sundays
can someone recommend a podcast about gardening
overslept and missed the yoga class
taxes done, treating myself to ice cream
our team lost at quiz night by one point
learning Portuguese, verbs are hard
""".strip().split("\n")


def about(words: tuple[str, ...], count: int, seed: int) -> list[str]:
    """Texts of an event, each of half of its words and some that all events have."""
    rng = np.random.default_rng(seed)
    return [" ".join([*rng.choice(words, 5, False), *rng.choice(FILLERS, 4, False)]) for _ in range(count)]


def letters(count: int) -> list[str]:
    """Texts of random letters and some words that all events have."""
    rng = np.random.default_rng(2)
    made = [["".join(rng.choice(list("abcdefghijklmnop"), 6)) for _ in range(6)] for _ in range(count)]
    return [" ".join([*words, *rng.choice(FILLERS, 4, False)]) for words in made]


def posts(*labelled: tuple[list[str], str | None]) -> Posts:
    """Shuffled posts, of each pair of texts and label the first three eighths with it."""
    rows = [(text, label if place < 30 else None) for texts, label in labelled for place, text in enumerate(texts)]
    order = np.random.default_rng(3).permutation(len(rows))
    text, event = zip(*(rows[place] for place in order), strict=True)
    return Posts(np.full(len(rows), np.nan), tuple(text), event=tuple(event))


KNOWN = ((about(FLOOD, 80, 0), "Flood"), (about(STRIKE, 80, 1), "Strike"))


@pytest.mark.parametrize("texts", [EVERYDAY, letters(40)], ids=["everyday", "letters"])
def test_everyday_posts_are_outliers_and_no_event(texts: list[str]) -> None:
    table = posts(*KNOWN, (texts, None))
    detector = SMALL.fit(table)
    assert set(detector.events()["event"]) == {"Flood", "Strike"}
    assert (detector.detect(texts).event == "outlier").mean() > 0.9
    assert detector.store.nameless > 0.9 * len(texts)


@pytest.mark.parametrize("texts", [EVERYDAY, letters(40)], ids=["everyday", "letters"])
def test_everyday_posts_of_a_stream_stay_outliers(texts: list[str]) -> None:
    detector = SMALL.fit(posts(*KNOWN)).partial_fit(texts)
    assert set(detector.events()["event"]) == {"Flood", "Strike"}
    assert (detector.detect(texts).event == "outlier").mean() > 0.9


@pytest.mark.parametrize("streamed", [True, False])
def test_posts_that_share_small_words_only_are_no_event(streamed: bool) -> None:
    rng = np.random.default_rng(0)
    small = [*FILLERS, *SMALL_WORDS.split()]
    rare = [["".join(rng.choice(list("aeioubcdfglmnprst"), 6)) for _ in range(2)] for _ in range(60)]
    texts = [" ".join(rng.permutation([*rng.choice(small, 6, False), *words])) for words in rare]
    detector = SMALL.fit(posts(*KNOWN)).partial_fit(texts) if streamed else SMALL.fit(posts(*KNOWN, (texts, None)))
    assert set(detector.events()["event"]) == {"Flood", "Strike"}


def test_copies_of_a_post_are_no_event_of_a_stream() -> None:
    copies = [f"RT @u{place}: {EVERYDAY[0]} https://a.b/{place}" for place in range(20)]
    detector = SMALL.fit(posts(*KNOWN)).partial_fit(copies)
    assert set(detector.events()["event"]) == {"Flood", "Strike"}


@pytest.mark.parametrize("streamed", [True, False])
def test_an_event_among_everyday_posts_is_found_without_them(streamed: bool) -> None:
    new = about(QUAKE, 30, 4)
    if streamed:
        detector = SMALL.fit(posts(*KNOWN)).partial_fit([*EVERYDAY, *new])
    else:
        detector = SMALL.fit(posts(*KNOWN, (EVERYDAY, None), (new, None)))
    found = detector.detect([*EVERYDAY, *new]).event
    names, counts = np.unique(found[len(EVERYDAY) :], return_counts=True)
    assert names[counts.argmax()].startswith("found-")
    assert counts.max() >= 0.9 * len(new)
    assert np.mean(found[: len(EVERYDAY)] == "outlier") > 0.9


@pytest.mark.parametrize("texts", [EVERYDAY, letters(40)], ids=["everyday", "letters"])
def test_everyday_posts_are_no_event_without_labels_either(texts: list[str]) -> None:
    events = [about(words, 40, place) for place, words in enumerate((FLOOD, STRIKE, QUAKE))]
    every = [text for event in events for text in event]
    detector = SMALL.fit([*every, *texts])
    found = detector.detect([*every, *texts]).event
    assert np.mean(found[120:] == "outlier") > 0.9
    assert detector.store.nameless > 0.9 * len(texts)
    assert len(detector.events()) == 3
    for place in range(3):
        names, counts = np.unique(found[40 * place : 40 * place + 40], return_counts=True)
        assert counts.max() >= 36
        assert names[counts.argmax()] != "outlier"
    given = SMALL.set_params(events=2).fit([*every, *texts])
    assert len(given.events()) == 2  # as many as were asked for, whatever they are


@pytest.mark.parametrize(("each", "labelled"), [(8, 8), (8, 4), (20, 20), (20, 6)])
def test_everyday_posts_of_a_small_desk_are_outliers(each: int, labelled: int) -> None:
    wrong, lost = [], []
    for seed in range(4):
        events = [about(words, each, 10 * seed + place) for place, words in enumerate((FLOOD, STRIKE, QUAKE))]
        daily = np.random.default_rng(seed).permutation(EVERYDAY)[: 3 * each // 2].tolist()
        names = [name if place < labelled else None for name in ("Flood", "Strike", "Quake") for place in range(each)]
        texts = [*(text for event in events for text in event), *daily]
        table = Posts(np.full(len(texts), np.nan), tuple(texts), event=(*names, *(None,) * len(daily)))
        found = SMALL.fit(table).detect(texts).event
        wrong.append(np.mean(found[3 * each :] != "outlier"))
        lost.append(np.mean(found[: 3 * each] == "outlier"))
    assert np.mean(wrong) <= 0.1
    assert np.mean(lost) <= 0.1


def test_posts_judged_again_do_not_fit_because_they_were_learned_from() -> None:
    texts = [*KNOWN[0][0], *KNOWN[1][0], EVERYDAY[0]]
    events, given = np.array(["Flood"] * 81 + ["Strike"] * 80), np.arange(161) < 160
    order = [*range(80), 160, *range(80, 160)]
    learned = Familiarity.of(
        ("shared", 2048), [texts[row] for row in order], events, np.full(161, np.nan), given[order]
    )
    scores = learned.scores([EVERYDAY[0]], np.array([np.nan]))
    assert learned.p_values(scores) <= learned.level


def test_posts_of_an_event_are_alike_and_others_are_not() -> None:
    texts = [*KNOWN[0][0], *KNOWN[1][0], *about(QUAKE, 20, 5), *EVERYDAY]
    events = np.array(["Flood"] * 80 + ["Strike"] * 80 + ["quake"] * 20 + ["everyday"] * len(EVERYDAY))
    learned = Familiarity.of(("shared", 2048), texts, events, np.full(len(texts), np.nan))
    assert learned.alike("quake") > 0.5 > LEAST_ALIKE > 0.1 > learned.alike("everyday")


def test_small_dense_groups_must_be_more_alike_than_large_ones() -> None:
    np.testing.assert_allclose([least_alike(posts) for posts in (8, 20, 45, 1000)], [0.75, 0.75, 0.5, LEAST_ALIKE])


def test_copies_say_nothing_of_how_alike_posts_are() -> None:
    copied = [*EVERYDAY, *[EVERYDAY[0]] * 20]
    texts = [*KNOWN[0][0], *KNOWN[1][0], *copied]
    events = np.array(["Flood"] * 80 + ["Strike"] * 80 + ["everyday"] * len(copied))
    learned = Familiarity.of(("shared", 2048), texts, events, np.full(len(texts), np.nan))
    assert learned.alike("everyday") < LEAST_ALIKE


def test_a_group_of_most_posts_stays_and_is_told_of() -> None:
    detector = SMALL.fit([*about(FLOOD, 12, 0), *EVERYDAY])
    assert not detector.store.nameless
    assert any("more than half of the posts are taken for one event" in line for line in detector.advice())
