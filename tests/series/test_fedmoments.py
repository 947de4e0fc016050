"""FedMoments: the same process from sums, in one round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Series, hide, mask_cells
from cotempo.errors import CotempoError
from cotempo.series import interpolate
from cotempo.series.moments.model_choice import split
from cotempo.series.moments.moments import find_units, sum_units
from cotempo.series.moments.personal import hide_alike
from cotempo.series.windows import SeriesRows

NAMES = ("a", "b", "c")


def parts(count: int = 10, rows: int = 130, missing: float = 0.0) -> dict[str, np.ndarray]:
    stream = np.random.default_rng(0)
    found = {}
    for number in range(count):
        time = np.arange(rows) + stream.integers(12)
        first = np.sin(time * np.pi / 6) + np.cumsum(0.05 * stream.normal(size=rows)) + number
        second = np.cos(time * np.pi / 6) + 0.1 * stream.normal(size=rows)
        values = np.column_stack([first, second, 2 * first + 0.1 * stream.normal(size=rows)])
        chances = stream.random(values.shape)
        found[f"client-{number}"] = np.where(chances < missing, np.nan, values)
    return found


def tables(values: dict[str, np.ndarray]) -> dict[str, Series]:
    return {name: Series.from_arrays(part, features=NAMES) for name, part in values.items()}


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_ten_clients_fill_as_one_owner_of_all_does(missing: float):
    values = parts(missing=missing)
    fitted = ct.FedMoments(window=8).fit(tables(values), progress=False)
    pooled = ct.SeriesMoments(window=8).fit(Series.from_arrays(list(values.values()), features=NAMES))
    assert fitted.rounds == 1
    holes, _ = hide(*_hidden(values))
    assert np.allclose(fitted.model.impute(holes).values, pooled.impute(holes).values, rtol=0, atol=1e-8)
    assert np.allclose(fitted.model.process.start, pooled.process.start, rtol=1e-8)
    for mine, theirs in zip(fitted.model.process.whiteners, pooled.process.whiteners, strict=True):
        assert np.allclose(mine, theirs, rtol=0, atol=1e-8 * np.abs(theirs).max())


def _hidden(values: dict[str, np.ndarray]) -> tuple[Series, np.ndarray]:
    table = Series.from_arrays(values["client-3"], features=NAMES)
    return table, mask_cells(table.values.shape, 0.4, 1)


def test_features_that_only_some_have():
    """A client that lacks a feature fills it by what others know of it."""
    clients = tables(parts())
    for number in (0, 1, 2):
        whole = clients[f"client-{number}"]
        kept = [k for k in range(3) if k != number]
        clients[f"client-{number}"] = replace(
            whole, features=tuple(NAMES[k] for k in kept), values=whole.values[:, kept]
        )
    fitted = ct.FedMoments(window=8).fit(clients, progress=False)
    assert fitted["client-0"].features == ("b", "c")
    table, mask = _hidden(parts())
    holes, _ = hide(table, mask)
    ours, line = (
        np.abs(f.values - table.values)[mask].mean() for f in (fitted.model.impute(holes), interpolate(holes))
    )
    assert ours < 0.8 * line


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_an_empty_client_and_the_order_of_clients_change_nothing(missing: float):
    clients = tables(parts(4, missing=missing))
    fitted = ct.FedMoments(window=6).fit(clients, progress=False)
    more = {**clients, "empty": Series.from_arrays(np.zeros((0, 3)), features=NAMES)}
    more["unseen"] = Series.from_arrays(np.full((30, 3), np.nan), features=NAMES)
    again = ct.FedMoments(window=6).fit(more, progress=False)
    assert not again.failures
    renamed = dict(zip(("d", "c", "b", "a"), clients.values(), strict=True))
    turned = ct.FedMoments(window=6).fit(renamed, progress=False)
    for other in (again, turned):
        assert np.allclose(other.state.products, fitted.state.products, rtol=1e-9)
        assert other.state.prior == fitted.state.prior
    assert turned.benefit["d"].together == pytest.approx(fitted.benefit["client-0"].together)
    assert set(again.benefit) == set(fitted.benefit)
    assert np.isfinite(again["unseen"].impute(more["unseen"], draws=2).high).all()


def test_a_column_without_measurements_leaves_the_others_their_intervals():
    clients = tables(parts(3, rows=800))
    table = clients["client-0"]
    lacking = replace(table, values=np.where(np.arange(3) == 1, np.nan, table.values))
    fitted = ct.FedMoments(window=6).fit({**clients, "client-0": lacking}, progress=False)
    less = replace(table, features=("a", "c"), values=table.values[:, [0, 2]])
    other = ct.FedMoments(window=6).fit({**clients, "client-0": less}, progress=False)
    mine, theirs = fitted["client-0"].calibration, other["client-0"].calibration
    assert theirs.errors.any()
    assert np.allclose(mine.errors[:, [0, 2]], theirs.errors)
    assert np.allclose(mine.ratios[:, [0, 2]], theirs.ratios)
    assert not mine.errors[:, 1].any()


def test_units_change_no_benefit():
    clients = tables(parts(3, missing=0.2))
    factor = np.array([1e-3, 1.0, 1e4])
    scaled = {name: replace(table, values=table.values * factor + 7.0) for name, table in clients.items()}
    mine, theirs = (ct.FedMoments(window=6).fit(each, progress=False).benefit for each in (clients, scaled))
    for name in clients:
        assert mine[name].alone == pytest.approx(theirs[name].alone, rel=1e-6)
        assert mine[name].together == pytest.approx(theirs[name].together, rel=1e-6)


def test_joining_helps_clients_with_few_rows():
    fitted = ct.FedMoments(window=8).fit(tables(parts(10, rows=125)), progress=False)
    gains = [benefit.gain for benefit in fitted.benefit.values()]
    assert np.mean(gains) > 0


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_client_among_itself_gains_nothing(missing: float):
    clients = tables(parts(1, rows=400, missing=missing))
    fitted = ct.FedMoments(window=8).fit(clients, progress=False)
    alone, together, _ = fitted.outcome.memories["client-0"].compared
    assert alone == pytest.approx(together, rel=1e-12)


def test_a_client_that_sets_all_its_rows_apart_is_calibrated_by_what_others_know():
    clients = tables(parts(20, rows=110))
    apart = {name for name, table in clients.items() if not len(split(SeriesRows.of(table))[0].values)}
    assert apart
    fitted = ct.FedMoments(window=6).fit(clients, progress=False)
    assert fitted[min(apart)].calibration.errors.any()


def test_a_client_with_few_rows_follows_the_others_and_is_not_compared():
    clients = tables(parts(4, rows=300))
    small = clients["client-0"]
    clients["client-0"] = small.select(np.arange(small.rows) < 25)
    fitted = ct.FedMoments(window=6).fit(clients, progress=False)
    assert set(fitted.benefit) == set(clients) - {"client-0"}
    holes, _ = hide(*_hidden(parts(4)))
    assert np.array_equal(fitted["client-0"].impute(holes).values, fitted.pooled("client-0").impute(holes).values)


def plants_that_differ(seed: int, rows: int = 600) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Two sensors move together at two plants and against each other at the third; a tenth of the cells is missing."""
    stream, holes, truths = np.random.default_rng(seed), {}, {}
    for name, sign in (("east", 1.0), ("north", 1.0), ("west", -1.0)):
        first = np.cumsum(stream.normal(size=rows))
        second = sign * 2 * first + 0.3 * stream.normal(size=rows)
        truths[name] = np.column_stack([first, second])
        holes[name] = np.where(stream.random((rows, 2)) < 0.1, np.nan, truths[name])
    return holes, truths


