from dataclasses import replace

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Events, make_events, split_by_sequence
from cotempo.errors import DataError, ParameterError, SchemaError
from cotempo.events import FedPP, SigmoidCox, coverage, rescaling_test
from cotempo.events.intensities.base import IntensityOverTime
from cotempo.events.intensities.fitted import FittedFedPP
from cotempo.events.shared_function.client import first_state
from cotempo.events.shared_function.method import gamma_from_moments


@pytest.fixture(scope="module")
def poisson():
    return make_events(clients=5, sequences=10, seed=2)


@pytest.fixture(scope="module")
def shared(poisson):
    return FedPP(kernel="time", cells=200).fit(poisson[0])


def test_the_shared_shape_is_found(poisson, shared):
    times = np.linspace(0.2, 9.8, 100)
    covered = []
    for name in poisson[0]:
        band, true = shared[name].intensity(times), poisson[1].intensity(name, times)
        assert np.sqrt(np.mean((band.mean - true) ** 2)) / true.mean() < 0.25
        covered.append(coverage(band, true))
    assert np.mean(covered) > 0.8


def test_together_is_nearer_to_the_truth_than_alone(poisson, shared):
    times = np.linspace(0.2, 9.8, 100)
    misses = []
    for name, table in poisson[0].items():
        true = poisson[1].intensity(name, times)
        alone = SigmoidCox().fit(table).intensity(times).mean
        misses.append([np.abs(np.log(mean / true)).mean() for mean in (alone, shared[name].intensity(times).mean)])
    alone, together = np.mean(misses, axis=0)
    assert together < 0.9 * alone
    assert set(shared.benefit) == set(poisson[0])
    assert all(np.isfinite([one.alone, one.together]).all() for one in shared.benefit.values())


def test_every_verb_of_a_client(poisson, shared):
    curve = shared["client-1"]
    score = curve.score(poisson[0]["client-1"])
    assert 0 < score["gain"] < 1
    assert score["count_ratio"] == pytest.approx(1, abs=0.2)
    assert curve.predict_count(0, 10).mean == pytest.approx(score["count_ratio"] * score["events"] / 10, rel=0.1)
    assert 3 < curve.predict_next(3.0).mean() < 10
    drawn = curve.sample(0, 10, seed=0, count=50)
    assert drawn.rows / 50 == pytest.approx(curve.predict_count(0, 10).mean, rel=0.15)


def test_the_end_of_the_window_is_not_its_start(shared):
    near, end = shared["client-0"].intensity([9.9, 10.0]).mean
    assert end == pytest.approx(near, rel=0.3)


def test_events_beyond_the_learned_span_are_scored_with_their_exposure(shared):
    """What lies outside is watched as long as it lasts: both ways to a gain agree there, too."""
    model = shared["client-0"]
    start, end = (float(edge) for edge in model.state.span)
    inside, beyond = (start, end), (start, end + 0.5 * (end - start))
    for window in (inside, beyond):
        times = np.linspace(*window, 60)[1:-1]
        assert model.score(times, window)["gain"] == pytest.approx(
            IntensityOverTime.score(model, times, window)["gain"], abs=0.01
        )


def test_a_client_without_events_leans_on_the_others(poisson):
    clients = {**poisson[0], "silent": Events.from_arrays([[]], (0.0, 10.0))}
    fitted = FedPP(kernel="time", cells=50, compare=False).fit(clients)
    mean, lower, upper = fitted["silent"].intensity([1.0, 5.0])
    assert np.isfinite([mean, lower, upper]).all()
    assert (upper > mean).all()


def test_clients_of_one_sequence_that_are_alike_are_drawn_together():
    clients, _ = make_events(clients=4, sequences=1, spread=0.0, length=30.0, seed=0)
    fitted = FedPP(kernel="time", cells=60, compare=False).fit(clients)
    expected = [fitted[name].predict_count(0, 30).mean for name in clients]
    assert np.ptp(np.log(expected)) < 0.8 * np.ptp(np.log([table.rows for table in clients.values()]))


def staggered(sequences):
    """A busy client, and a quiet one that is watched afterwards."""
    rng = np.random.default_rng(0)
    return {
        name: Events.from_arrays([np.sort(rng.uniform(*window, rng.poisson(events))) for _ in range(sequences)], window)
        for name, window, events in (("busy", (0.0, 10.0), 200), ("quiet", (10.0, 20.0), 20))
    }


