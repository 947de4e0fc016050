"""After a run, and before one: predict, impute, sample, detect, export; init and methods."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import Command

import cotempo as ct
from cotempo.cli.models import write_frames
from cotempo.cli.tables import GENERATORS
from cotempo.runs.experiment import Experiment, generators, load_clients, load_public

SMALL = "window = 8\nwidth = 8\nimputer_width = 8\npretrain_steps = 1\ntoken_steps = 1\nstart_steps = 1\n"
SMALL += "corrector_steps = 1\nfirst_steps = 1\nlater_steps = 0\nlast_steps = 0\nrounds = 1\ndiffusion_steps = 4\n"


def test_series_are_filled_sampled_and_continued_with_a_public_table(cotempo: Command, tmp_path: Path) -> None:
    """FedTDD needs a public table, which the experiment names; paths are relative to the file."""
    clients, truth = ct.make_series(clients=3, length=60, features=3, missing=0.2, seed=0)
    (tmp_path / "here").mkdir()
    ct.data.write_clients({name: clients[name] for name in list(clients)[:2]}, tmp_path / "here" / "plants.csv")
    ct.data.write_clients({"public": truth.complete["client-2"]}, tmp_path / "here" / "public.csv")
    text = 'method = "FedTDD"\nname = "plants"\n[data]\nsource = "plants.csv"\npublic = "public.csv"\n'
    (tmp_path / "here" / "e.toml").write_text(text + '[FedTDD]\ncommon = ["x0", "x1"]\n' + SMALL)
    assert cotempo("run", "here/e.toml", "--quiet") == (0, "", "")
    said = cotempo("impute", "runs/plants", "here/plants.csv", "--out", "filled.csv", "--draws", 3)
    assert said.code == 0, said.err
    filled = pd.read_csv(tmp_path / "filled.csv")
    assert sorted(filled["client"].unique()) == ["client-0", "client-1"]
    assert not filled[["x0", "x1", "x2"]].isna().any().any()
    given = pd.read_csv(tmp_path / "here" / "plants.csv")
    known = given["x2"].notna()
    np.testing.assert_allclose(filled["x2"][known], given["x2"][known])
    assert cotempo("sample", "runs/plants", "--count", 2, "--out", "new.parquet").code == 0
    assert len(pd.read_parquet(tmp_path / "new.parquet")) == 2 * 2 * 8
    assert cotempo("predict", "runs/plants", "here/plants.csv", "--horizon", 4, "--out", "next.csv").code == 0
    ahead = pd.read_csv(tmp_path / "next.csv")
    assert len(ahead) == 2 * 4
    assert (ahead["time"] > filled["time"].max()).all()
    wrong = cotempo("detect", "runs/plants", "here/plants.csv", "--out", "next.csv")
    assert wrong.code == 2
    assert "must be able to detect, got FedTDD; it can predict, impute, sample" in wrong.err


def test_a_generated_client_can_be_public(tmp_path: Path) -> None:
    text = 'method = "FedTDD"\n[data]\ngenerate = "series"\npublic = "client-0"\noptions = {clients = 3, length = 40}\n'
    (tmp_path / "e.toml").write_text(text + '[FedTDD]\ncommon = ["x0"]\n')
    experiment = Experiment.from_file(tmp_path / "e.toml")
    clients, _ = load_clients(experiment)
    assert sorted(clients) == ["client-1", "client-2"]
    everyone, _ = ct.make_series(clients=3, length=40)
    assert load_public(experiment).fingerprint() == everyone["client-0"].fingerprint()


def test_units_windows_and_columns_are_keys_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "events.csv").write_text(
        "Klinik,time\nnord,2026-03-01 06:00\nnord,2026-03-01 12:00\nwest,2026-03-01 18:00\n"
    )
    (tmp_path / "windows.csv").write_text("Klinik,start,end\nnord,2026-03-01,2026-03-02\nwest,2026-03-01,2026-03-03\n")
    keys = 'source = "events.csv"\nunit = "h"\nwindows = "windows.csv"\ncolumns = {client = "Klinik"}\n'
    (tmp_path / "e.toml").write_text(f'method = "FedPP"\n[data]\n{keys}')
    monkeypatch.chdir("/")
    clients, _ = load_clients(Experiment.from_file(tmp_path / "e.toml"))
    assert {name: float(np.diff(table.time)[0]) for name, table in clients.items() if len(table) > 1} == {"nord": 6.0}
    assert float(clients["west"].end[0] - clients["west"].start[0]) == 48.0


def test_intensities_are_tables(cotempo: Command, tmp_path: Path) -> None:
    assert cotempo("make-data", "events", "--out", "d", "--set", "clients=3", "--set", "sequences=3").code == 0
    (tmp_path / "e.toml").write_text(
        'method = "FedPP"\nname = "wards"\n[data]\nsource = "d/events.csv"\nwindows = "d/events.windows.csv"\n'
        '[FedPP]\nkernel = "time"\ncompare = false\n'
    )
    said = cotempo("run", "e.toml")
    assert said.code == 0, said.err
    assert "not compared with learning alone" in said.out
    assert cotempo("predict", "runs/wards", "d/events.csv", "--out", "rates.csv").code == 0
    rates = pd.read_csv(tmp_path / "rates.csv")
    assert len(rates) == 3 * 3 * 200
    assert ((rates["lower"] <= rates["mean"]) & (rates["mean"] <= rates["upper"])).all()
    assert cotempo("sample", "runs/wards", "--out", "x.csv").code == 2
    drawn = cotempo("sample", "runs/wards", "--start", 0, "--end", 5, "--count", 2, "--out", "drawn.csv")
    assert drawn.code == 0, drawn.err
    assert pd.read_csv(tmp_path / "drawn.csv")["time"].between(0, 5).all()


def test_posts_are_named(cotempo: Command, tmp_path: Path) -> None:
    assert cotempo("make-data", "posts", "--out", "d", "--set", "clients=2", "--set", "posts=60").code == 0
    (tmp_path / "e.toml").write_text(
        'method = "EventDetector"\nname = "posts"\n[data]\nsource = "d/posts.csv"\n'
        "[EventDetector]\ndimension = 8\nbuckets = 64\n"
    )
    assert cotempo("run", "e.toml").code == 0
    said = cotempo("detect", "runs/posts", "d/posts.csv", "--out", "named.csv")
    assert said.code == 0, said.err
    named = pd.read_csv(tmp_path / "named.csv")
    assert len(named) == 120
    assert named["confidence"].between(0, 1).all()
    one = cotempo("detect", "runs/posts", "d/posts.csv", "--client", "client-0", "--out", "x.csv")
    assert one.code == 3
    assert "must hold one client's table" in one.err
    assert cotempo("export", "runs/posts", "--out", "tables").code == 0
    events = pd.read_csv(tmp_path / "tables" / "events.csv")
    assert {"client", "event", "size", "keywords"} <= {*events}


def test_no_name_is_a_formula_in_what_is_exported(cotempo: Command, made: Path, tmp_path: Path) -> None:
    path = tmp_path / "data" / "networks.csv"
    path.write_text(path.read_text().replace("x0", "=1+1", 1).replace("client-0", "@client"))
    made.write_text(made.read_text().replace("FedMean", "FDBNL") + "[FDBNL]\nrounds = 2\n")
    assert cotempo("run", made).code == 0
    assert cotempo("export", "runs/first", "--out", "tables").code == 0
    written = "".join(path.read_text() for path in (tmp_path / "tables").glob("*.csv"))
    cells = [cell for line in written.splitlines() for cell in line.split(",")]
    assert "'=1+1" in cells
    assert "'@client" in cells
    assert not {"=1+1", "@client"} & {*cells}


def test_networks_are_exported_and_forecast(cotempo: Command, made: Path, tmp_path: Path) -> None:
    made.write_text(made.read_text().replace("FedMean", "FDBNL") + "[FDBNL]\nrounds = 2\n")
    assert cotempo("run", made).code == 0
    assert cotempo("export", "runs/first", "--out", "tables").code == 0
    edges = pd.read_csv(tmp_path / "tables" / "network.csv")
    assert list(edges)[:4] == ["source", "target", "lag", "weight"]
    for kind, start in (("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        assert cotempo("export", "runs/first", "--out", kind, "--figures", kind).code == 0
        figures = sorted((tmp_path / kind).glob(f"*.{kind}"))
        assert [figure.stem for figure in figures] == ["gain-of-each-client", "the-learned-network"]
        assert all(figure.read_bytes().startswith(start) for figure in figures)
    assert cotempo("export", "runs/first", "--out", "x", "--figures", "gif").code == 2
    assert cotempo("predict", "runs/first", "data/networks.csv", "--horizon", 3, "--out", "next.csv").code == 0
    assert len(pd.read_csv(tmp_path / "next.csv")) == 3 * 3 * 2  # a row for each client, step and variable
    for bad in (("--horizon", 0), ("--horizon", 1.5), ("--horizon", 3, "--out", "next.txt")):
        assert cotempo("predict", "runs/first", "data/networks.csv", "--out", "n.csv", *bad).code == 2, bad


def write_lab(path: Path, columns: str, rows: int = 40, seed: int = 0, sequences: tuple[str, ...] = ("1",)) -> None:
    rng = np.random.default_rng(seed)
    names = columns.split()
    frames = [
        pd.DataFrame(rng.normal(size=(rows, len(names))), columns=names).assign(sequence=name, time=np.arange(rows))
        for name in sequences
    ]
    pd.concat(frames).to_csv(path, index=False)


def test_labs_that_lack_genes_and_repeat_experiments_are_forecast(cotempo: Command, tmp_path: Path) -> None:
    """The whole folder failed because one lab lacked a gene, and of several experiments one was forecast."""
    (tmp_path / "raw").mkdir()
    write_lab(tmp_path / "raw" / "lyon.csv", "g1 g2", seed=1)
    write_lab(tmp_path / "raw" / "uppsala.csv", "g1 g2 g3", seed=2, sequences=("exp8", "exp9", "exp10"))
    (tmp_path / "e.toml").write_text('method = "OneRound"\nname = "labs"\n[data]\nsource = "raw"\n')
    assert cotempo("run", "e.toml").code == 0
    said = cotempo("predict", "runs/labs", "raw", "--horizon", 2, "--out", "next.csv")
    assert said.code == 0, said.err
    assert "not held by all clients" not in said.err  # it was said when the run was done
    ahead = pd.read_csv(tmp_path / "next.csv", dtype={"sequence": str})
    assert ahead.groupby("client").size().to_dict() == {"lyon": 2 * 3, "uppsala": 3 * 2 * 3}
    assert set(ahead["sequence"]) == {"1", "exp8", "exp9", "exp10"}
    assert (ahead["low"] < ahead["value"]).all()
    write_lab(tmp_path / "new.csv", "g1 g3", seed=3)  # it took no part, and needs none to use the common network
    assert cotempo("predict", "runs/labs", "new.csv", "--horizon", 1, "--out", "x.csv").code == 0
    assert pd.read_csv(tmp_path / "x.csv")["client"].unique().tolist() == ["new"]
    wrong = cotempo("predict", "runs/labs", "new.csv", "--client", "lion", "--horizon", 1, "--out", "x.csv")
    assert wrong.code == 3
    assert "did you mean 'lyon'" in wrong.err


def test_one_bad_client_does_not_stop_the_others(cotempo: Command, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    for seed, name in enumerate(("a", "b")):
        write_lab(tmp_path / "raw" / f"{name}.csv", "g1 g2", seed=seed)
    text = 'method = "PFDBNL"\nname = "own"\n[data]\nsource = "raw"\n[PFDBNL]\nrounds = 2\ncompare = false\n'
    (tmp_path / "e.toml").write_text(text + "coupling = 0.1\nlambda_within = 0.1\nlambda_across = 0.1\n")
    assert cotempo("run", "e.toml").code == 0
    write_lab(tmp_path / "raw" / "c.csv", "g1 g2", seed=5)
    write_lab(tmp_path / "raw" / "b.csv", "x y", seed=5)
    said = cotempo("predict", "runs/own", "raw", "--horizon", 2, "--out", "next.csv")
    assert said.code == 3
    assert pd.read_csv(tmp_path / "next.csv")["client"].unique().tolist() == ["a"]
    assert "warning: left out: client b: history must have the network's 2 variables" in said.err
    assert "left out: client c: its model must be known, but it took no part" in said.err
    assert "--client: a, b" in said.err
    (tmp_path / "raw" / "a.csv").unlink()
    everyone = cotempo("predict", "runs/own", "raw", "--horizon", 2, "--out", "none.csv")
    assert everyone.code == 3
    assert everyone.err.startswith("error: client b: history must")
    assert "client c: its model" in everyone.err
    assert not (tmp_path / "none.csv").exists()
    assert cotempo("export", "runs/own", "--client", "b", "--out", "tables").code == 0
    own = pd.read_csv(tmp_path / "tables" / "client_networks.csv")
    assert own["client"].unique().tolist() == ["b"]
    assert cotempo("export", "runs/own", "--client", "z", "--out", "tables").code == 3


def test_a_ranking_predicts_nothing(cotempo: Command, made: Path) -> None:
    made.write_text(made.read_text().replace("FedMean", "EdgeRanking") + '[EdgeRanking]\nscore = "granger"\n')
    assert cotempo("run", made).code == 0
    Path("other.csv").write_text("client,sequence,time,other\na,0,zero,1\n")
    for given in ("data/networks.csv", "other.csv"):  # whatever is wrong with the table
        said = cotempo("predict", "runs/first", given, "--horizon", 1, "--out", "x.csv")
        assert said.code == 2
        assert said.err.startswith("error: the run's method")
    assert "must be able to predict, got EdgeRanking; write its tables with: cotempo export" in said.err


def test_init_writes_an_experiment_that_runs(cotempo: Command, made: Path, tmp_path: Path) -> None:
    said = cotempo("init", "new.toml", "--data", "data/networks.csv", "--method", "fdbnl")
    assert said.code == 0, said.err
    assert "cotempo run new.toml --dry-run" in said.out
    assert cotempo("run", "new.toml", "--run", "runs/new").code == 0
    again = cotempo("init", "new.toml", "--data", "data/networks.csv")
    assert again.code == 5
    assert "--force" in again.err
    assert cotempo("init", "new.toml", "--data", "data/networks.csv", "--force", "--quiet") == (0, "", "")
    assert 'method = "FedMoments"' in (tmp_path / "new.toml").read_text()
    wrong = cotempo("init", "other.toml", "--data", "data/networks.csv", "--method", "FDBN")
    assert wrong.code == 2
    assert "did you mean 'FDBNL'" in wrong.err
    common = cotempo("init", "tdd.toml", "--data", "data/networks.csv", "--method", "FedTDD")
    assert common.code == 0
    assert 'FedTDD needs a public table: first write public = "FILE" below [data]' in common.out
    assert "public table" not in cotempo("init", "fm.toml", "--data", "data/networks.csv").out
    assert 'common = [\n    "x0",\n    "x1",\n]' in (tmp_path / "tdd.toml").read_text()


def test_methods_are_listed_with_what_leaves(cotempo: Command) -> None:
    said = cotempo("methods")
    assert said.code == 0
    for name in ("FedPP", "FedTDD", "EventDetector", "FDBNL"):
        assert name in said.out
    one = cotempo("methods", "fdbnl")
    assert one.code == 0
    assert "lags = 1" in one.out
    assert "In Python: from cotempo import FDBNL" in one.out
    assert "In Python: from cotempo.events import FedNeural" in cotempo("methods", "FedNeural").out
    assert "Phase 'centre': 1 message" in one.out
    assert "only the sum over clients is used" in one.out
    record = cotempo("methods", "fdbnl", "--json").record
    assert json.loads(json.dumps(record))["parameters"]["lags"]["default"] == "1"
    assert "did you mean" in cotempo("methods", "FDBN").err


def test_generators_say_their_options(cotempo: Command) -> None:
    assert {*GENERATORS.replace(" or ", ", ").split(", ")} <= {*generators()}
    said = cotempo("make-data", "networks")
    assert said.code == 0
    assert "variables = 20" in said.out
    wrong = cotempo("make-data", "networks", "--out", "x", "--set", "variable=5")
    assert "make_networks has no option 'variable' (did you mean 'variables'?)" in wrong.err
    assert (
        "variables must be a whole number, got 'five'"
        in cotempo("make-data", "networks", "--out", "x", "--set", "variables=five").err
    )


def test_a_run_is_replaced_by_force_only(cotempo: Command, made: Path, tmp_path: Path) -> None:
    first = cotempo("run", made, "--json").record
    refused = cotempo("run", made)
    assert refused.code == 5
    assert "--force" in refused.err
    assert "--run" in refused.err
    assert cotempo("run", made, "--force", "--json").record["digest"] == first["digest"]
    other = cotempo("run", made, "--force", "--run", "data")
    assert other.code == 5
    assert (tmp_path / "data" / "networks.csv").exists()


@pytest.mark.parametrize(
    "wrong", ["[OneRound]\nlags = 100\n", '[OneRound]\nforbidden = [["x", "y"]]\n', "[OneRound]\nminimum_rows = 999\n"]
)
def test_force_deletes_nothing_for_a_run_that_cannot_begin(
    cotempo: Command, made: Path, tmp_path: Path, wrong: str
) -> None:
    assert cotempo("run", made).code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    made.write_text(made.read_text().replace("FedMean", "OneRound") + wrong)
    assert cotempo("run", made, "--force").code in (2, 3)
    assert {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()} == before
    made.write_text(made.read_text().replace(wrong, ""))
    assert cotempo("run", made, "--force").code == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]


def test_warnings_are_words(cotempo: Command, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    whole = ct.FedMean.open

    def warned(self: ct.FedMean, *args: object) -> object:
        warnings.warn("something to look at", UserWarning, stacklevel=2)
        return whole(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(ct.FedMean, "open", warned)
    assert cotempo("run", made).err == "warning: something to look at\n"
    assert cotempo("run", made, "--force", "--quiet").err == ""


def test_a_stopped_run_says_where_and_how_to_go_on(
    cotempo: Command,
    made: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = ct.FedMean.absorb

    def stop(self: ct.FedMean, state: object, *args: object) -> object:
        if state.rows:  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        return whole(self, state, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(ct.FedMean, "absorb", stop)
        said = cotempo("run", made)
    assert said.code == 130
    assert said.err == "stopped after round 1, step 1; continue with: cotempo resume runs/first\n"
    assert cotempo("resume", "runs/first").code == 0


def test_help_has_no_escapes(cotempo: Command) -> None:
    said = cotempo("make-data", "--help")
    assert "\\[" not in said.out
    assert "[default: 0]" in said.out
    assert cotempo("chek").err.count("Did you mean") == 1


@pytest.fixture
def plants(cotempo: Command, tmp_path: Path) -> str:
    """A run of FedMoments on hourly tables of two plants with a time zone; returns its folder."""
    clients, _ = ct.make_series(clients=2, length=150, features=2, missing=0.1, seed=0)
    for name, table in clients.items():
        frame = table.to_frame().drop(columns="sequence")
        frame["time"] = pd.date_range("2025-03-03", periods=len(frame), freq="h", tz="UTC").astype(str)
        (tmp_path / "plants").mkdir(exist_ok=True)
        frame.to_csv(tmp_path / "plants" / f"{name}.csv", index=False)
    (tmp_path / "e.toml").write_text(
        'method = "FedMoments"\nname = "plants"\n[data]\nsource = "plants"\nunit = "h"\n[FedMoments]\nwindow = 8\n'
    )
    assert cotempo("run", "e.toml", "--quiet") == (0, "", "")
    return "runs/plants"


def test_naive_dates_after_aware_ones_are_refused(cotempo: Command, plants: str, tmp_path: Path) -> None:
    frame = pd.read_csv(tmp_path / "plants" / "client-0.csv")
    frame["time"] = frame["time"].str.removesuffix("+00:00")
    frame.to_csv(tmp_path / "naive.csv", index=False)
    for verb in ("impute", "predict", "release"):
        more = ("--horizon", 3) if verb == "predict" else ()
        said = cotempo(verb, plants, "naive.csv", "--client", "client-0", "--out", "o.csv", *more)
        assert said.code == 3
        assert "dates must have a time zone" in said.err
    assert not (tmp_path / "o.csv").exists()


def test_synthetic_series_to_share_pass_the_gate(cotempo: Command, plants: str, tmp_path: Path) -> None:
    said = cotempo("release", plants, "plants", "--count", 20, "--out", "share.csv")
    assert said.code == 0, said.err
    assert "client-0: " in said.out
    assert said.out.count("withheld, nearness") == 2
    assert "Time counts hours from the beginning of each window." in said.out
    assert 0 < len(pd.read_csv(tmp_path / "share.csv")) <= 2 * 20 * 8
    told = " ".join(cotempo("sample", "--help").out.split())
    assert "for their owners; nothing checks how near they are to real ones (see release)" in told


def test_warnings_of_a_verb_name_the_client(cotempo: Command, plants: str, tmp_path: Path) -> None:
    frame = pd.read_csv(tmp_path / "plants" / "client-1.csv")
    frame.loc[20:60, "x0"] = None
    frame.to_csv(tmp_path / "plants" / "client-1.csv", index=False)
    said = cotempo("impute", plants, "plants", "--out", "f.csv")
    assert said.code == 0
    assert "client-1: 'x0' is missing in 41 rows" in said.err


def test_several_levels_on_the_command_line(cotempo: Command, plants: str, tmp_path: Path) -> None:
    assert cotempo("impute", plants, "plants", "--level", 0.5, "--level", 0.9, "--out", "f.csv").code == 0
    assert {"x0_low_50", "x0_high_90"} <= {*pd.read_csv(tmp_path / "f.csv")}


def test_messages_show_every_size(cotempo: Command, plants: str) -> None:
    """Window moments are sent twice where cells are missing, the second time with longer windows."""
    said = cotempo("messages", plants, "--client", "client-0").out
    sent = cotempo("messages", plants, "--client", "client-0", "--json").record["messages"]
    first, second = (record for record in sent if record["phase"] == "moments")
    assert first["bytes"] < second["bytes"]
    assert f"2 messages of {first['bytes']:,} to {second['bytes']:,} bytes" in said
    assert (
        f"products: float64 {first['fields']['products']['shape']}, then {second['fields']['products']['shape']}"
        in said
    )


@pytest.fixture
def pumps(cotempo: Command, tmp_path: Path) -> Path:
    """A run of two sites whose columns have names of their own, and whose missing cells have a sign."""
    (tmp_path / "raw").mkdir()
    for name, called in (("kobe", ["t", "p"]), ("oslo", ["temp", "press"])):
        pump_frame(called, seed=len(name) + ord(name[0])).to_csv(tmp_path / "raw" / f"{name}.csv", index=False)
    (tmp_path / "e.toml").write_text(
        'method = "FedMoments"\nname = "pumps"\n[FedMoments]\nwindow = 8\n[data]\nsource = "raw"\n'
        'missing = [-999]\nresample = {kobe = "2h", oslo = "2h"}\n'
        '[data.columns]\nkobe = {heat = "t", pressure = "p"}\noslo = {heat = "temp", pressure = "press"}\n'
    )
    said = cotempo("run", "e.toml")
    assert said.code == 0, said.err
    return tmp_path


def pump_frame(called: list[str], seed: int, rows: int = 120) -> pd.DataFrame:
    values = np.cumsum(np.random.default_rng(seed).normal(size=(rows, 2)), axis=0).round(3)
    values[5:8, 0] = -999
    time = pd.date_range("2025-04-01", periods=rows, freq="h", tz="UTC").strftime("%Y-%m-%dT%H:%MZ")
    return pd.DataFrame({"time": time, **dict(zip(called, values.T, strict=True))})


def test_new_data_may_be_of_a_newcomer_beside_others(cotempo: Command, pumps: Path) -> None:
    (pumps / "new").mkdir()
    pump_frame(["t", "p"], 5).replace(-999, 0.5).to_csv(pumps / "new" / "kobe.csv", index=False)
    pump_frame(["heat", "pressure"], 6).to_csv(pumps / "new" / "lima.csv", index=False)
    said = cotempo("impute", "runs/pumps", "new", "--out", "filled.csv")
    assert said.code == 3
    assert "columns= must name sources" not in said.err
    assert "left out: client lima: its model must be known" in said.err
    assert pd.read_csv(pumps / "filled.csv").groupby("client").size().to_dict() == {"kobe": 60}
    (pumps / "new" / "lima.csv").unlink()
    said = cotempo("impute", "runs/pumps", "new", "--out", "filled.csv")
    assert (said.code, said.err) == (0, "")  # -999 need not be in new tables


def test_new_data_without_a_feature_are_filled_with_a_warning(cotempo: Command, pumps: Path) -> None:
    pump_frame(["temp", "press"], 7)[["time", "temp"]].to_csv(pumps / "oslo.csv", index=False)
    for verb, more in (("impute", ()), ("predict", ("--horizon", 2))):
        said = cotempo(verb, "runs/pumps", "oslo.csv", *more, "--out", "filled.csv")
        assert said.code == 0, said.err
        assert "not measured here, taken as missing in all rows: 'pressure'" in said.err
        assert pd.read_csv(pumps / "filled.csv")["pressure"].notna().all()


def test_init_shows_how_tables_are_read_and_where_parameters_go(cotempo: Command, pumps: Path) -> None:
    for more in (("--method", "OneRound"), ()):
        assert cotempo("init", "made.toml", "--data", "raw", *more, "--force").code == 0
        text = (pumps / "made.toml").read_text()
        method = tomllib.loads(text)["method"]
        assert tomllib.loads(text)[method] == {}
        for key in ("columns", "zone", "date_format"):
            assert f"# {key} = {{kobe = " in text
        commented = [line for line in text.splitlines() if line.startswith("# ") and " = " in line]
        for line in commented:  # each can be used as it is
            found = tomllib.loads(text.replace(line, line.removeprefix("# ")))
            place = found["data"] if text.index(line) < text.index(f"[{method}]") else found[method]
            assert line.removeprefix("# ").partition(" = ")[0] in place
        assert any(line.startswith("# missing = ") for line in commented)


def test_a_window_of_series_is_not_drawn_from_a_date_on(cotempo: Command, pumps: Path) -> None:
    said = cotempo("sample", "runs/pumps", "--start", "2025-04-01", "--out", "drawn.csv")
    assert said.code == 2
    assert "--start and --end must be left out" in said.err
    assert not (pumps / "drawn.csv").exists()


def test_files_of_tables_have_plain_names(cotempo: Command, plants: str, tmp_path: Path) -> None:
    assert cotempo("export", plants, "--out", "tables").code == 0
    names = [path.stem for path in (tmp_path / "tables").iterdir()]
    assert "sensors-errors-in-their-own-units" in names
    assert all(re.fullmatch(r"[\w-]+", name) for name in names)
    assert "-0.0" not in (tmp_path / "tables" / "benefit.csv").read_text().replace(",", " ").split()


def test_a_client_that_measures_everything_says_so_beside_one_that_does_not(tmp_path: Path) -> None:
    kobe = pd.DataFrame({"value": [1.0]})
    lund = pd.DataFrame({"value": [2.0, 3.0], "measured": [True, False]})
    write_frames({"kobe": kobe, "lund": lund}, tmp_path / "next.csv")
    assert pd.read_csv(tmp_path / "next.csv")["measured"].tolist() == [True, True, False]


def test_check_of_an_experiment_says_what_misleads_its_method(tmp_path: Path, cotempo: Command) -> None:
    rng, hours = np.random.default_rng(0), pd.date_range("2025-03-05", periods=240, freq="h", tz="UTC")
    values = rng.normal(size=(240, 2)) + 2 * np.sin(2 * np.pi * np.arange(240) / 24)[:, None]
    frame = pd.DataFrame(values, columns=["flow", "power"]).assign(time=hours, level=rng.normal(size=240))
    frame.to_csv(tmp_path / "mill.csv", index=False)
    for method, told in (("OneRound", True), ("FedMoments", False)):
        path = tmp_path / "experiment.toml"
        path.write_text(f'name = "mill"\nmethod = "{method}"\n[data]\nsource = "mill.csv"\nunit = "h"\n')
        said = cotempo("check", path)
        assert said.code == 0
        assert ("mill: flow, power follow the hour of the day" in said.out) is told
