import numpy as np
import pytest
import torch

from cotempo.data import Events
from cotempo.errors import DataError, ParameterError
from cotempo.events import FedPP, SigmoidCox, rescaling_test
from cotempo.events.cox.kernels import EncoderBatch, encode, first_weights, make_history_kernel, shapes, unpack
from cotempo.events.intensities.fitted import as_history
from cotempo.events.records import encoder_inputs
from cotempo.events.records.design import FeatureDesign
from cotempo.events.records.encoder_inputs import inputs_at_times, inputs_of_record
from cotempo.events.records.history import SPIKES, unroll
from cotempo.events.records.record import Record, Summary

NONE = np.zeros(0)
SUMMARY = Summary(100.0, 50.0, 0.0, 10.0, (0.1, 0.3, 0.6, 1.5))
DESIGN = FeatureDesign(SUMMARY.to_array(), 0.0, 20, "poisson", np.array([2.0]), NONE, NONE)
RATE_A, KEPT, DELAY = 2.0, 0.7, 0.1


def followers(sequences, seed):
    """Type a comes at a constant rate; each a is followed, with chance KEPT, by a b after an exponential delay."""
    rng = np.random.default_rng(seed)
    times, marks = [], []
    for _ in range(sequences):
        first = np.sort(rng.uniform(0, 10, rng.poisson(10 * RATE_A)))
        second = first + rng.exponential(DELAY, len(first))
        second = second[(rng.uniform(size=len(first)) < KEPT) & (second < 10)]
        joined = np.concatenate([first, second])
        order = np.argsort(joined)
        times.append(joined[order])
        marks.append(np.repeat(["a", "b"], [len(first), len(second)])[order].tolist())
    return Events.from_arrays(times, (0.0, 10.0), marks)


@pytest.fixture(scope="module")
def marked():
    return SigmoidCox(kernel="lstm", marks=True, base="poisson", inducing=15, steps=14).fit(followers(15, 0))


def features(kernel, record, times, weights):
    rows = inputs_at_times(np.asarray(times), record, DESIGN)
    made = make_history_kernel(kernel, weights[None], EncoderBatch.of([rows]), 6).features[0]
    return made[rows.where[:, 0] * rows.before.shape[1] + rows.where[:, 1]].numpy()


@pytest.mark.parametrize("kernel", ["history", "lstm", "attention"])
def test_only_the_past_matters(kernel):
    weights = torch.from_numpy(first_weights(kernel, 2, 6, np.random.default_rng(0)))
    history, marks, times = np.array([1.0, 2.0, 4.0]), ("a", "b", "a"), np.array([0.5, 2.0, 3.0])
    whole = as_history(history, 0.0, marks, ("a", "b"), times)
    early = as_history(history[:2], 0.0, marks[:2], ("a", "b"), times)
    np.testing.assert_array_equal(features(kernel, whole, times, weights), features(kernel, early, times, weights))
    moved = as_history(np.array([1.0, 2.5, 4.0]), 0.0, marks, ("a", "b"), times)
    assert (features(kernel, whole, [3.0], weights) != features(kernel, moved, [3.0], weights)).any()


@pytest.mark.parametrize("kernel", ["lstm", "attention"])
def test_encoders_see_types(kernel):
    weights = torch.from_numpy(first_weights(kernel, 2, 6, np.random.default_rng(0)))
    one, other = (as_history(np.array([1.0]), 0.0, (m,), ("a", "b"), np.array([2.0])) for m in "ab")
    assert np.abs(features(kernel, one, [2.0], weights) - features(kernel, other, [2.0], weights)).max() > 0.01