@pytest.mark.parametrize(("base", "sequences"), [(None, 1), (None, 2), ("poisson", 1)])
def test_few_sequences_each_have_levels_of_their_own(base, sequences):
    """Busy and quiet are told by levels or by time; either way what is used is what was learned."""
    clients, kernel = staggered(sequences), {"kernel": "time", "cells": 60}
    if base:
        kernel = {"kernel": "history", "base": base, "rounds": 3, "refit_rounds": 1, "inducing": 6}
    fitted = FedPP(**kernel).fit(clients)
    for name, table in clients.items():
        score = fitted[name].score(table)
        assert score["count_ratio"] == pytest.approx(1, abs=0.1)
        assert score["gain"] > -0.05
        assert fitted.benefit[name].together > -0.2


def test_long_sequences_of_one_client_each_have_levels_of_their_own():
    clients, truth = make_events(clients=4, sequences=1, length=50.0, spread=0.8, seed=0)
    fitted = FedPP(kernel="time", cells=60, compare=False).fit(clients)
    times = np.linspace(1.0, 49.0, 50)
    bands = {name: fitted[name].intensity(times) for name in clients}
    for name, table in clients.items():
        assert fitted[name].predict_count(0, 50).mean == pytest.approx(table.rows, rel=0.1)
    assert np.mean([coverage(band, truth.intensity(name, times)) for name, band in bands.items()]) > 0.8
    assert max(float((band.upper / band.lower).max()) for band in bands.values()) < 20


def test_history_finds_excitation():
    everything, _ = make_events(clients=4, sequences=40, kind="hawkes", seed=4)
    clients, new = split_by_sequence(everything, (0.5, 0.5))
    fitted = FedPP(kernel="history", rounds=5, base_rounds=10, inducing=20, cells=60, compare=False).fit(clients)
    model = fitted["client-0"]
    assert fitted.state.design.base == "hawkes"
    assert model.score(new["client-0"])["gain"] > 0.05
    assert model.score(new["client-0"])["count_ratio"] == pytest.approx(1, abs=0.2)
    quiet, excited = model.intensity([5.0], []).mean[0], model.intensity([5.0], [4.7, 4.8, 4.9]).mean[0]
    assert excited > 1.5 * quiet
    waits = model.rescale(new["client-0"])
    assert sum(map(len, waits)) == new["client-0"].rows
    assert rescaling_test(waits).p_value > 1e-3
    ahead = model.predict_next([4.7, 4.8, 4.9], until=10.0)
    assert ahead.quantile(0.5) < model.predict_next([4.9], until=10.0).quantile(0.5)
    drawn = model.sample(0.0, 10.0, seed=0, count=40)
    counts = [len(times) for _, times, *_ in drawn.sequences()]
    expected = clients["client-0"].rows / 20
    assert np.mean(counts) == pytest.approx(expected, abs=4 * np.std(counts) / np.sqrt(40))
    with pytest.raises(DataError):
        model.intensity([5.0], [3.0, 1.0])
    with pytest.raises(ParameterError):
        model.predict_next([5.0], until=5.0)


@pytest.mark.parametrize("aggregation", ["kl", "wasserstein", "fedavg", "mmd"])
def test_the_published_method_learns(poisson, aggregation):
    fitted = FedPP(preset="paper", rounds=4, inducing=15, cells=60, aggregation=aggregation).fit(poisson[0], cohort=3)
    times = np.linspace(0.5, 9.5, 50)
    taking_part = [name for name in poisson[0] if name in fitted.outcome.memories]
    for name in taking_part:
        band = fitted[name].intensity(times)
        assert np.corrcoef(band.mean, poisson[1].intensity(name, times))[0, 1] > 0.5
    assert (fitted.state.deviation > 0).all()


def test_the_paper_preset_has_the_papers_numbers():
    """Section 5.1 and appendix I of the paper: rate .001, 100 rounds, 5 epochs, a deep kernel, KL; no base measure."""
    paper = FedPP(preset="paper")
    assert (paper.learning_rate, paper.rounds, paper.epochs, paper.kernel) == (1e-3, 100, 5, "deep")
    assert (paper.aggregation, paper.learn_mean) == ("kl", True)
    for kernel in ("lstm", "attention"):
        assert FedPP(preset="paper", kernel=kernel).candidates == ("poisson",)


def test_the_mean_is_learned_where_the_function_cannot_hold_it():
    """Events in a hundredth of the window alone: with a kernel of zero mean the rate elsewhere stays too high."""
    times = [np.linspace(5.0, 5.1, 20) + 0.001 * number for number in range(10)]
    clients = {"a": Events.from_arrays(times, (0.0, 10.0))}
    small = {"share": "kernel", "rounds": 10, "kernel": "time", "inducing": 20, "cells": 100}
    learned, zero = (FedPP(**small, learn_mean=learn).fit(clients)["a"] for learn in (True, False))
    assert learned.memory.centre[0] < -1
    assert zero.memory.centre[0] == 0
    assert learned.intensity([1.0]).mean < zero.intensity([1.0]).mean


