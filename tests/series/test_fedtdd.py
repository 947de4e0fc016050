"""FedTDD: the whole contract, both presets, what crosses, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Series, hide, make_series
from cotempo.errors import DataError, ParameterError, SchemaError
from cotempo.federation import Rng
from cotempo.series import FedTDD, interpolate
from cotempo.series.fedtdd import set_apart, warm_started
from cotempo.series.nn import training
from cotempo.series.nn.losses import Denoising
from cotempo.series.nn.parameters import resize
from cotempo.series.windows import SeriesRows
from cotempo.testing import CHECKS

QUICK = (
    "batched_equals_looped",
    "nothing_raw_crosses",
    "churn_costs_only_the_affected",
    "verbs_change_nothing_they_are_given",
)


@pytest.fixture(scope="module")
def printed(federation):
    method, clients, public = federation
    changes = {
        "distiller": "diffusion",
        "rounds": 2,
        "later_steps": 1,
        "alpha": 0.5,
        "corrector_steps": 0,
        "token_steps": 0,
    }
    return FedTDD(**{**method.model_dump(), **changes}), clients, public


@pytest.mark.parametrize("name", QUICK)
def test_the_printed_loop_keeps_the_contract(name, printed, tmp_path):
    method, clients, public = printed
    CHECKS[name](method, clients, public, tmp_path)


@pytest.mark.parametrize("name", ["batched_equals_looped", "nothing_raw_crosses", "state_and_memory_survive_disk"])
def test_the_default_keeps_the_contract(name, federation, tmp_path):
    method, clients, public = federation
    CHECKS[name](method, clients, public, tmp_path)


def test_every_client_fills_and_samples_its_own_features(fitted, federation):
    _, clients, _ = federation
    for name, table in clients.items():
        filled = fitted[name].impute(table, draws=3)
        assert filled.features == table.features
        assert np.isfinite(filled.values).all()
        assert fitted[name].sample(2).features == table.features
    assert set(fitted.benefit) == set(clients)
    assert set(fitted.withheld) == set(clients)


@pytest.mark.parametrize("change", [{"rough": False}, {"start_steps": 0}, {"last_steps": 0}])
def test_what_only_diffusion_models_learn_from_does_not_change_fillings(change, fitted, federation):
    method, clients, public = federation
    other = FedTDD(**{**method.model_dump(), **change}).fit(clients, public=public)
    table = clients["client-0"]
    assert np.array_equal(other["client-0"].impute(table).values, fitted["client-0"].impute(table).values)
    before, after = (found.outcome.memories["client-0"].local_imputer.weights for found in (fitted, other))
    assert not np.array_equal(before, after)


def test_windows_set_apart_are_learned_from_only_after_the_last_release(federation, monkeypatch):
    method, clients, public = federation
    counts = []
    train = training.train

    def spy(task, learned, datasets, *rest):
        if isinstance(task, Denoising) and len(datasets) == len(clients):
            counts.append([len(dataset.windows) for dataset in datasets])
        return train(task, learned, datasets, *rest)

    monkeypatch.setattr(training, "train", spy)
    method.fit(clients, public=public)
    rows = [method.prepare(table).rows for table in clients.values()]
    apart = [len(set_apart(method, part)[0].windows(method.window)) for part in rows]
    assert counts == [apart, [len(part.windows(method.window)) for part in rows]]
    assert counts[0] != counts[1]


def test_a_diffusion_model_starts_from_public_weights_where_features_are_common(federation):
    method, clients, _ = federation
    owned = method.prepare(clients["client-0"])
    fresh = method.begin(owned, Rng(0, "client")).local_imputer
    few, own = (method.backbone().specs(count) for count in (2, owned.rows.values.shape[1]))
    start = np.arange(1.0, 1 + sum(leaf.size for leaf in few.values()))
    made = warm_started(method, owned, fresh, start)
    assert np.array_equal(resize(made.weights, own, few), start)
    assert set(made.weights) - set(start) <= set(fresh.weights)
    assert np.array_equal(made.average, made.weights)
    trained = replace(fresh, steps=1)
    assert warm_started(method, owned, trained, start) is trained


def test_every_client_is_told_the_distiller_once(federation, monkeypatch):
    method, clients, public = federation
    quiet = FedTDD(**{**method.model_dump(), "alpha": 0.0, "first_steps": 3, "corrector_steps": 2, "chunk": 1})
    asked, ask = [], FedTDD.ask
    monkeypatch.setattr(FedTDD, "ask", lambda *given: asked.append(ask(*given)) or asked[-1])
    quiet.fit(clients, public=public)
    asked = [each for each in asked if each is not None]
    before = ("join", "centre", "moments", "choose", "distil")
    assert next(len(each.each) for each in asked if each.phase not in before) == len(clients)
    assert sum(len(each.each) for each in asked) == len(clients)
    assert not any("distiller" in each.common for each in asked)


def test_nothing_is_released_by_default(federation):
    method, clients, public = federation
    assert FedTDD(common=("x0",)).alpha == 0
    assert FedTDD(common=("x0",), preset="paper").alpha == 1
    quiet = FedTDD(**{**method.model_dump(), "alpha": 0.0, "rounds": 2})
    assert "share" not in {line.phase for line in quiet.plan()}
    assert all(line.all_windows for line in quiet.plan() if line.phase == "train")
    fitted = quiet.fit(clients, public=public)
    assert len(fitted.state.bank) == 0
    assert not fitted.withheld


def test_the_paper_preset_has_the_papers_numbers():
    """Section 4 (five rounds, 7500 and 5000 steps), equations (1) to (6) with squares, (15) by DDPM, alpha 1."""
    paper = FedTDD(common=("x0",), preset="paper")
    assert (paper.rounds, paper.first_steps, paper.later_steps, paper.last_steps) == (5, 7500, 5000, 0)
    assert (paper.distiller, paper.sampler, paper.loss, paper.alpha) == ("diffusion", "ddpm", "squared", 1.0)
    assert (paper.window, paper.diffusion_steps, paper.warm_start) == (24, 500, 1.0)
    assert not paper.gate
    assert all(line.all_windows for line in paper.plan() if line.phase == "train")


@pytest.mark.parametrize(
    ("data", "column"),
    [
        ("stocks", (4, 16, 2, 2, 64, 1.0, 500, 10_000)), ("etth", (4, 16, 3, 2, 128, 0.1, 500, 18_000)),
        ("mujoco", (4, 16, 3, 2, 128, 0.1, 1000, 14_000)), ("energy", (4, 24, 4, 3, 64, 0.5, 1000, 25_000)),
        ("fmri", (4, 24, 4, 4, 64, 0.1, 1000, 25_000)),
    ],
)  # fmt: skip
def test_every_data_set_has_the_settings_of_table_10(data, column):
    """Heads, their dimension, encoder and decoder layers, batch, alpha, steps of noise and of pre-training."""
    made = FedTDD(common=("x0",), preset="paper", **FedTDD.published[data])
    sizes = (made.heads, made.width // made.heads, made.encoders, made.decoders)
    assert (*sizes, made.batch, made.alpha, made.diffusion_steps, made.pretrain_steps) == column
    assert made.width == made.heads * (made.width // made.heads)
    if data == "stocks":
        assert made == FedTDD(common=("x0",), preset="paper")


def test_without_a_gate_every_window_asked_for_is_released(printed):
    method, clients, public = printed
    fitted = method.model_copy(update={"gate": False, "rounds": 2}).fit(clients, public=public)
    counts = [len(method.prepare(table).rows.starts(method.window)) for table in clients.values()]
    asked = sum(np.ceil(number / 2 * method.alpha * count) for number in (1, 2) for count in counts)
    assert len(fitted.state.bank) == asked > 0
    assert not any(fitted.withheld.values())
    assert not fitted.state.membership


def test_a_preset_is_a_set_of_values_and_nothing_else(federation):
    method, clients, public = federation
    named, given = FedTDD(common=("x0",), preset="paper"), FedTDD(common=("x0",), **FedTDD.presets["paper"])
    assert named.model_dump(exclude={"preset"}) == given.model_dump(exclude={"preset"})
    assert [*named.plan()] == [*given.plan()]
    small = {key: getattr(method, key) for key in method.model_fields_set}
    small |= dict.fromkeys(("corrector_steps", "token_steps", "start_steps", "last_steps"), 0)
    values = {**FedTDD.presets["paper"], **small}
    first, second = (made.fit(clients, public=public) for made in (FedTDD(**small, preset="paper"), FedTDD(**values)))
    memories = (found.outcome.memories["client-0"] for found in (first, second))
    before, after = (memory.local_imputer.average for memory in memories)
    assert np.array_equal(before, after)
    assert np.array_equal(first.state.distiller.average, second.state.distiller.average)


def test_draws_of_the_printed_loop_differ_by_client_step_and_seed(printed):
    method, clients, public = printed
    fitted = method.fit(clients, public=public)
    model, table = fitted["client-0"], clients["client-0"]
    gone, first = np.isnan(table.values), model.impute(table).values
    assert np.array_equal(first, model.impute(table).values)
    assert not np.array_equal(first[gone], model.impute(table, seed=1).values[gone])
    owned, memory = method.prepare(table), fitted.outcome.memories["client-0"]
    fillings = [
        method.strategy.filler(memory, rng).rows(owned.rows, method)
        for rng in (Rng(0, "a", 1), Rng(0, "a", 1), Rng(0, "a", 2), Rng(0, "b", 1), Rng(1, "a", 1))
    ]
    assert np.array_equal(fillings[0], fillings[1])
    for k in (2, 3, 4):
        assert not np.array_equal(fillings[0], fillings[k])


def test_the_printed_loop_fills_too(printed):
    method, clients, public = printed
    fitted = method.fit(clients, public=public)
    assert np.isfinite(fitted["client-0"].impute(clients["client-0"]).values).all()
    assert fitted.state.bank.shape[1:] == (method.window, 2)


def test_the_plan_is_the_algorithm(federation):
    method, _, _ = federation
    longer = FedTDD(**{**method.model_dump(), "rounds": 2, "pretrain_steps": 5, "chunk": 2, "later_steps": 1})
    phases = [line.phase for line in longer.plan()]
    assert phases == [
        "join", "sums", "distil", "distil", "distil", "correct", "impute", "train", "share", "distil",
        "impute", "train", "share", "distil", "train", "score",
    ]  # fmt: skip
    assert [line.all_windows for line in longer.plan() if line.phase == "train"] == [False, False, True]
    assert [line.steps for line in longer.plan()][2:5] == [2, 2, 1]


def test_the_public_data_grow_as_printed(printed):
    """n_r = ceil(r / R alpha L) windows of each client, less those withheld."""
    method, clients, public = printed
    fitted = method.fit(clients, public=public)
    windows = {name: len(SeriesRows.of(table).starts(method.window)) for name, table in clients.items()}
    assert fitted.state.windows == pytest.approx(np.mean(list(windows.values())))
    asked = sum(int(np.ceil(method.alpha * r / method.rounds * windows[name])) for r in (1, 2) for name in clients)
    assert len(fitted.state.bank) + sum(fitted.withheld.values()) == asked


@pytest.mark.parametrize(("growth", "shares"), [("linear", [0.25, 0.5]), ("constant", [0.5, 0.5]), ("none", [0, 0])])
def test_the_ratio_of_aggregation(growth, shares, federation):
    method, _, _ = federation
    changed = FedTDD(**{**method.model_dump(), "rounds": 2, "alpha": 0.5, "growth": growth})
    assert [changed.share_at(number) for number in (1, 2)] == shares
    assert changed.tuning_steps > 0


def test_a_result_survives_saving(fitted, federation, tmp_path):
    _, clients, _ = federation
    again = ct.load(fitted.save(tmp_path / "result"))
    table = clients["client-1"]
    assert np.array_equal(again["client-1"].impute(table).values, fitted["client-1"].impute(table).values)


def test_a_client_may_lack_a_common_feature_wholly(federation):
    method, clients, public = federation
    table = clients["client-0"]
    values = table.values.copy()
    values[:, 0] = np.nan
    fitted = method.fit({**clients, "client-0": replace(table, values=values)}, public=public)
    assert np.isfinite(fitted["client-0"].impute(replace(table, values=values)).values).all()


def test_bad_clients_are_refused_by_name(federation):
    method, clients, public = federation
    table = clients["client-0"]
    with pytest.raises((SchemaError, DataError), match="client client-0, column x0"):
        method.fit(
            {**clients, "client-0": Series(("y0", "x1", "x2"), table.sequence, table.time, table.values)}, public=public
        )
    with pytest.raises(DataError, match=r"client client-0.*all are missing"):
        method.fit({**clients, "client-0": replace(table, values=table.values * np.nan)}, public=public)
    with pytest.raises(DataError, match=r"client client-0.*at least 4 rows"):
        method.fit({**clients, "client-0": table.select(np.arange(3))}, public=public)
    with pytest.raises(DataError, match=r"client client-0.*at least 20 rows, here over 16"):
        method.fit({**clients, "client-0": table.select(np.arange(20))}, public=public)
    printed = FedTDD(**{**method.model_dump(), "distiller": "diffusion", "corrector_steps": 0, "token_steps": 0})
    printed.prepare(table.select(np.arange(20)))
    lacking = table.values.copy()
    lacking[:, 2] = np.nan
    with pytest.raises(DataError, match=r"column x2.*exclusive"):
        method.fit({**clients, "client-0": replace(table, values=lacking)}, public=public)


def test_the_public_series_must_be_there_and_fit(federation):
    method, clients, public = federation
    with pytest.raises(DataError, match="public must be a series"):
        method.fit(clients)
    with pytest.raises(DataError, match=r"column x1.*public"):
        method.fit(clients, public=Series(("x0", "y"), public.sequence, public.time, public.values[:, :2]))
    with pytest.raises(ParameterError, match="common"):
        FedTDD()
    with pytest.raises(ParameterError, match=r"must be 0 with distiller='diffusion', got corrector_steps=5"):
        FedTDD(common=("x0",), preset="paper", corrector_steps=5)


def test_scales_that_differ_by_a_million(federation):
    method, clients, public = federation
    table = clients["client-0"]
    huge = replace(table, values=table.values * np.array([1, 1, 1e6]))
    filled = method.fit({**clients, "client-0": huge}, public=public)["client-0"].impute(huge)
    assert np.abs(filled.values[:, 2]).max() < 1e8


@pytest.mark.slow
def test_the_teacher_helps_clients_with_few_rows():
    """The public series teaches what a short client cannot learn: how common features go together."""
    long, _ = make_series(clients=4, length=900, features=3, factors=1, noise=0.2, seed=5)
    stream = np.random.default_rng(0)
    *names, last = sorted(long)
    short = {name: long[name].select(np.arange(120)) for name in names}
    made = {name: hide(table, stream.random(table.values.shape) < 0.3)[0] for name, table in short.items()}
    public = long[last]
    method = FedTDD(
        common=("x0", "x1", "x2"), window=12, imputer_width=32, imputer_layers=2, width=8, pretrain_steps=250, batch=32,
        corrector_steps=20, start_steps=0, first_steps=1, last_steps=0, rounds=1, alpha=0.0,
    )  # fmt: skip
    fitted = method.fit(made, public=public)
    ours, line = [], []
    for name, series in made.items():
        gone, complete = np.isnan(series.values), short[name].values
        ours.append(np.abs(fitted[name].impute(series).values - complete)[gone].mean())
        line.append(np.abs(interpolate(series).values - complete)[gone].mean())
    assert np.mean(ours) < 0.8 * np.mean(line)
