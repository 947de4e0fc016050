"""Many short sequences: all of them are learned from, and nothing is let in that does not prove better."""

from __future__ import annotations

import numpy as np
import pytest

from cotempo.data import Series, hide, make_series, mask_cells, mask_rows
from cotempo.series import FedTDD, SeriesDiffusion, interpolate
from cotempo.series.windows import SeriesRows

LENGTHS = {"12": [12] * 50, "24": [24] * 30, "ragged": [5, 41, 17, 8, 30, 12, 23, 55, 9, 19] * 4}
SMALL = {"window": 12, "imputer_width": 16, "imputer_layers": 1, "imputer_steps": 80, "steps": 1, "batch": 32}


def cut(values: np.ndarray, lengths: list[int]) -> Series:
    ends = np.cumsum(lengths)
    return Series.from_arrays([values[end - size : end] for end, size in zip(ends, lengths, strict=True)])


def errors(model, series: Series, mask) -> tuple[float, float]:
    holes, _ = hide(series, mask(series.values.shape, 0.5, 7))
    gone = np.isnan(holes.values)
    return tuple(
        float(np.abs(filled.values - series.values)[gone].mean())
        for filled in (model.impute(holes), interpolate(holes))
    )


@pytest.mark.parametrize("kind", sorted(LENGTHS))
def test_short_sequences_of_features_that_tell_of_each_other(kind):
    lengths = LENGTHS[kind]
    made, _ = make_series(clients=1, length=2 * sum(lengths), features=4, factors=1, noise=0.2, seed=3)
    values = made["client-0"].values
    model = SeriesDiffusion(**SMALL).fit(cut(values, lengths))
    test = cut(values[sum(lengths) :], lengths)
    ours, line = errors(model, test, mask_cells)
    assert ours < 0.9 * line
    ours, line = errors(model, test, mask_rows)
    assert ours < 1.02 * line


@pytest.mark.parametrize("mask", [mask_rows, mask_cells])
def test_where_nothing_is_to_be_gained_interpolation_stands(mask):
    """Random walks that have nothing to do with each other: the line between neighbours is the best there is."""
    lengths = LENGTHS["24"]
    walks = np.random.default_rng(4).normal(size=(2 * sum(lengths), 3)).cumsum(axis=0)
    model = SeriesDiffusion(**{**SMALL, "imputer_steps": 20}).fit(cut(walks, lengths))
    ours, line = errors(model, cut(walks[sum(lengths) :], lengths), mask)
    assert ours < 1.02 * line


def test_sequences_shorter_than_the_window_are_filled_and_sampled():
    values = np.random.default_rng(5).normal(size=(90, 2)).cumsum(axis=0)
    small = SeriesDiffusion(
        width=8,
        heads=2,
        imputer_width=8,
        imputer_layers=1,
        diffusion_steps=20,
        sampler_steps=4,
        imputer_steps=2,
        steps=2,
    )
    table = cut(values, [5, 9, 7, 6, 8, 5, 9, 7, 6, 8, 5, 9, 6])
    holes, _ = hide(table, mask_cells(table.values.shape, 0.3, 0))
    model = small.fit(holes)
    filled = model.impute(holes, draws=3)
    assert np.isfinite(filled.draws).all()
    assert (filled.low <= filled.high).all()
    assert model.sample(2).rows == 18
    assert np.isfinite(model.forecast(holes, 2).values).all()
    assert np.isfinite(model.decompose(holes)["trend"].values).all()


def test_a_client_with_short_sequences_only_takes_part():
    method, clients, public = FedTDD.example()
    method = FedTDD(**{**method.model_dump(), "window": 8, "context": 10})
    table = clients["client-0"]
    short = cut(table.values, [5, 7, 6, 5, 7, 5, 5])
    fitted = method.fit({**clients, "client-0": short}, public=cut(public.values, [7, 6] * 3))
    assert np.isfinite(fitted["client-0"].impute(short).values).all()
    assert not len(SeriesRows.of(short).starts(method.window))
    assert fitted["client-0"].sample(2).rows == 16


def test_where_no_rows_are_left_to_prove_it_on_nothing_of_a_client_is_let_in():
    """Four walks shorter than two windows: what was learned from them is not judged on them."""
    walks = np.random.default_rng(6).normal(size=(10 * 44, 2)).cumsum(axis=0)
    method = FedTDD(
        common=("x0",), rounds=1, window=24, width=4, heads=1, encoders=1, decoders=1, imputer_width=8,
        imputer_layers=1, diffusion_steps=4, sampler_steps=2, batch=16, pretrain_steps=1, token_steps=0, start_steps=0,
        corrector_steps=40, first_steps=1, last_steps=0,
    )  # fmt: skip
    few, many = cut(walks[: 4 * 44], [44] * 4), cut(walks[4 * 44 :], [44] * 6)
    public = Series.from_arrays(walks[:, :1])
    fitted = method.fit({"few": few, "many": many}, public=public, progress=False)
    holes, _ = hide(few, mask_rows(few.values.shape, 0.3, 0))
    np.testing.assert_allclose(fitted["few"].impute(holes).values[:, 1], interpolate(holes).values[:, 1], atol=1e-9)
    assert set(fitted.benefit) == {"many"}
    printed = FedTDD(**{**method.model_dump(), "distiller": "diffusion", "corrector_steps": 0})
    assert set(printed.fit({"few": few, "many": many}, public=public, progress=False).benefit) == {"many"}