def test_a_client_that_was_never_asked_has_the_prior(poisson):
    clients, truth = poisson
    fitted = FedPP(preset="paper", rounds=1, inducing=15, cells=60).fit(clients, cohort=2)
    missed = next(name for name in clients if name not in fitted.outcome.memories)
    with pytest.raises(DataError, match="adapt"):
        fitted[missed]
    model, times = fitted.adapt(missed, clients[missed]), np.linspace(0.5, 9.5, 50)
    np.testing.assert_array_equal(model.memory.mean, fitted.state.mean)
    np.testing.assert_allclose(model.memory.deviation, fitted.state.deviation)
    assert np.corrcoef(model.intensity(times).mean, truth.intensity(missed, times))[0, 1] > 0.5
    assert model.predict_count(0.0, 10.0).mean == pytest.approx(clients[missed].rows / 10, rel=0.2)
    with pytest.raises(DataError, match="span learned"):
        fitted.adapt(missed, Events.from_arrays([[1.0, 99.0]], (0.0, 100.0)))


def test_results_survive_disk_and_have_pictures(shared, poisson, tmp_path):
    again = ct.load(shared.save(tmp_path / "result"))
    times = np.linspace(1, 9, 5)
    np.testing.assert_array_equal(again["client-2"].intensity(times).upper, shared["client-2"].intensity(times).upper)
    figures = shared.figures(poisson[1])
    assert len(figures) == 2
    assert shared.report(tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("kernel", ["time", "history"])
def test_waits_do_not_depend_on_comparing(kernel):
    """Waits are those of the federated model, whether or not clients also learn alone."""
    clients, _ = make_events(clients=3, sequences=6, kind="hawkes", length=5.0, seed=1)
    small = {"rounds": 2, "base_rounds": 2, "inducing": 6, "base": "hawkes"}
    sizes = {"cells": 60} if kernel == "time" else small
    with_, without = (
        FedPP(kernel=kernel, compare=compare, **sizes).fit(clients, progress=False) for compare in (True, False)
    )
    for name in clients:
        compared, plain = (one.outcome.memories[name].waits for one in (with_, without))
        assert set(compared) == set(plain)
        for model in plain:
            np.testing.assert_array_equal(compared[model], plain[model])


def test_bands_hold_what_the_inducing_points_leave_open():
    """Few inducing points leave much of the prior variance open: far from them the band is that of the prior."""
    clients, _ = make_events(clients=3, sequences=10, kind="hawkes", seed=4)
    fitted = FedPP(kernel="history", base="hawkes", rounds=2, base_rounds=3, inducing=2, compare=False).fit(clients)
    model = fitted["client-0"]
    features = np.array([[0.0] * 5, [40.0] * 5])
    posterior = model.posterior(features)
    known, nowhere = posterior.relative().deviation
    amplitude = float(np.exp(fitted.state.kernel[0]))
    assert nowhere**2 == pytest.approx(0.25 * amplitude + float(posterior.root[-1, -1]) ** -2, rel=0.05)
    assert known < nowhere


def test_bands_of_levels_count_no_uncertainty_twice():
    """The level of a curve that is flat is the client's own rate, as sure as its own number of events makes it."""
    rng = np.random.default_rng(100)
    sizes = {"a": 900, "b": 400}
    clients = {
        name: Events.from_arrays([np.sort(rng.uniform(0, 10, size // 4)) for _ in range(4)], (0.0, 10.0))
        for name, size in sizes.items()
    }
    fitted = FedPP(kernel="time", cells=48, compare=False).fit(clients)
    line = fitted.state.timeline
    assert np.isfinite(line.own[0])
    for name, size in sizes.items():
        drawn = fitted[name].drawn(np.linspace(0.1, 9.9, 200)).mean(axis=1)
        assert np.log(drawn).std() == pytest.approx(np.sqrt(line.effect / size), rel=0.1)


def test_what_is_reported_was_not_chosen_on_the_same_events():
    """Two models that differ by chance only: the better of the two on each half would be reported as a gain."""
    from cotempo.events.shared_function.method import _best

    rng = np.random.default_rng(0)
    gains = np.stack([np.zeros((4000, 10)), rng.normal(size=(4000, 10))], axis=-1)
    first, second = gains[:, :5], gains[:, 5:]
    best = [_best(a.sum(axis=0), a.T @ a, len(a)) for a in first]
    reported = [b[:, place].sum() for place, b in zip(best, second, strict=True)]
    chosen = [a[:, place].sum() for place, a in zip(best, first, strict=True)]
    assert abs(np.mean(reported)) < 4 * np.std(reported) / np.sqrt(4000)
    assert np.mean(chosen) > 10 * np.std(chosen) / np.sqrt(4000)


def test_sharp_curves_are_followed():
    """Twenty periods and a step, which no long length scale follows: the default is as good as the best simple one."""
    from cotempo.events import FedPointProcess

    rng = np.random.default_rng(3)

    def draw(kind, size):
        parts = []
        for _ in range(size):
            times = np.sort(rng.uniform(0, 50, rng.poisson(200 * 2)))
            high = np.sin(2 * np.pi * 20 * times / 50) > 0 if kind == "waves" else (times > 17) & (times < 22)
            parts.append(times[rng.uniform(size=len(times)) < np.where(high, 0.9, 0.1)])
        return Events.from_arrays(parts, (0.0, 50.0))

    for kind in ("waves", "step"):
        clients, new = ({f"c{i}": draw(kind, size) for i in range(3)} for size in (5, 20))
        fitted = FedPP(kernel="time", compare=False, window=(0.0, 50.0)).fit(clients)
        simple = [FedPointProcess(process=name).fit(clients) for name in ("profile", "histogram", "density", "steps")]
        ours, *others = (
            np.mean([models[name].score(new[name])["gain"] for name in clients]) for models in (fitted, *simple)
        )
        assert ours > max(others) - 0.002


def test_auto_takes_history_only_where_it_pays():
    excited, _ = make_events(clients=4, sequences=20, kind="hawkes", excitation=0.8, seed=4)
    plain, _ = make_events(clients=4, sequences=10, seed=4)
    small = {"rounds": 4, "base_rounds": 6, "inducing": 12, "cells": 60, "compare": False}
    assert FedPP(**small).fit(excited).state.kept in ("base", "function")
    time = FedPP(**small).fit(plain)
    assert time.state.kept == "curve"
    alone = FedPP(kernel="time", cells=60, compare=False).fit(plain)
    np.testing.assert_array_equal(time["client-0"].intensity([3.0]).mean, alone["client-0"].intensity([3.0]).mean)


def test_who_is_not_here_gets_the_shared_function(shared):
    far = FittedFedPP(replace(shared.outcome, memories={}))
    mean, lower, upper = far["client-0"].intensity([2.0])
    assert (lower < mean).all()
    assert (mean < upper).all()


def test_a_coordinator_without_memories_has_the_shared_curve_in_answer_figures_and_tables() -> None:
    clients, _ = ct.make_events(clients=4, seed=0)
    fitted = FedPP(kernel="time", compare=False).fit(clients, progress=False)
    far = FittedFedPP(replace(fitted.outcome, memories={}))
    rates = far.tables()["rates"]
    assert "any client" in far.answer()
    assert set(rates.client) == {"any client"}
    assert far.figures().keys() >= {"Intensity with its 95 % band"}
    assert far.plot().axes[0].lines
    own = np.mean([fitted[name].intensity(rates.time).mean for name in clients], axis=0)
    assert np.corrcoef(rates["mean"], own)[0, 1] > 0.99
    of_history = FedPP(kernel="history", rounds=1, refit_rounds=0).fit(clients, progress=False)
    with pytest.raises(DataError, match="must hold tables"):
        FittedFedPP(replace(of_history.outcome, memories={})).plot()


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "time", "cells": 48},
        {"kernel": "history", "base": "poisson", "rounds": 2, "inducing": 6, "refit_rounds": 1},
    ],
)
def test_who_was_not_asked_last_has_an_intensity(parameters):
    clients, _ = make_events(clients=6, sequences=3, spread=0.0, seed=1)
    fitted = FedPP(compare=False, **parameters).fit(clients, cohort=2)
    for name, table in clients.items():
        model = fitted[name]
        assert np.isfinite(model.score(table)["gain"])
        assert model.score(table)["count_ratio"] == pytest.approx(1, abs=0.5)
        if parameters["kernel"] == "time":
            mean, lower, upper = model.intensity([1.0, 5.0])
            ahead, expected = model.predict_next(3.0), model.predict_count(0, 10).mean
        else:
            mean, lower, upper = model.intensity([1.0, 5.0], [0.5])
            ahead, expected = model.predict_next([3.0], until=10.0), table.rows / 3
        assert (lower < mean).all()
        assert (mean < upper).all()
        assert 3 < ahead.mean() < 10
        assert model.sample(0, 10, count=20).rows / 20 == pytest.approx(expected, rel=0.5)


def test_epoch_seconds_and_ties():
    rng = np.random.default_rng(0)
    day = 86400.0
    clients = {
        name: Events.from_arrays([1.5e9 + day * np.sort(rng.integers(0, 60, 80))], (1.5e9, 1.5e9 + 60 * day), unit="s")
        for name in "abc"
    }
    for parameters in ({"kernel": "time"}, {"kernel": "history", "base_rounds": 3, "rounds": 3, "inducing": 8}):
        fitted = FedPP(cells=60, compare=False, **parameters).fit(clients)
        score = fitted["a"].score(clients["b"])
        assert np.isfinite(list(score.values())).all()
        assert score["count_ratio"] == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "deep"},
        {"kernel": "lstm"},
        {"kernel": "history", "marks": True},
        {"window": (1.0, 1.0)},
        {"rounds": 0},
        {"aggregation": "kl"},
        {"rounds": 40, "aggregation": "kl"},
        {"epochs": 2},
        {"batch": 4},
        {"learning_rate": 0.1},
        {"prior_deviation": 1.0},
        {"kernel": "time", "rounds": 10},
        {"kernel": "time", "base": "hawkes"},
        {"kernel": "time", "inducing": 20},
        {"share": "kernels"},
        {"preset": "paper", "compare": True},
        {"preset": "paper", "refit_rounds": 2},
        {"preset": "paper", "base": "hawkes"},
        {"preset": "paper", "period": 24.0},
        {"preset": "paper", "compare": False},
        {"preset": "paper", "refit_rounds": 0},
        {"preset": "paper", "personal": False},
        {"preset": "paper", "kernel": "lstm", "cells": 1500},
        {"preset": "paper", "kernel": "lstm", "cells": 24},
        {"preset": "paper", "kernel": "lstm", "base": "hawkes", "cells": 100},
        {"preset": "paper", "kernel": "lstm", "base": "poisson", "base_rounds": 3},
        {"kernel": "time", "refit_rounds": 0},
        {"kernel": "history", "personal": False},
        {"base": "poisson", "base_rounds": 3},
        {"base": "curve", "base_rounds": 3},
        {"kernel": "history", "base": "renewal", "cells": 100},
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters):
    with pytest.raises(ParameterError, match=list(parameters)[-1]):
        FedPP(**parameters)


