"""Experiment files: wrong ones are answered with what must hold, what got, and the nearest right key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cotempo as ct
from cotempo.cli import main
from cotempo.errors import CotempoError, DataError, ParameterError
from cotempo.runs.experiment import Experiment, load_clients, load_public, load_truth

GOOD = """
name = "first"
method = "FDBNL"
seed = 4
rounds = 7
cohort = 2
quorum = 0.75

[data]
generate = "networks"
options = {variables = 3, clients = 3, samples = 60}

[FDBNL]
lags = 2

[engine]
workers = 2
deadline = 1.5
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_what_is_run_on_what(tmp_path: Path) -> None:
    experiment = Experiment.from_file(write(tmp_path, GOOD))
    assert experiment.make_method() == ct.FDBNL(rounds=7, lags=2)
    assert experiment.cohort == ct.Participation(size=2)
    assert (experiment.name, experiment.seed, experiment.quorum) == ("first", 4, 0.75)
    assert (experiment.engine.workers, experiment.engine.deadline) == (2, 1.5)
    clients, truth = load_clients(experiment)
    expected, network = ct.make_networks(variables=3, clients=3, samples=60)
    assert {name: table.fingerprint() for name, table in clients.items()} == {
        name: table.fingerprint() for name, table in expected.items()
    }
    assert (truth.within == network.within).all()  # type: ignore[union-attr]
    assert (load_truth(experiment).within == truth.within).all()


def test_what_is_written_down_reads_back_the_same(tmp_path: Path) -> None:
    experiment = Experiment.from_file(write(tmp_path, GOOD))
    again = Experiment.from_dict(experiment.to_dict())
    assert again.make_method() == experiment.make_method()
    assert again.model_dump(exclude={"parameters", "rounds"}) == experiment.model_dump(exclude={"parameters", "rounds"})


@pytest.mark.parametrize("method", ["FDBNL", "fdbnl", "fPTN", "FPTN"])
@pytest.mark.parametrize("table", ["FDBNL", "fdbnl"])
def test_a_method_is_known_by_all_its_names(tmp_path: Path, method: str, table: str) -> None:
    text = GOOD.replace('"FDBNL"', f'"{method}"').replace("[FDBNL]", f"[{table}]")
    assert Experiment.from_file(write(tmp_path, text)).make_method() == ct.FDBNL(rounds=7, lags=2)


