"""The audit finds what plain runs tell in every family, and less with each shield; its bounds keep to promises."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.auditing import Audit
from cotempo.auditing.bounds import area
from cotempo.auditing.canaries import EventCanaries, PostCanaries, RowCanaries, SequenceCanaries, WindowCanaries
from cotempo.auditing.listening import Heard, Listener
from cotempo.auditing.membership import most_likely
from cotempo.auditing.reconstruction import event_times, match_times, reconstruct
from cotempo.auditing.reference import score_windows
from cotempo.errors import DataError, ParameterError
from cotempo.federation import EMPTY, Message, Question, Rng
from cotempo.federation.reducers import PlainReducer
from cotempo.networks.moments import Sums, transitions
from cotempo.report.content import privacy_sentences

PUBLIC = (-15.0, 15.0)


def networks(samples: int = 450, seed: int = 0) -> Any:
    return ct.make_networks(variables=4, clients=3, samples=samples, seed=seed)[0]


def events(seed: int = 0) -> Any:
    return ct.make_events(clients=3, sequences=2, length=20.0, seed=seed)[0]


def posts(seed: int = 0) -> Any:
    return ct.make_posts(clients=3, posts=40, events=4, seed=seed)[0]


def series(seed: int = 0) -> Any:
    return ct.make_series(clients=3, length=120, features=3, seed=seed)[0]


ONEROUND, DETECTOR = ct.OneRound(compare=False), ct.EventDetector(compare=False, buckets=2**13)
COUNTS, MOMENTS = ct.FedPP(kernel="time", compare=False, window=(0.0, 20.0), cells=60), ct.FedMoments(window=4)
Case = tuple[Any, Callable[..., Any]]
FAMILIES: dict[str, Case] = {
    "networks": (ONEROUND, networks),
    "events": (COUNTS, events),
    "social": (DETECTOR, posts),
    "series": (MOMENTS, series),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_run_tells_who_is_in_it(family):
    method, make = FAMILIES[family]
    found = ct.audit(method, make(), canaries=40)
    assert found.membership.auc == 1
    assert found.membership.true_positives == 1
    assert found.membership.epsilon > 1
    assert found.promised is None
    assert found.holds


def test_rows_come_back_from_a_plain_run_and_not_with_a_shield():
    """Clients' series do not continue each other, so that no ends cancel in the sum."""
    clients = {f"site-{seed}": networks(150, seed)["client-0"] for seed in range(3)}
    rows = {
        name: ct.audit(ONEROUND, clients, canaries=20, **options).recovered.found
        for name, options in {
            "plain": {},
            "secure sum": {"privacy": ct.Privacy(secure_sum=True)},
            "weights of rows": {"weigh_rows": True},
            "noise": {"privacy": ct.Privacy(epsilon=8, ranges=PUBLIC)},
        }.items()
    }
    assert rows == {"plain": 4, "secure sum": 0, "weights of rows": 0, "noise": 0}  # first and last of two clients


def test_rows_come_back_from_rounds_of_fdbnl_and_from_window_moments():
    clients = {f"site-{seed}": networks(150, seed)["client-0"] for seed in range(3)}
    method = ct.FDBNL(lags=1, lambda_within=0.1, lambda_across=0.1, compare=False, rounds=6, refit=False)
    assert ct.audit(method, clients, canaries=20).recovered.found == 4
    assert ct.audit(MOMENTS, clients, canaries=20).recovered.found == 2  # the last of two clients


def test_event_times_come_back_from_fine_cells_of_single_clients_only():
    clients = ct.make_events(clients=3, sequences=1, length=40.0, seed=0)[0]
    common = Message({"summary": np.array([0.0, 0.0, 0.0, 40.0])})
    question = Question("run", 1, 1, "recount", "client-0", 0, 0, common, EMPTY)
    counts = {name: np.histogram(table.time, 800, (0.0, 40.0))[0][None] for name, table in clients.items()}
    singles = {name: Message({"events": events.astype(float)}) for name, events in counts.items()}
    listener = Listener(PlainReducer())
    listener.steps[1] = Heard(question, singles)
    alone = reconstruct(COUNTS, listener, clients)
    assert alone.found == alone.of == sum(table.rows for table in clients.values())
    listener.steps[1] = Heard(question, {}, Message({"events": sum(counts.values()).astype(float)}))
    assert reconstruct(COUNTS, listener, clients).share < 0.5