@pytest.mark.parametrize("seed", [0, 1])
def test_joining_does_not_harm_a_plant_that_differs_and_says_so_in_the_right_size(seed: int):
    holes, truths = plants_that_differ(seed)
    clients = {name: Series.from_arrays(part) for name, part in holes.items()}
    fitted = ct.FedMoments(window=6).fit(clients, progress=False)
    for name, table in clients.items():
        gone = np.isnan(table.values)
        spread = truths[name].std(axis=0)
        models = (ct.SeriesMoments(window=6).fit(table), fitted[name], fitted.pooled(name))
        alone, client, pooled = (
            (np.abs(model.impute(table).values - truths[name]) / spread)[gone].mean() for model in models
        )
        assert client < 1.05 * alone
        if name == "west":
            assert pooled > 1.5 * alone
        benefit = fitted.benefit[name]
        assert benefit.together / benefit.alone == pytest.approx(client / alone, abs=0.1)
        assert benefit.verdict == "no difference shown" or benefit.gain > 0


def test_hidden_gaps_are_like_those_of_the_table():
    """Cells missing one by one are judged by single cells, a sensor that fails for hours by such hours."""
    stream = np.random.default_rng(0)
    values = stream.normal(size=(800, 2))
    single, long = values.copy(), values.copy()
    single[::20, 0] = np.nan
    for start in range(10, 780, 100):
        long[start : start + 12, 1] = np.nan
    lengths = []
    for table, column in ((single, 0), (long, 1)):
        hidden = hide_alike(SeriesRows(table, (800,)))
        assert not (hidden & np.isnan(table)).any()
        assert not hidden[:, 1 - column].any()
        assert 0.03 < hidden[:, column].mean() < 0.25
        edges = np.flatnonzero(np.diff(np.r_[0, hidden[:, column] | np.isnan(table[:, column]), 0]))
        lengths.append(np.median(edges[1::2] - edges[::2]))
    assert lengths[0] <= 2
    assert lengths[1] >= 8
    whole = hide_alike(SeriesRows(values, (800,)))
    assert 0.1 < whole.mean() < 0.25