# What is changed, and what the answer must say.
WRONG = {
    "unknown key": ("seed = 4", "sede = 4", r"the experiment has no parameter 'sede' \(did you mean 'seed'\?\)"),
    "unknown key in engine": ("workers = 2", "worker = 2", r"\[engine\] has no parameter 'worker' .*mean 'workers'\?"),
    "unknown key in data": ("generate =", "generator =", r"\[data\] has no parameter 'generator' .*mean 'generate'\?"),
    "unknown key in cohort": ("cohort = 2", "cohort = {size = 2, perod = 3}", r"\[cohort\] .*did you mean 'period'\?"),
    "unknown table": ("[FDBNL]", "[FDBN]", r"no table \[FDBN\] \(did you mean 'FDBNL'\?\)"),
    "unknown parameter": ("lags = 2", "lag = 2", r"FDBNL has no parameter 'lag' \(did you mean 'lags'\?\)"),
    "two tables for one method": ("[FDBNL]", "[fdbnl]\nlags = 1\n[FDBNL]", r"one table, \[FDBNL\]"),
    "another table for parameters": ("[FDBNL]", "[parameters]", r"one table, \[FDBNL\]"),
    "negative rounds": ("rounds = 7", "rounds = -1", "rounds: .*greater than or equal to 1, got -1"),
    "no rounds": ("rounds = 7", "rounds = 0", "rounds: .*greater than or equal to 1, got 0"),
    "rounds given twice": ("lags = 2", "lags = 2\nrounds = 7", "rounds must be given once"),
    "negative seed": ("seed = 4", "seed = -4", "seed: .*greater than or equal to 0, got -4"),
    "seed of text": ("seed = 4", 'seed = "four"', "seed: .*valid integer.*got 'four'"),
    "quorum over one": ("quorum = 0.75", "quorum = 75", "quorum: .*less than or equal to 1, got 75"),
    "quorum nan": ("quorum = 0.75", "quorum = nan", "quorum: .*finite"),
    "cohort of nobody": ("cohort = 2", "cohort = 0", r"\[cohort\]: size: .*greater than or equal to 1, got 0"),
    "cohort of text": ("cohort = 2", 'cohort = "some"', "cohort: "),
    "a batch with workers": ("workers = 2", "workers = 2\nbatched = true", "batched must be left out with workers"),
    "an option of flower": (
        "workers = 2",
        'participants = ["a"]',
        "the engine inprocess has no option 'participants', which is for flower",
    ),
    "an option of local engines": (
        "workers = 2",
        'name = "flower"\nworkers = 2',
        "the engine flower has no option 'workers', which is for inproc",
    ),
    "unknown engine": ("workers = 2", 'name = "flour"', "engine must be one of .*did you mean 'flower'"),
    "negative workers": ("workers = 2", "workers = -2", r"\[engine\]: workers: .*got -2"),
    "endless deadline": ("deadline = 1.5", "deadline = inf", r"\[engine\]: deadline: .*finite"),
    "no deadline": ("deadline = 1.5", "deadline = 0", r"\[engine\]: deadline: .*greater than 0, got 0"),
    "unknown method": ('method = "FDBNL"', 'method = "FDBNN"', r"no method 'FDBNN' .*mean 'P?FDBNL'\?\); known are"),
    "no method": ('method = "FDBNL"', "", "must name its method, like method ="),
    "method of another type": ('method = "FDBNL"', "method = 3", "must name its method"),
    "a name that leaves its folder": ('name = "first"', 'name = "../first"', "name: .*got '../first'"),
    "an empty name": ('name = "first"', 'name = ""', "name: "),
    "unknown kind": ('generate = "networks"', 'source = "x"\nkind = "serie"', r"\[data\]: kind: .*'series'"),
    "data of another type": ("[data]", "data = 3\n[other]", "data"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_told_what_must_hold(tmp_path: Path, case: str) -> None:
    before, after, match = WRONG[case]
    assert before in GOOD
    path = write(tmp_path, GOOD.replace(before, after))
    with pytest.raises(ParameterError, match=match):
        Experiment.from_file(path).make_method()


# Known only when the data are read.
WRONG_DATA = {
    "neither source nor generator": ('generate = "networks"', "", r"either source .* or generate"),
    "both": ('generate = "networks"', 'generate = "networks"\nsource = "x"', r"either source .* or generate"),
    "unknown generator": ('"networks"', '"network"', r"must be one of networks, .*did you mean 'networks'\?"),
    "unknown option": ("variables = 3", "variable = 3", r"\[data.options\]: .*'variable' \(did you mean 'variables'"),
    "option of another type": (
        "variables = 3",
        'variables = "three"',
        "variables must be a whole number, got 'three'",
    ),
    "option out of range": ("variables = 3", "variables = 0", "variables must be a whole number of at least 1, got 0"),
    "negative seed": ("variables = 3", "seed = -1", r"\[data.options\]"),
}


@pytest.mark.parametrize("case", WRONG_DATA)
def test_wrong_data_settings_are_told_what_must_hold(tmp_path: Path, case: str) -> None:
    before, after, match = WRONG_DATA[case]
    assert before in GOOD
    experiment = Experiment.from_file(write(tmp_path, GOOD.replace(before, after, 1)))
    with pytest.raises(ParameterError, match=match):
        load_clients(experiment)


@pytest.mark.parametrize("text", ["= 3", "a = ", "[data", "method = FDBNL", 'x = "\\q"', "a = 1\na = 2"])
def test_what_is_no_toml_is_said_with_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(ParameterError, match=r"experiment\.toml must be a TOML file: .*(line|end of document)"):
        Experiment.from_file(write(tmp_path, text))


def test_bytes_that_are_no_text_are_said(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ParameterError, match="must be a TOML file"):
        Experiment.from_file(path)


def test_a_missing_file_or_a_folder_is_said(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.toml", tmp_path):
        with pytest.raises(ParameterError, match="must be a readable file"):
            Experiment.from_file(path)


def test_a_file_must_say_where_the_clients_are(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"must have a \[data\] table"):
        Experiment.from_file(write(tmp_path, 'method = "FedMean"'))


def test_a_source_is_looked_for_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "table.csv").write_text("client,time,x\na,0,1\na,1,2\nb,0,5\n")
    path = write(tmp_path / "here", 'method = "FedMean"\n[data]\nsource = "../table.csv"\n')
    monkeypatch.chdir("/")
    experiment = Experiment.from_file(path)
    assert experiment.data is not None
    assert experiment.data.source == str((tmp_path / "table.csv").resolve())
    clients, truth = load_clients(experiment)
    assert ct.FedMean().fit(clients).mean.tolist() == [8 / 3]
    assert truth is None


def test_a_source_that_is_not_there_is_a_data_error(tmp_path: Path) -> None:
    experiment = Experiment.from_file(write(tmp_path, 'method = "FedMean"\n[data]\nsource = "nowhere.csv"\n'))
    with pytest.raises(DataError, match="there is nothing at"):
        load_clients(experiment)
    assert load_truth(experiment) is None


def test_rounds_of_a_method_without_rounds_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 'method = "FedMean"\nrounds = 3\n[data]\nsource = "x"\n')
    with pytest.raises(ParameterError, match="FedMean has no parameter 'rounds'"):
        Experiment.from_file(path).make_method()


def test_several_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("seed = 4", "seed = -4").replace("workers = 2", "worker = 2")
    with pytest.raises(CotempoError, match="seed") as caught:
        Experiment.from_file(write(tmp_path, text))
    assert "worker" in str(caught.value)


def test_parameters_that_are_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"\[FedMean\] must be a table of parameters, got 3"):
        Experiment.from_file(write(tmp_path, 'method = "FedMean"\nFedMean = 3\n[data]\nsource = "x"\n'))