def test_a_short_promise_is_kept_and_found_to_be():
    privacy = ct.Privacy(epsilon=0.5, ranges=PUBLIC)
    found = [ct.audit(ONEROUND, networks(seed=seed), privacy=privacy, canaries=20, seed=seed) for seed in range(3)]
    assert [(one.promised, one.holds) for one in found] == [(0.5, True)] * 3


def test_noise_that_is_too_small_is_found_out(monkeypatch):
    """A private form that adds a thousandth of the noise it promises; what is left gives bounds of .23 or .59."""
    from cotempo.privacy import noise

    honest = noise.add_noise

    def cheat(values, multiplier, *others):
        return honest(values, multiplier / 1000, *others)

    privacy = ct.Privacy(epsilon=0.1)
    # Noise is drawn anew each time, and an audit of honest noise may be wrong one time in twenty.
    assert sum(ct.audit(COUNTS, events(), privacy=privacy, canaries=40).holds for _ in range(4)) >= 2
    monkeypatch.setattr(noise, "add_noise", cheat)
    found = ct.audit(COUNTS, events(), privacy=privacy, canaries=40)
    assert not found.holds
    assert "THE PROMISE WAS BROKEN" in found.sentence()


def test_sequences_are_the_canaries_where_they_are_promised():
    clients = events()
    found = ct.audit(COUNTS, clients, privacy=ct.Privacy(epsilon=8, unit="sequence"), canaries=20)
    assert found.unit == "sequences"
    assert found.holds


def test_one_table_has_every_attack_and_shield():
    table = ct.audit_shields(ONEROUND, networks(150), ct.Privacy(epsilon=3, ranges=PUBLIC), canaries=20)
    frame = table.to_frame()
    assert [*frame.columns] == [
        "figure", "none", "secure sum", "weights of rows", "noise", "noise and secure sum",
    ]  # fmt: skip
    bounds = frame.set_index("figure").loc["lower bound of epsilon"]
    assert bounds["none"] > max(bounds["weights of rows"], bounds["noise"])
    assert "secure sum" in table._repr_html_()
    assert repr(table).startswith("<ShieldTable: epsilon at least none")


def test_an_audit_can_be_read_everywhere():
    found = ct.audit(ONEROUND, networks(), canaries=20)
    assert isinstance(found, Audit)
    assert repr(found).startswith("<Audit of OneRound, no shield: epsilon at least")
    assert "lower bound of epsilon" in found._repr_html_()
    assert found.to_frame()["figure"].iloc[0] == "lower bound of epsilon"
    assert found.to_dict()["guesses"]["canaries"] == 18  # half as many as a matrix of 8 x 8 has different cells
    fitted = ONEROUND.fit(networks())
    fitted.privacy["audit"] = found.sentence()
    assert "no epsilon was promised: the run tells who is in it" in " ".join(privacy_sentences(fitted.privacy))