def test_too_few_rows_are_refused():
    clients = tables(parts(2))
    clients["tiny"] = Series.from_arrays(np.arange(9.0).reshape(3, 3), features=NAMES)
    with pytest.raises(CotempoError, match="at least 20 rows"):
        ct.FedMoments(window=4).fit(clients, progress=False)


def test_only_sums_cross():
    method, clients, _ = ct.FedMoments.example()
    fitted = method.fit(clients, progress=False)
    assert all(method.expects(fitted.state, phase).sums for phase in method.phases)


def test_a_saved_result_fills_the_same(tmp_path):
    clients = tables(parts(3, missing=0.2))
    fitted = ct.FedMoments(window=6).fit(clients, progress=False)
    again = ct.load(fitted.save(tmp_path / "saved"))
    one, two = (each["client-1"].impute(clients["client-1"], draws=3) for each in (fitted, again))
    assert np.array_equal(one.values, two.values)
    assert np.array_equal(one.high, two.high)


def test_units_are_sums():
    values = parts(3)
    every = [sum_units(SeriesRows(part, (len(part),))) for part in values.values()]
    total = {name: sum(each[name] for each in every) for name in every[0]}
    pooled = SeriesRows(np.concatenate(list(values.values())), (130,) * 3)
    assert np.allclose(find_units(**total).step, find_units(**sum_units(pooled)).step)


@pytest.mark.slow
def test_a_stage_of_fed_tdd():
    """Clients that share two of three features fill better than interpolation with networks that learned nothing."""
    values = parts(3, rows=600, missing=0.2)
    clients = tables(values)
    public = Series.from_arrays(values["client-2"][:, :2], features=NAMES[:2])
    del clients["client-2"]
    few = clients["client-1"]
    clients["client-1"] = replace(few, features=NAMES[:2], values=few.values[:, :2])
    method = ct.FedTDD(
        common=NAMES[:2], rounds=1, window=12, width=4, heads=1, encoders=1, decoders=1, imputer_width=4,
        imputer_layers=1, pretrain_steps=1, token_steps=0, start_steps=0, corrector_steps=1, first_steps=1,
        later_steps=0,
        last_steps=0,
    )  # fmt: skip
    fitted = method.fit(clients, public=public, progress=False)
    assert [record["phase"] for record in fitted.history][1:5] == ["centre", "moments", "moments", "choose"]
    for phase in ("centre", "moments", "choose"):
        assert method.expects(fitted.state, phase).sums
    truth = parts(3, rows=600)
    for name, table in clients.items():
        gone = np.isnan(table.values)
        true = truth[name][:, : len(table.features)]
        ours, line = (np.abs(f.values - true)[gone].mean() for f in (fitted[name].impute(table), interpolate(table)))
        assert ours < 0.85 * line


def test_a_report_draws_synthetic_windows_of_every_client_beside_real_ones():
    clients, _ = ct.make_series(clients=3, length=120, features=2, missing=0.1, seed=1)
    figures = ct.FedMoments(window=6).fit(clients, progress=False).figures()
    for name in clients:
        first, *_ = figures[f"Synthetic windows of {name}"].axes
        assert {line.get_label() for line in first.lines} >= {"real", "synthetic"}