def test_on_another_engine_an_experiment_keeps_the_options_that_engine_has(tmp_path: Path) -> None:
    text = GOOD.replace("workers = 2", 'name = "flower"\nserver = "there"\nthreads = 3')
    remote = Experiment.from_file(write(tmp_path, text))
    assert remote.engine.server == str(tmp_path / "there")
    here = remote.on(engine="inprocess")
    assert (here.engine.name, here.engine.threads) == ("inprocess", 3)
    with pytest.raises(ParameterError, match="no option 'server'"):
        remote.on(engine="inprocess", server=tmp_path)


def test_generated_data_are_made_once_and_their_truth_is_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, make = [], ct.make_networks

    def watched(**options: Any) -> Any:
        calls.append(options)
        return make(**options)

    monkeypatch.setattr("cotempo.networks.make_networks", watched)
    text = GOOD.replace("workers = 2\ndeadline = 1.5\n", "").replace("rounds = 7", "rounds = 2").replace("lags = 2", "")
    with pytest.raises(SystemExit) as end:
        main(["run", str(write(tmp_path, text)), "--run", str(tmp_path / "run"), "--quiet"])
    assert end.value.code == 0
    assert len(calls) == 1
    assert "Scores" in (tmp_path / "run" / "report.html").read_text()
    experiment = Experiment.from_file(tmp_path / "experiment.toml")
    ct.run(experiment, run=tmp_path / "again", progress=False)
    assert len(calls) == 2
    assert ct.resume(tmp_path / "again", progress=False).rounds
    assert len(calls) == 3


def test_a_public_table_that_means_nothing_is_refused(tmp_path: Path) -> None:
    times = "time\n" + "\n".join(map(str, range(1, 60))) + "\n"
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(times)
    text = 'method = "FedPP"\n[data]\nsource = "a.csv"\npublic = "b.csv"\n'
    (tmp_path / "e.toml").write_text(text)
    experiment = Experiment.from_file(tmp_path / "e.toml")
    with pytest.raises(ParameterError, match="public must be left out: FedPP uses no public table"):
        load_clients(experiment)
    table = ct.read_events(tmp_path / "a.csv")["a"]
    with pytest.raises(ParameterError, match="public must be left out: FedPP uses no public table"):
        ct.FedPP().fit({"a": table}, public=table)


def test_faults_of_the_public_table_say_that_they_are_its(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,x\n1,2\n2,3\n")
    (tmp_path / "p.csv").write_text("stamp,x\n1,2\n2,3\n")
    text = 'method = "FedTDD"\n[data]\nsource = "a.csv"\npublic = "p.csv"\n[FedTDD]\ncommon = ["x"]\n'
    (tmp_path / "e.toml").write_text(text)
    with pytest.raises(DataError, match=r"public table: .*'time' must be there"):
        load_public(Experiment.from_file(tmp_path / "e.toml"))


def test_formats_of_dates_may_be_several_by_client(tmp_path: Path) -> None:
    (tmp_path / "Nord.csv").write_text("time\n05.03.2025 07:10\n06.03.2025 19:30\n")
    text = 'method = "FedPP"\n[data]\nsource = "Nord.csv"\ndate_format = {nord = ["%Y-%m-%d", "%d.%m.%Y %H:%M"]}\n'
    (tmp_path / "e.toml").write_text(text)
    clients, _ = load_clients(Experiment.from_file(tmp_path / "e.toml"))
    assert clients["Nord"].unit == "s"  # names in other capitals are the same