def test_a_method_reads_its_own_parameters_again():
    small = FedPP(preset="paper", kernel="lstm", base="hawkes", base_rounds=3)
    for method in (
        FedPP(),
        FedPP(kernel="time"),
        FedPP(preset="paper"),
        FedPP(preset="paper", aggregation="mmd"),
        small,
    ):
        assert FedPP(**method.model_dump(mode="json")) == method


@pytest.mark.parametrize("kernel", ["time", "auto"])
def test_comparisons_are_sums(kernel):
    method = FedPP(kernel=kernel)
    assert method.expects(first_state(method, 2), "compare").sums


def test_windows_outside_the_agreed_one_are_refused(poisson):
    with pytest.raises(DataError, match="client-0"):
        FedPP(window=(0.0, 5.0)).fit(poisson[0])


def test_the_gamma_prior_has_the_asked_moments():
    from scipy.special import digamma

    shape, rate = gamma_from_moments(2.0, np.log(2.0) - 0.1)
    assert shape / rate == pytest.approx(2)
    assert digamma(shape) - np.log(rate) == pytest.approx(np.log(2.0) - 0.1)


def test_marks_at_some_clients_only_are_refused_with_a_way_out():
    marked = Events.from_arrays([[1.0, 2.0]], (0.0, 3.0), [["icu", "ward"]])
    plain = Events.from_arrays([[1.0, 2.0]], (0.0, 3.0))
    with pytest.raises(
        SchemaError, match="read all tables in one call, so that marks agree; where some have none, all without"
    ):
        FedPP().fit({"a": marked, "b": plain})


def test_few_events_and_one_client_are_not_compared():
    few = {name: Events.from_arrays([[10.0, 30.0, 70.0 + k]], (0.0, 100.0)) for k, name in enumerate("ab")}
    fitted = FedPP(rounds=1, base_rounds=1, inducing=5, refit_rounds=0).fit(few)
    assert not fitted.benefit
    assert "FedPP compares clients that hold out at least 5 events" in fitted.advice()[0]
    times = np.sort(np.random.default_rng(0).uniform(0, 100, 300))
    alone = FedPP(kernel="time").fit({"a": Events.from_arrays([times], (0.0, 100.0))})
    assert not alone.benefit
    assert "is the only client" in alone.advice()[0]
    assert "kept a curve of time" in repr(alone)
