"""Counts that grow where only a rhythm is learned: those ahead start from the level of late, and people are told."""

import numpy as np
import pytest

from cotempo.data import Events
from cotempo.errors import AdviceWarning
from cotempo.events import FedPP
from cotempo.events.curves.course import LevelCourse
from cotempo.federation.fitted import load

WEEKS, WEEK = 12, 168.0
RATES = {"large": 4.0, "middle": 1.5, "small": 1.0}
RNG = np.random.default_rng


def course(levels: list[float], per_block: float, seed: int) -> LevelCourse:
    seen = RNG(seed).poisson(per_block * np.array(levels)).astype(float)
    return LevelCourse(0.0, WEEK, seen, np.full(len(seen), seen.mean()))


def fit(growth: float, seed: int):
    """Three sites with a day of their own, whose rate grows evenly to ``1 + growth`` times what it was."""
    rng, clients, span = RNG([seed, 7]), {}, WEEKS * WEEK
    for name, rate in RATES.items():
        times = np.sort(rng.uniform(0, span, rng.poisson(1.8 * rate * (1 + growth) * span)))
        true = rate * (1 + 0.8 * np.cos(2 * np.pi * (times - 15) / 24)) * (1 + growth * times / span)
        kept = times[rng.uniform(0, 1.8 * rate * (1 + growth), len(times)) < true]
        clients[name] = Events.from_arrays([kept], (0.0, span))
    return FedPP(kernel="time", period=24, cells=48, compare=False).fit(clients, progress=False)


def test_counts_ahead_start_from_the_level_of_late_and_fit_says_that_they_grew(tmp_path):
    with pytest.warns(AdviceWarning, match="large: counts grew by 2.% from its first third to its last"):
        fitted = fit(0.4, 0)
    span = WEEKS * WEEK
    for name, rate in RATES.items():
        found, true = fitted[name].predict_count(span, span + WEEK), rate * WEEK * (1 + 0.4 * (1 + 0.5 / WEEKS))
        assert found.lower < true < found.upper
        at = span + np.arange(0.5, WEEK)
        assert fitted[name].intensity(at).mean.sum() == pytest.approx(found.mean, rel=0.02)
        drawn = np.mean([len(fitted[name].sample(span, span + WEEK, seed=seed).time) for seed in range(20)])
        assert drawn == pytest.approx(found.mean, rel=0.1)
        assert fitted[name].predict_next(span + 10).survival[-1] < 1e-3
    assert any(line.startswith("large: counts grew") for line in fitted.advice())
    # Inside the data it is the mean level, and so are scores; after them, those of new weeks go with the level.
    assert fitted["large"].predict_count(0, span).mean == pytest.approx(fitted["large"].seen[0], rel=0.01)
    again = load(fitted.save(tmp_path / "kept"))
    assert again["large"].predict_count(span, span + WEEK) == fitted["large"].predict_count(span, span + WEEK)


def test_new_weeks_are_scored_at_the_level_of_late():
    fitted, span = fit(1.0, 1), WEEKS * WEEK
    times = np.sort(RNG(3).uniform(span, span + 4 * WEEK, int(8 * 4 * WEEK)))
    scores = fitted["large"].score(times, (span, span + 4 * WEEK))
    assert scores["count_ratio"] == pytest.approx(1, abs=0.08)  # at the mean level .75
    waits = np.concatenate(fitted["large"].rescale(times, (span, span + 4 * WEEK)))
    assert waits.sum() == pytest.approx(len(times) * scores["count_ratio"], rel=0.02)


def test_nothing_is_said_and_little_is_lost_where_nothing_moves():
    fitted, span = fit(0.0, 2), WEEKS * WEEK
    assert fitted.warnings() == []
    for name, rate in RATES.items():
        found = fitted[name].predict_count(span, span + WEEK)
        assert found.lower < rate * WEEK < found.upper
        assert found.upper - found.lower < 1.5 * 3.92 * np.sqrt(rate * WEEK)


@pytest.mark.parametrize(("growth", "least"), [(0.0, 0.9), (0.4, 0.8), (-0.3, 0.8)], ids=["level", "grows", "falls"])
def test_intervals_of_what_comes_next_hold(growth, least):
    held = []
    for seed in range(150):
        per_block, blocks = (672.0, 168.0, 20.0)[seed % 3], (6, 12, 26)[seed // 3 % 3]
        levels = 1 + growth * (np.arange(blocks + 1) + 0.5) / blocks
        known = course(levels[:-1].tolist(), per_block, seed)
        rng = RNG(1000 + seed)
        drawn = rng.poisson(known.draw(4000)[:, 1] * rng.gamma(known.events.sum() + 1, 1 / blocks, 4000))
        came = rng.poisson(per_block * levels[-1])
        lower, upper = np.quantile(drawn, [0.025, 0.975])
        held.append(lower <= came <= upper)
    assert np.mean(held) >= least


def test_changes_are_told_from_chance():
    flat = [course([1.0] * 12, size, seed).change() for seed in range(200) for size in (20.0, 500.0)]
    assert np.mean(np.array(flat) != 0) < 0.02
    busy = [course(np.exp(0.2 * RNG(seed).standard_normal(12)).tolist(), 500.0, seed).change() for seed in range(200)]
    assert np.mean(np.array(busy) != 0) < 0.03  # weeks that differ are no trend
    grown = [course(np.linspace(1.0, 1.4, 12).tolist(), 500.0, seed).change() for seed in range(50)]
    assert np.mean(np.array(grown) > 0.1) > 0.95


def test_few_events_or_weeks_have_no_course():
    table = Events.from_arrays([np.sort(RNG(0).uniform(0, 3 * WEEK, 3000))], (0.0, 3 * WEEK))
    model = FedPP(kernel="time", period=WEEK, cells=48, compare=False).fit({"a": table}, progress=False)["a"]
    assert model.course.level == 1
    assert not model.course.change()
    assert (model.course.draw(5) == 1).all()


def test_weeks_that_nobody_watched_say_nothing():
    rng = RNG(4)
    parts = [np.sort(rng.uniform(*ends, 1000)) for ends in ((0.0, 5 * WEEK), (7 * WEEK, 12 * WEEK))]
    table = Events.from_arrays(parts, [(0.0, 5 * WEEK), (7 * WEEK, 12 * WEEK)])
    model = FedPP(kernel="time", period=WEEK, cells=48, compare=False).fit({"a": table}, progress=False)["a"]
    assert (model.course.expected > 0).sum() == 10
    assert not model.course.change()
    assert model.course.level == pytest.approx(1, abs=0.05)
