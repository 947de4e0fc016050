"""Private runs from `fit`, a file and a folder: the promise is kept on every way, and results say what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import InProcessSettings
from cotempo.errors import DataError, DataWarning, ParameterError
from cotempo.federation import Message, Question, Rng, Shield
from cotempo.federation.exchange import Reply
from cotempo.federation.rounds import LoopOptions, initial_checkpoint, rounds
from cotempo.federation.site import Site
from cotempo.privacy.histograms import histograms
from cotempo.privacy.private_form import PrivateForm
from cotempo.runs.run import Run

PRIVACY = ct.Privacy(epsilon=2, ranges=(-15, 15), seeded=True)


@pytest.fixture(scope="module")
def clients() -> dict[str, Any]:
    return ct.make_networks(variables=3, clients=4, samples=4000, seed=1)[0]


class Listener(Shield):
    """Keeps what leaves the shields before it."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Message]] = []

    def protect(self, message: Message, question: Question, rng: Rng) -> Message:
        self.heard.append((question.phase, message))
        return message


def test_a_result_says_what_was_promised(clients: dict[str, Any], tmp_path: Path) -> None:
    fitted = ct.OneRound().fit(clients, privacy=ct.Privacy(epsilon=2, delta=1e-5, ranges=(-15, 15)))
    assert fitted.privacy == {
        "secure_sum": False,
        "epsilon": 2.0,
        "delta": 1e-5,
        "unit": "row",
        "mechanism": "discrete Gaussian noise, at each client",
        "protects_from": "the server, everyone who sees the result, and the other clients",
        "void": False,
    }
    fitted.save(tmp_path / "result")
    assert ct.load(tmp_path / "result").privacy == fitted.privacy
    page = fitted.report(tmp_path / "page.html").read_text()
    assert "epsilon 2 and delta 1e-05" in page
    assert "Void" not in page


def test_seeded_noise_is_labelled_void(clients: dict[str, Any], tmp_path: Path) -> None:
    fitted = ct.OneRound().fit(clients, privacy=PRIVACY)
    assert fitted.privacy["void"] is True
    assert "Void" in fitted.report(tmp_path / "page.html").read_text()


def test_without_a_seed_no_two_runs_are_the_same(clients: dict[str, Any]) -> None:
    privacy = PRIVACY.model_copy(update={"seeded": False})
    first, second = (ct.OneRound().fit(clients, privacy=privacy).state.products for _ in range(2))
    assert (first != second).all()


def test_everything_that_leaves_is_noised(clients: dict[str, Any]) -> None:
    private, plain = Listener(), Listener()
    ct.OneRound().fit(clients, privacy=PRIVACY, shields=[private])
    form = ct.OneRound().private(PRIVACY)
    form.fit(clients, shields=[plain])
    for (phase, noised), (_, exact) in zip(private.heard[:4], plain.heard[:4], strict=True):
        assert phase == "ranges"
        assert all((noised[name] != exact[name]).all() for name in exact)
    assert {phase for phase, _ in private.heard} == {"ranges", "moments"}


def test_the_secure_sum_needs_less_noise(clients: dict[str, Any]) -> None:
    """With shares of the noise, the sum has that of one client, not of all: more rows are left to learn from."""
    rows = [
        ct.OneRound().fit(clients, privacy=PRIVACY.model_copy(update={"secure_sum": on})).history[-1]["metrics"]["rows"]
        for on in (False, True)
    ]
    assert rows[1] > 1.5 * rows[0]


@pytest.mark.parametrize("secure", [False, True])
def test_the_server_knows_how_much_noise_a_sum_has(clients: dict[str, Any], secure: bool) -> None:
    privacy = PRIVACY.model_copy(update={"secure_sum": secure})
    run = Run.of(ct.OneRound(), clients, InProcessSettings(), LoopOptions()).guarded(privacy)
    assert isinstance(run.method, PrivateForm)
    engine = InProcess(run.method, run.tables, seed=0, shields=run.options.shields)
    step = next(rounds(run.method, engine, run.options, start=initial_checkpoint(run.method, engine, run.options)))
    low, high = np.full(3, -15.0), np.full(3, 15.0)
    exact = sum(histograms(table.values, low, high) for table in clients.values())
    expected = run.method.total_deviation("ranges", np.sqrt(3), 4, 4)
    assert (step.answers.sum["histograms"] - exact).std() == pytest.approx(expected, rel=0.2)
    assert expected == pytest.approx(run.method.multiplier("ranges") * np.sqrt(3) * (np.sqrt(4 / 3) if secure else 2))


