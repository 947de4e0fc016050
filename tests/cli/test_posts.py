"""Posts on the command line, as platforms have them: own names of columns, labels on some days only, a stream."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import Command

import cotempo as ct
from cotempo.data import make_posts

FORO = {"text": "mensaje", "time": "fecha", "event": "suceso"}
PIAZZA = {"text": "testo", "event": "evento"}
SETTINGS = "[EventDetector]\ndimension = 20\nbuckets = 1024\n"


@pytest.fixture
def platforms(tmp_path: Path) -> pd.DataFrame:
    """Two platforms with own names of columns on day 1, and posts of the first on day 2, without labels."""
    clients, _ = make_posts(clients=2, posts=240, events=8, seed=4)
    foro, piazza = (clients[name].to_frame()[["time", "text", "event"]] for name in sorted(clients))
    unseen = foro["event"].value_counts().index[0]
    new = foro[(foro["event"] == unseen) | (np.arange(len(foro)) % 5 == 0)]
    (tmp_path / "day1").mkdir()
    names = {old: name for name, old in {"mensaje": "text", "fecha": "time", "suceso": "event"}.items()}
    foro[~foro.index.isin(new.index)].rename(columns=names).to_csv(tmp_path / "day1/foro.csv", sep=";", index=False)
    names = {"text": "testo", "event": "evento"}
    piazza.rename(columns=names).to_csv(tmp_path / "day1/piazza.csv", index=False)
    day2 = new.rename(columns={"text": "mensaje", "time": "fecha"})
    day2.drop(columns="event").to_csv(tmp_path / "foro2.csv", index=False)
    day2.rename(columns={"event": "suceso"}).to_csv(tmp_path / "labelled.csv", index=False)
    foro, piazza = (", ".join(f'{name} = "{old}"' for name, old in one.items()) for one in (FORO, PIAZZA))
    columns = f"columns = {{foro = {{{foro}}}, piazza = {{{piazza}}}}}"
    text = f'method = "EventDetector"\nname = "p"\n[data]\nsource = "day1"\n{columns}\n{SETTINGS}'
    (tmp_path / "e.toml").write_text(text)
    return new


def test_each_platform_has_its_own_columns(cotempo: Command, platforms: pd.DataFrame, tmp_path: Path) -> None:
    said = cotempo("run", "e.toml")
    assert said.code == 0, said.err
    assert "2 clients" in said.out
    text = (tmp_path / "e.toml").read_text()
    (tmp_path / "e.toml").write_text(text.replace("testo", "test").replace("piazza =", "piaza ="))
    wrong = cotempo("run", "e.toml", "--force")
    assert wrong.code == 3
    assert "columns= must name sources that are there ('foro', 'piazza'), got 'piaza'" in wrong.err


def test_new_posts_need_no_labels_and_keep_those_they_have(
    cotempo: Command, platforms: pd.DataFrame, tmp_path: Path
) -> None:
    assert cotempo("run", "e.toml", "--quiet").code == 0
    said = cotempo("detect", "runs/p", "foro2.csv", "--client", "foro", "--out", "named.csv")
    assert said.code == 0, said.err
    named = pd.read_csv(tmp_path / "named.csv")
    assert len(named) == len(platforms)
    assert "outlier" in set(named["event"])
    (tmp_path / "foro.csv").write_bytes((tmp_path / "labelled.csv").read_bytes())
    assert cotempo("detect", "runs/p", "foro.csv", "--out", "named.csv").code == 0
    named = pd.read_csv(tmp_path / "named.csv")
    assert sorted(named["label"]) == sorted(platforms["event"])
    assert cotempo("detect", "runs/p", "foro.csv", "--events", 3, "--out", "three.csv").code == 0
    assert pd.read_csv(tmp_path / "three.csv")["event"].nunique() == 3


def test_update_learns_the_new_event(cotempo: Command, platforms: pd.DataFrame, tmp_path: Path) -> None:
    assert cotempo("run", "e.toml", "--quiet").code == 0
    (tmp_path / "foro.csv").write_bytes((tmp_path / "foro2.csv").read_bytes())
    said = cotempo("update", "runs/p", "foro.csv")
    assert said.code == 0, said.err
    assert "found-foro-0000" in said.out
    assert cotempo("detect", "runs/p", "foro.csv", "--out", "named.csv").code == 0
    named = pd.read_csv(tmp_path / "named.csv").sort_values("text")["event"].to_numpy()
    truth = platforms.sort_values("text")["event"]
    unseen = (truth == truth.value_counts().index[0]).to_numpy()
    assert np.mean([name.startswith("found-") for name in named[unseen]]) > 0.7
    again = cotempo("update", "runs/p", "foro.csv")
    assert f"foro: {len(platforms)} posts, {len(platforms)} of them taken in before" in again.out
    refused = cotempo("predict", "runs/p", "foro.csv", "--out", "x.csv")
    assert "must be able to predict, got EventDetector; it can detect, update" in refused.err


def test_whose_posts_a_file_holds_must_be_said_where_columns_differ(cotempo: Command, platforms: pd.DataFrame) -> None:
    assert cotempo("run", "e.toml", "--quiet").code == 0
    said = cotempo("detect", "runs/p", "foro2.csv", "--out", "named.csv")
    assert said.code != 0
    assert "say whose it is with --client (foro, piazza)" in said.err


def test_a_clients_own_file_needs_no_options_of_the_others_and_keeps_its_order(
    cotempo: Command, tmp_path: Path
) -> None:
    clients, _ = make_posts(clients=2, posts=60, events=4, seed=4)
    (tmp_path / "day").mkdir()
    foro, piazza = (clients[name].to_frame()[["text", "time", "event"]] for name in sorted(clients))
    foro = foro.sample(frac=1, random_state=0)
    foro.to_csv(tmp_path / "day/foro.csv", index=False)
    piazza.rename(columns={"text": "testo"}).to_csv(tmp_path / "day/piazza.csv", index=False)
    said = 'columns = {piazza = {text = "testo"}}\nzone = {piazza = "Europe/Rome"}'
    text = f'method = "EventDetector"\nname = "p"\n[data]\nsource = "day"\n{said}\n{SETTINGS}'
    (tmp_path / "e.toml").write_text(text)
    assert cotempo("run", "e.toml", "--quiet").code == 0
    for name, frame in (("foro", foro), ("piazza", piazza)):
        found = cotempo("detect", "runs/p", f"day/{name}.csv", "--out", "named.csv")
        assert found.code == 0, found.err
        assert pd.read_csv(tmp_path / "named.csv")["text"].tolist() == frame["text"].tolist()


def test_labels_that_differ_in_case_are_told_of_by_check(cotempo: Command, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("text,event\na flood,Sardinia\nanother,sardinia \n")
    said = cotempo("check", "p.csv")
    assert said.code == 0
    assert "labels 'Sardinia' and 'sardinia' differ in case, " in said.err


def test_an_experiment_says_what_labels_are_called(cotempo: Command, tmp_path: Path) -> None:
    rows = [f"flood river {row},{'Flood-Porto' if row % 2 else 'flood porto'}" for row in range(40)]
    (tmp_path / "p.csv").write_text("\n".join(["text,event", *rows]))
    (tmp_path / "e.toml").write_text(
        f'method = "EventDetector"\nname = "p"\n[data]\nsource = "p.csv"\n'
        f'labels = {{"flood porto" = "Flood-Porto"}}\n{SETTINGS}'
    )
    assert cotempo("run", "e.toml", "--quiet").code == 0
    assert ct.load(tmp_path / "runs/p")["p"].events()["event"].tolist() == ["Flood-Porto"]


def test_a_file_of_a_folder_is_not_skipped_silently(cotempo: Command, platforms: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "day1/chirp.xlsx").write_text("no table\n")
    (tmp_path / "day1/README.md").write_text("Notes.\n")
    said = cotempo("run", "e.toml")
    assert said.code == 0
    assert "chirp.xlsx: left out, a table must end in .csv, .csv.gz, .tsv, .tsv.gz, .parquet, .jsonl" in said.err
    assert "README" not in said.err


def test_init_sees_texts_whatever_they_are_called(cotempo: Command, platforms: pd.DataFrame, tmp_path: Path) -> None:
    said = cotempo("init", "new.toml", "--data", "day1/piazza.csv")
    assert said.code == 0, said.err
    assert "EventDetector" in said.out
    assert "Guessed text = 'testo'" in said.out
    content = tomllib.loads((tmp_path / "new.toml").read_text())
    assert (content["method"], content["data"]["columns"]) == ("EventDetector", {"text": "testo"})
    assert cotempo("run", "new.toml", "--run", "runs/new").code == 0
    frame = pd.read_csv(tmp_path / "day1/piazza.csv").assign(data="03/11/2026 10:00").drop(columns="time")
    frame.to_csv(tmp_path / "dated.csv", index=False)
    assert "Guessed time = 'data'" in cotempo("init", "dated.toml", "--data", "dated.csv").out


def test_init_guesses_the_columns_of_each_file(cotempo: Command, platforms: pd.DataFrame, tmp_path: Path) -> None:
    posts = pd.read_csv(tmp_path / "day1/piazza.csv")
    texts = {
        "id": range(len(posts)),
        "created_at": 1782865133997 + posts.index * 60000,
        "user": "a",
        "body": posts["testo"],
    }
    pd.DataFrame(texts).to_json(tmp_path / "day1/wire.jsonl", orient="records", lines=True)
    said = cotempo("init", "three.toml", "--data", "day1")
    assert "Guessed text = 'mensaje' of foro" in said.out
    data = tomllib.loads((tmp_path / "three.toml").read_text())["data"]
    wire = {"text": "body", "time": "created_at", "author": "user"}
    assert data["columns"] == {"foro": {"text": "mensaje"}, "piazza": {"text": "testo"}, "wire": wire}
    assert data["date_format"] == {"wire": "ms"}
    said = cotempo("init", "one.toml", "--data", "day1/wire.jsonl")
    data = tomllib.loads((tmp_path / "one.toml").read_text())["data"]
    assert (data["columns"], data["date_format"]) == (wire, "ms")
    assert cotempo("check", "one.toml").code == 0


def test_an_empty_text_stops_nobody(cotempo: Command, platforms: pd.DataFrame, tmp_path: Path) -> None:
    assert cotempo("run", "e.toml", "--quiet").code == 0
    (tmp_path / "day2").mkdir()
    frame = pd.read_csv(tmp_path / "foro2.csv")
    frame.loc[1, "mensaje"] = None
    frame.to_csv(tmp_path / "day2/foro.csv", index=False)
    pd.read_csv(tmp_path / "day1/piazza.csv").to_csv(tmp_path / "day2/piazza.csv", index=False)
    said = cotempo("detect", "runs/p", "day2", "--out", "named.csv")
    assert said.code == 0, said.err
    assert "1 post without any text" in said.err
    named = pd.read_csv(tmp_path / "named.csv")
    assert set(named["client"]) == {"foro", "piazza"}
    assert named.loc[named["client"] == "foro", "event"].iloc[1] == "outlier"


def test_events_are_put_right_and_the_report_follows(cotempo: Command, platforms: pd.DataFrame, tmp_path: Path) -> None:
    assert cotempo("run", "e.toml", "--quiet").code == 0
    (tmp_path / "foro.csv").write_bytes((tmp_path / "foro2.csv").read_bytes())
    assert cotempo("update", "runs/p", "foro.csv").code == 0
    assert "later posts were taken in: 1 window by foro" in (tmp_path / "runs/p/report.html").read_text()
    said = cotempo("rename", "runs/p", "found-foro-0000", "the storm", "--client", "foro")
    assert said.code == 0, said.err
    assert "the storm" in (tmp_path / "runs/p/report.html").read_text()
    assert cotempo("split", "runs/p", "the storm", "--client", "foro").code == 0
    merged = cotempo("merge", "runs/p", "the storm-1", "the storm-2", "--into", "storm", "--client", "foro")
    assert merged.code == 0, merged.err
    assert cotempo("export", "runs/p", "--out", "tables").code == 0
    table = pd.read_csv(tmp_path / "tables/events.csv")
    assert list(table.columns[:2]) == ["client", "event"]
    assert "storm" in set(table["event"])
    assert "--client must say whose" in cotempo("rename", "runs/p", "storm", "x").err


def test_long_ids_stay_whole_beside_gaps(cotempo: Command, platforms: pd.DataFrame, tmp_path: Path) -> None:
    """1897654321098765433 became 1.8976543210987653e+18, so that nobody could find the post again."""
    clients, _ = make_posts(clients=3, posts=60, events=4, seed=4)
    (tmp_path / "web").mkdir()
    first = 1897654321098765433
    for number, (name, posts) in enumerate(sorted(clients.items())):  # all have one, some have none, no column
        ids = [None if number and row % 5 == 0 else first + row for row in range(posts.rows)]
        frame = posts.to_frame()[["text", "event"]]
        rows = [
            {**row, "event": row["event"] or None, **({"id": one} if number < 2 else {})}
            for row, one in zip(frame.to_dict("records"), ids, strict=True)
        ]
        (tmp_path / "web" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "w.toml").write_text(f'method = "EventDetector"\nname = "w"\n[data]\nsource = "web"\n{SETTINGS}')
    assert cotempo("run", "w.toml", "--quiet").code == 0
    assert cotempo("detect", "runs/w", "web", "--out", "named.csv").code == 0
    named = pd.read_csv(tmp_path / "named.csv", dtype=str)
    ids = named.loc[named["client"] == "client-1", "id"]
    assert ids.iloc[1] == str(first + 1)
    assert ids.isna().sum() == 12
    assert (named.loc[named["client"] == "client-0", "id"].str.len() == 19).all()
