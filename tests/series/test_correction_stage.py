"""A network that corrects closed forms."""

from __future__ import annotations

import numpy as np

import cotempo as ct
from cotempo.data import Series
from cotempo.federation import Rng
from cotempo.series.diffusion import CorrectedStage, hide, hide_and_fill
from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.filling.stages import Filler, NetworkStage
from cotempo.series.nn.parameters import NetworkState
from cotempo.series.seriesmoments import learn
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Scale, SeriesRows

SIZES = SeriesSettings(window=12, imputer_width=8, imputer_layers=1)


def swinging(rows: int, seed: int = 0) -> np.ndarray:
    """Three oscillators with a period of 40 rows, longer than an imputer sees, that forget their phase slowly."""
    stream, state, found = np.random.default_rng(seed), np.zeros((2, 3)), np.zeros((rows, 3))
    turn = 0.995 * np.array([[np.cos(np.pi / 20), -np.sin(np.pi / 20)], [np.sin(np.pi / 20), np.cos(np.pi / 20)]])
    for row in range(rows):
        state = turn @ state + 0.1 * stream.normal(size=(2, 3))
        found[row] = state[0]
    return found


def make_base(values: np.ndarray) -> tuple[SeriesRows, Filler, FactorModels]:
    """Scaled rows, and a filler by their window moments."""
    scale = Scale.of(values)
    rows = SeriesRows(scale.apply(values), (len(values),))
    factors = FactorModels.of(rows, scale)
    return rows, Filler.closed(scale, (learn(rows, 16)[0], NetworkStage(factors)), trusted="moments"), factors


def test_untrained_it_is_what_it_corrects():
    rows, base, factors = make_base(swinging(300))
    fresh = NetworkState.fresh(SIZES.imputer().specs(3), Rng(0, "test")("imputer"), "float64").average
    sizes, stream = SIZES.model_copy(update={"precision": "float64"}), np.random.default_rng(0)
    holes = rows.with_values(np.where(hide(rows, 16, stream), np.nan, rows.values))
    stage = CorrectedStage(base, factors, fresh)
    fillings = stage.fill(holes, sizes)
    assert stage.names == ("moments", "factors", "correction")
    assert np.allclose(fillings[-1], base.scaled(holes, sizes))
    assert np.allclose(fillings[:-1], base.fillings(holes, sizes)[0][1:])


def test_gaps_to_learn_from_are_of_several_lengths_and_filled_in_whole_rows():
    rows, base, factors = make_base(swinging(600))
    given = hide_and_fill(rows, 6, base, factors, SIZES, np.random.default_rng(0))
    assert given.windows.shape == (6 * (600 - SIZES.reach + 1), SIZES.reach, 3)
    assert not (given.left & given.mask).any()
    assert (given.left | given.mask).all()
    assert np.allclose(given.guess[given.left], given.windows[given.left])
    assert given.mask.all(axis=2).sum(axis=1).max() > SIZES.reach // 2
    off = np.abs(given.guess - given.windows)[given.mask].mean()
    assert 0 < off < 0.5 * np.abs(given.windows[given.mask]).mean()


def test_long_gaps_are_filled_no_worse_than_by_moments_alone():
    values = swinging(2600)
    table, rest = Series.from_arrays(values[:1600]), values[1600:]
    sizes = {"window": 12, "imputer_width": 16, "imputer_layers": 1, "width": 8, "encoders": 1, "decoders": 1}
    model = ct.SeriesDiffusion(**sizes, imputer_steps=100, steps=1).fit(table)
    alone = ct.SeriesMoments(window=48).fit(table)
    gone = np.zeros(rest.shape, dtype=bool)
    for first in range(10, 980, 50):
        gone[first : first + 18] = True
    holes = Series.from_arrays(np.where(gone, np.nan, rest))
    ours, theirs = (np.abs(part.impute(holes).values - rest)[gone].mean() for part in (model, alone))
    assert ours < 1.01 * theirs