def test_a_run_from_a_folder_goes_on_privately(clients: dict[str, Any], tmp_path: Path) -> None:
    whole = ct.OneRound().fit(clients, privacy=PRIVACY, run=tmp_path / "run")
    again = ct.resume(tmp_path / "run", clients)
    assert again.privacy == whole.privacy
    assert again.digest == whole.digest


def test_an_experiment_file_asks_for_privacy(tmp_path: Path) -> None:
    path = tmp_path / "private.toml"
    path.write_text(
        'name = "private"\nmethod = "OneRound"\n[data]\ngenerate = "networks"\n'
        "[data.options]\nvariables = 3\nclients = 4\nsamples = 800\n"
        "[privacy]\nepsilon = 3\nsecure_sum = true\n[privacy.ranges]\nx0 = [-15, 15]\nx1 = [-15, 15]\nx2 = [-15, 15]\n"
    )
    fitted = ct.run(path)
    assert (fitted.privacy["epsilon"], fitted.privacy["secure_sum"]) == (3.0, True)


def test_late_clients_are_not_added_without_noise(clients: dict[str, Any]) -> None:
    fitted = ct.OneRound().fit(clients, privacy=PRIVACY)
    late = ct.make_networks(variables=3, clients=1, samples=100, seed=2)[0]
    with pytest.raises(DataError, match="private result must stay as it is"):
        fitted.add({"late": next(iter(late.values()))})


def test_what_cannot_be_kept_is_refused(clients: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="cohort must be left out with epsilon"):
        ct.OneRound().fit(clients, privacy=PRIVACY, cohort=2)
    with pytest.raises(ParameterError, match="no differentially private form"):
        ct.FedMean().fit(clients, privacy=PRIVACY)


def test_workers_send_noised_messages_too(clients: dict[str, Any]) -> None:
    one = ct.OneRound().fit(clients, privacy=PRIVACY)
    two = ct.OneRound().fit(clients, privacy=PRIVACY, workers=2)
    assert one.digest == two.digest


def test_an_error_where_nothing_is_sent_is_told_to_nobody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One value too large to be squared, and the client failed in a phase that has no noise."""
    clients, _ = ct.make_networks(variables=2, clients=4, samples=120, seed=0)
    values = clients["client-0"].values.copy()
    values[3] = 1e300
    clients["client-0"] = ct.Series.from_arrays(values)
    method, privacy, heard = ct.PFDBNL(rounds=2), ct.Privacy(epsilon=3, ranges=(-5, 5), seeded=True), []
    answer = Site.answer

    def listen(site: Site, question: Question) -> Reply:
        reply = answer(site, question)
        heard.append((question.phase, reply.version))
        return reply

    monkeypatch.setattr(Site, "answer", listen)
    with pytest.warns(DataWarning, match="client-0 has no result of phase 'own'"):
        fitted = method.fit(clients, privacy=privacy, run=tmp_path / "run")
    assert fitted.failures == []
    (step,) = {version for phase, version in heard if phase == "own"}
    assert step > 0
    assert fitted["client-1"].network.within.shape == (2, 2)


def test_a_private_result_holds_neither_values_nor_hashes_of_tables(tmp_path: Path) -> None:
    """Whoever saw the page read the value that was far off, and could try all values of a row against the hash."""
    clients, _ = ct.make_networks(variables=2, clients=3, samples=120, seed=0)
    values = clients["client-0"].values.copy()
    values[3, 1] = 8765.5
    clients["client-0"] = ct.Series.from_arrays(values)
    with pytest.warns(DataWarning, match=r"8765\.5|8,?766"):  # at the machine that has the rows
        fitted = ct.OneRound().fit(clients, privacy=ct.Privacy(epsilon=3, ranges=(-5, 5)))
    assert (fitted.outcome.tables, fitted.outcome.warned) == ({}, ())
    fitted.save(tmp_path / "result")
    page, saved = fitted.report(tmp_path / "page.html").read_text(), (tmp_path / "result").rglob("*.json")
    assert not any("8765" in text or "8,766" in text for text in (page, *(path.read_text() for path in saved)))
