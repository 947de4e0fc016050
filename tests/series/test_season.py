"""Seasons: cycles are found by the clock, whatever its unit, and only where they prove useful."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from cotempo.data import Series, hide, mask_rows
from cotempo.errors import DataError
from cotempo.series import SeriesDiffusion, interpolate
from cotempo.series.season import find_season
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import SeriesRows

HOUR = {"h": 1.0, "s": 3600.0}
SMALL = {"imputer_width": 8, "imputer_layers": 1, "imputer_steps": 2, "steps": 1, "batch": 16}


def waves(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A feature with a cycle of 24 rows on a random walk, and a random walk; and the cycle."""
    cycle = np.sin(2 * np.pi * np.arange(count) / 24) + 0.5 * (np.arange(count) % 24 == 7)
    walk = 0.15 * np.random.default_rng(seed).normal(size=(count, 2)).cumsum(axis=0)
    return walk + np.column_stack([cycle, 0 * cycle]), cycle


def pieces(values: np.ndarray, seed: int, unit: str = "h") -> Series:
    """Sequences of 5 to 30 rows that keep their times."""
    ends = np.cumsum(np.random.default_rng(seed).integers(5, 31, len(values)))
    ends = [0, *ends[ends < len(values)]]
    spans = list(pairwise(ends))
    return Series.from_arrays(
        [values[a:b] for a, b in spans], time=[HOUR[unit] * (np.arange(a, b) + 5) for a, b in spans], unit=unit
    )


@pytest.mark.parametrize("unit", ["h", "s"])
def test_the_cycle_of_scattered_sequences_is_found(unit):
    values, cycle = waves(3000)
    rows = SeriesRows.of(pieces(values, 1, unit))
    kept, held = rows.split(0.3, 12)
    season = find_season(kept, held, SeriesSettings(window=12), np.random.default_rng(0))
    assert len(season.levels) == 24
    found = season.at(3600 * (np.arange(24.0) + 5))
    np.testing.assert_allclose(found[:, 0] - found[:, 0].mean(), cycle[:24] - cycle[:24].mean(), atol=0.12)
    assert not season.levels[:, 1].any()


def test_trends_and_noise_are_no_seasons():
    stream = np.random.default_rng(2)
    assert not find_season(
        *SeriesRows.of(Series.from_arrays(waves(900)[0])).split(0.3, 12), SeriesSettings(), stream
    ).levels.any()
    for values in (
        np.arange(900.0)[:, None] + stream.normal(size=(900, 1)),
        stream.normal(size=(900, 2)).cumsum(axis=0),
    ):
        kept, held = SeriesRows.of(Series.from_arrays(values, unit="h")).split(0.3, 12)
        assert not find_season(kept, held, SeriesSettings(window=12), stream).levels.any()


def test_short_sequences_are_filled_by_the_clock():
    values, _ = waves(3000)
    model = SeriesDiffusion(**SMALL).fit(pieces(values[:2000], 3))
    test = Series.from_arrays(values[2000:], time=np.arange(2000, 3000) + 5, unit="h")
    test = test.select(np.flatnonzero(np.arange(1000) % 20 != 19))
    holes, _ = hide(test, mask_rows(test.values.shape, 0.5, 0))
    gone = np.isnan(holes.values)
    filled = model.impute(holes)  # missing rows as well
    there = filled.values[np.isin(filled.time, test.time)]
    ours, line = (np.abs(fill - test.values)[gone[:, 0], 0].mean() for fill in (there, interpolate(holes).values))
    assert ours < 0.8 * line
    with pytest.raises(DataError, match="time must have a unit"):
        model.impute(replace(holes, unit=""))


@pytest.mark.parametrize("offset", [0.0, 0.2, 0.5])
def test_rows_may_be_stamped_anywhere_in_a_step(offset):
    """Rows at hh:30 keep 24 places a day, in learning and in filling."""
    values, cycle = waves(3000)
    rows = SeriesRows(values, (3000,), 3600 * (np.arange(3000) + offset))
    season = find_season(*rows.split(0.3, 12), SeriesSettings(window=12), np.random.default_rng(0))
    assert len(season.levels) == 24
    found = season.at(rows.clock[:48])[:, 0]
    np.testing.assert_allclose(found - found.mean(), cycle[:48] - cycle[:48].mean(), atol=0.12)
    later = season.at(3600 * (np.arange(24.0) + offset + 0.5))
    assert len(np.unique(later[:, 0])) == 24