@pytest.mark.parametrize(
    ("call", "must"),
    [
        (lambda: ct.audit(ct.FedMean(), networks()), "FedMean has none; those with canaries are OneRound"),
        (lambda: ct.audit(ct.FedPP(preset="paper"), events()), "has none; those with canaries"),
        (lambda: ct.audit(ONEROUND, networks(), canaries=3), "canaries must be at least 8, got 3"),
        (lambda: ct.audit(ONEROUND, {"a": networks()["client-0"]}), "at least two clients"),
        (lambda: ct.audit(COUNTS, events(), weigh_rows=True), "weigh_rows must be False for tables of events"),
        (lambda: ct.audit(ONEROUND, networks(), ledger="nowhere.jsonl"), "must be the ledger of a site"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_words(call, must):
    with pytest.raises((ParameterError, DataError, ct.CotempoError), match=must):
        call()


# Canaries.


def test_a_canary_row_changes_sums_by_its_own_transitions():
    """What is between it and its neighbours, and nothing else."""
    table = networks()["client-0"]
    canaries = RowCanaries(table, 3, np.random.default_rng(0), reach=2)
    none = np.zeros(3, bool)
    with_first, without = (canaries.insert(mask) for mask in (np.array([True, False, False]), none))

    def products(one):
        return Sums.of_rows(np.vstack([transitions(values, 1) for _, values in one.pieces()])).products

    row = canaries.rows[0]
    own = Sums.of_rows(np.array([[*row[2], *row[1]], [*row[3], *row[2]]])).products
    np.testing.assert_allclose(products(with_first) - products(without), own, rtol=1e-9)
    assert with_first.rows == without.rows + 1


def test_other_canaries_are_added_one_by_one_and_tables_stay_valid():
    stream = np.random.default_rng(0)
    mask = np.array([True, False, True])
    some = events()["client-0"]
    assert EventCanaries(some, 3, stream).insert(mask).rows == some.rows + 2
    more = SequenceCanaries(some, 3, stream).insert(mask)
    assert len(more.names) == len(some.names) + 2
    table = posts()["client-0"]
    grown = PostCanaries(replace(table, extra={"likes": tuple(range(table.rows))}), 3, stream).insert(mask)
    assert grown.rows == table.rows + 2
    assert grown.extra["likes"][-2:] == (None, None)
    one = series()["client-0"]
    windows = WindowCanaries(one, 3, stream, length=5)
    assert windows.insert(mask).rows == one.rows + 10
    assert windows.around(0, present=False) is None


def test_presences_are_solved_for_exactly_without_noise_and_shrink_with_it():
    stream = np.random.default_rng(0)
    effects, present = stream.normal(size=(10, 40)), stream.random(10) < 0.5
    np.testing.assert_allclose(most_likely(1e6 * effects, 1e6 * present @ effects), present, atol=1e-6)
    blurred = most_likely(1e-3 * effects, 1e-3 * present @ effects + stream.normal(size=40))
    assert np.abs(blurred - 0.5).max() < 0.01


def test_times_are_matched_one_to_one():
    claimed = event_times(np.array([0.0, 2.0, 1.0]), 0.0, 3.0)
    assert claimed.tolist() == [1.5, 1.5, 2.5]
    assert match_times(claimed, np.array([1.4, 1.6, 1.61, 2.9]), within=0.2) == 2


# Costlier.


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_bounds_with_noise_do_not_exceed_what_was_promised(family):
    method, make = FAMILIES[family]
    for seed, epsilon in enumerate((0.5, 1.0, 3.0, 8.0)):
        ranges = {"ranges": PUBLIC} if family in ("networks", "series") else {}
        for masked in (False, True):
            privacy = ct.Privacy(epsilon=epsilon, secure_sum=masked, **ranges)
            assert ct.audit(method, make(seed=seed), privacy=privacy, canaries=60, seed=seed).holds


@pytest.mark.slow
def test_windows_that_a_generator_learned_by_heart_are_told_by_a_reference():
    """Two generators from the same start: one learned some of the canaries, the other learned other windows."""
    from cotempo.series.nn.parameters import NetworkState
    from cotempo.series.nn.training import TrainingWindows, train_one
    from cotempo.series.windows import Scale

    table, stream = series()["client-0"], np.random.default_rng(0)
    method = ct.FedTDD(
        common=table.features, window=4, width=16, heads=2, encoders=1, decoders=1, diffusion_steps=10, batch=16
    )
    canaries = WindowCanaries(table, 16, stream, length=4)
    scale, included = Scale.of(canaries.windows.reshape(-1, 3)), np.arange(16) % 2 == 0
    start = NetworkState.fresh(method.backbone().specs(3), stream, "float32")
    others = WindowCanaries(table, 8, stream, length=4).windows

    def learn(windows):
        data, schedule = TrainingWindows.plain(scale.apply(windows)), method.schedule(600, 3e-3)
        network, _ = train_one(method.denoising(), start, data, 600, schedule, Rng(0))
        memory = SimpleNamespace(generator_scale=scale, local_imputer=network)
        outcome = SimpleNamespace(memories={"a": memory}, schemas={"a": table.schema})
        return SimpleNamespace(method=method, outcome=outcome)

    scores = score_windows(learn(canaries.windows[included]), learn(others), canaries, "a")
    assert area(scores, included) > 0.8