def test_the_lstm_is_torchs():
    known = unpack(torch.from_numpy(first_weights("lstm", 0, 6, np.random.default_rng(1)))[None], shapes("lstm", 0, 6))
    steps = torch.randn(1, 2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    batch = EncoderBatch(steps, torch.zeros(1, 2, 5, 0), *[torch.zeros(0)] * 4)
    theirs = torch.nn.LSTM(3, 32, 2, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        for layer in range(2):
            # Torch orders gates as enter, forget, value, output; ours are enter, forget, output, value.
            order = torch.cat([torch.arange(64), torch.arange(96, 128), torch.arange(64, 96)])
            getattr(theirs, f"weight_ih_l{layer}").copy_(known[f"input {layer}"][0].T[order])
            getattr(theirs, f"weight_hh_l{layer}").copy_(known[f"state {layer}"][0].T[order])
            getattr(theirs, f"bias_ih_l{layer}").copy_(known[f"bias {layer}"][0, 0][order])
            getattr(theirs, f"bias_hh_l{layer}").zero_()
        expected = theirs(steps[0])[0]
        got = encode("lstm", known, batch)[0]
    np.testing.assert_allclose(got[:, 1:], expected, atol=1e-12)
    assert (got[:, 0] == 0).all()


@pytest.mark.parametrize("memory", [3, 64])
def test_pieces_hold_every_row_once(monkeypatch, memory):
    monkeypatch.setattr(encoder_inputs, "MEMORY", memory)
    table = followers(4, 3)
    record = Record.of(table, marks=True)
    cut = inputs_of_record(record, DESIGN)
    assert cut.events.sum() == record.events
    np.testing.assert_allclose(cut.events.sum(axis=(0, 2)), np.bincount(table.mark))
    assert cut.exposure.sum() == pytest.approx(2.0 * record.exposure)
    assert len(cut.where) == len(unroll(record, DESIGN.decays, SPIKES).lower) + (record.count > 0).sum()
    assert cut.before.max() < 2 * memory


def test_intensities_of_types_sum_to_the_total_and_are_right(marked):
    by_type = marked.intensity_by_type([5.05, 5.9], [5.0], ("a",))
    whole = marked.intensity([5.05, 5.9], [5.0], marks=("a",))
    np.testing.assert_allclose(by_type["a"].mean + by_type["b"].mean, whole.mean, rtol=1e-9)
    for band in (*by_type.values(), whole):
        assert (band.lower < band.upper).all()
    # Type a has a constant rate; b comes soon after an a and hardly ever after a while.
    np.testing.assert_allclose(by_type["a"].mean, RATE_A, rtol=0.25)
    assert by_type["b"].mean[0] > 3 > 1 > by_type["b"].mean[1]
    after_b = marked.intensity_by_type([5.05], [5.0], ("b",))
    assert after_b["b"].mean[0] < 0.5 * by_type["b"].mean[0]


def test_marked_scores_samples_and_forecasts(marked):
    new = followers(10, 1)
    score = marked.score(new)
    assert score["gain"] > 0.1
    assert score["gain_of_marks"] > 0.1
    assert score["count_ratio"] == pytest.approx(1, abs=0.15)
    waits = marked.rescale(new)
    assert [len(part) for part in waits] == [len(times) for _, times, *_ in new.sequences()]
    assert np.mean(np.concatenate(waits)) == pytest.approx(1, abs=0.2)
    assert rescaling_test(waits).statistic < 0.15
    drawn = marked.sample(0.0, 10.0, seed=0, count=4)
    assert drawn.marks == ("a", "b")
    assert 0.3 < np.mean(drawn.mark == 0) < 0.85
    soon = marked.predict_next([5.0], 10.0, marks=("a",)).quantile(0.5)
    assert 5.0 < soon < 5.6


def test_wrong_marks_are_refused(marked):
    with pytest.raises(DataError, match="must be one of"):
        marked.intensity([2.0], [1.0], marks=("c",))
    with pytest.raises(DataError, match="each event"):
        marked.intensity([2.0], [1.0])
    with pytest.raises(DataError, match="must not lie before"):
        marked.intensity([2.0], [-1.0], marks=("a",))
    with pytest.raises(ParameterError, match="kernel of history"):
        SigmoidCox(marks=True)
    with pytest.raises(ParameterError, match="kernel must be"):
        SigmoidCox(kernel="gru")
    unmarked = Events.from_arrays([[1.0, 2.0]], (0.0, 10.0))
    with pytest.raises(DataError, match="must have marks"):
        SigmoidCox(kernel="lstm", marks=True, steps=1).fit(unmarked)
    plain = SigmoidCox(kernel="history", steps=1, inducing=5).fit(unmarked)
    with pytest.raises(DataError, match="marks=True"):
        plain.intensity_by_type([2.0])


@pytest.mark.parametrize("kernel", ["history", "attention"])
def test_a_federation_with_kernels_of_history(kernel):
    clients = {name: followers(6, seed) for seed, name in enumerate("abc")}
    clients["silent"] = Events.from_arrays([[]], (0.0, 10.0), [[]], ["a", "b"])
    method = FedPP(preset="paper", kernel=kernel, base="poisson", rounds=4, epochs=3, inducing=15, batch=8)
    fitted = method.fit(clients, cohort=3)
    for name in fitted.outcome.memories:
        band = fitted[name].intensity([5.05, 5.9], [5.0])
        assert np.isfinite(band).all()
    told = fitted["a"].score(followers(5, 9))
    assert told["gain"] > 0
    assert "gain_of_marks" not in told


def test_odd_histories_are_fine():
    tied = Events.from_arrays([1.5e9 + np.repeat(np.arange(1.0, 40.0) * 86400, 2), []], (1.5e9, 1.5e9 + 40 * 86400))
    model = SigmoidCox(kernel="lstm", steps=2, inducing=6).fit(tied)
    assert np.isfinite(list(model.score(tied).values())).all()
    assert np.isfinite(model.intensity([1.5e9 + 86400.0]).mean).all()
