"""`cotempo predict`, `impute`, `sample`, `detect`, `update` and `export`: what a finished run is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotempo.cli.output import Output, count
from cotempo.errors import DataError, ParameterError, RunError

if TYPE_CHECKING:
    import pandas as pd

    from cotempo.data import Table

SUFFIXES = (".csv", ".parquet")
POINTS = 200  # of an intensity, over each window
COMMANDS = {  # by the verb a model needs
    "intensity": "predict", "forecast": "predict", "impute": "impute", "sample": "sample", "detect": "detect",
    "partial_fit": "update",
}  # fmt: skip
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or of a saved result.")]
Given = Annotated[Path, typer.Argument(metavar="INPUT", help="A table like those of the run, as a file or folder.")]
OutPath = Annotated[Path, typer.Option("--out", help="The file to write, .csv or .parquet.")]
Client = Annotated[str | None, typer.Option(help="Whose model to use, where INPUT does not name clients.")]
Draws = Annotated[int, typer.Option(help="Draws behind the intervals.")]
Level = Annotated[float, typer.Option(help="Share of the truth that an interval is to hold.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]


def predict(
    run: RunPath,
    given: Given,
    out: OutPath,
    horizon: Annotated[float, typer.Option(help="How far ahead: rows of a series, or time for events.")] = 0.0,
    draws: Draws = 100,
    level: Level = 0.9,
    client: Client = None,
    seed: Seed = 0,
) -> Output:
    """Continue series by --horizon rows, or give the intensity of events over their windows and --horizon beyond."""

    def continued(model: Any, table: Any) -> Any:
        if hasattr(model, "intensity"):
            return intensity_frame(model, table, horizon, level)
        if horizon < 1 or horizon != int(horizon):
            raise ParameterError(f"--horizon must be a whole number of rows, at least 1, got {horizon:g}")
        if hasattr(model, "network"):
            return model.network.forecast(table, int(horizon), level=level).to_frame()
        return model.forecast(table, int(horizon), draws, level=level, seed=seed).to_frame()

    return apply(run, given, out, client, ("intensity", "forecast", "network"), continued)


def impute(
    run: RunPath,
    given: Given,
    out: OutPath,
    draws: Draws = 20,
    level: Level = 0.9,
    client: Client = None,
    seed: Seed = 0,
) -> Output:
    """Fill what is missing in series, with the bounds of an interval."""

    def filled(model: Any, table: Any) -> Any:
        return model.impute(table, draws, level=level, seed=seed).to_frame()

    return apply(run, given, out, client, ("impute",), filled)


def sample(
    run: RunPath,
    out: OutPath,
    number: Annotated[int, typer.Option("--count", help="Sequences for each client.")] = 10,
    start: Annotated[str | None, typer.Option(help="For events: when sequences begin, a number or a date.")] = None,
    end: Annotated[str | None, typer.Option(help="For events: when they end.")] = None,
    client: Annotated[str | None, typer.Option(help="One client; all by default.")] = None,
    seed: Seed = 0,
) -> Output:
    """Draw synthetic series or events from clients' models."""
    fitted = load_result(run)
    frames = {}
    for name in [client] if client else fitted.names:
        model = capable(fitted[name], ("sample",), fitted)
        if hasattr(model, "intensity"):
            if start is None or end is None:
                raise ParameterError("--start and --end must say when sequences of events begin and end")
            drawn = model.sample(as_time(start), as_time(end), seed, number)
        else:
            drawn = model.sample(number, seed=seed)
        frames[name] = drawn.to_frame()
    return write_frames(frames, out)


def detect(
    run: RunPath,
    given: Given,
    out: OutPath,
    events: Annotated[int | None, typer.Option(help="Group the posts into so many new events instead.")] = None,
    client: Client = None,
) -> Output:
    """Name the event of every post, with a confidence; labels in INPUT are kept as a column `label`."""

    def named(model: Any, table: Any) -> Any:
        found, frame = model.detect(table, events), table.to_frame()
        frame = frame.rename(columns={"event": "label"}) if "label" not in frame else frame
        return frame.assign(event=found.event, confidence=found.confidence)

    return apply(run, given, out, client, ("detect",), named)


def update(run: RunPath, given: Given, client: Client = None) -> Output:
    """Take in the next posts of a stream: groups of outliers become events, and RUN is saved with them."""
    fitted = load_result(run)
    tables = read_like(run, fitted, given, client)
    models = {name: capable(fitted[name], ("partial_fit",), fitted) for name in tables}
    lines, record = [], {}
    for name, table in tables.items():
        before = {one.name for one in models[name].store.events}
        models[name].partial_fit(table)
        new = [one.name for one in models[name].store.events if one.name not in before]
        lines.append(f"{name}: {count(table.rows, 'post')}; new events: {', '.join(new) or 'none'}")
        record[name] = {"posts": table.rows, "new": new}
    fitted.save(run / "result" if (run / "experiment.toml").is_file() else run)
    return Output([*lines, f"Saved in {run}; see cotempo export and cotempo detect."], record)


def export(run: RunPath, folder: Annotated[Path, typer.Option("--out", help="A folder for the tables.")]) -> Output:
    """Write the results as CSV tables: networks, events found, and whether joining helped each client."""
    fitted = load_result(run)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, frame in fitted.tables().items():
        paths.append(folder / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    lines = [str(path) for path in paths] or [f"{type(fitted.method).__name__} has no tables to export"]
    return Output(lines, {"files": [str(path) for path in paths]})


def apply(
    run: Path,
    given: Path,
    out: Path,
    client: str | None,
    verbs: tuple[str, ...],
    function: Callable[[Any, Any], Any],
) -> Output:
    """Apply clients' models to their tables, and write what comes out as one table with a column `client`."""
    fitted = load_result(run)
    tables = read_like(run, fitted, given, client)
    models = {name: capable(fitted[name], verbs, fitted) for name in tables}
    return write_frames({name: function(models[name], table) for name, table in tables.items()}, out)


def load_result(run: Path) -> Any:
    """Return what a run learned."""
    from cotempo.federation.fitted import Fitted, load

    fitted = load(run)
    if not isinstance(fitted, Fitted):
        raise RunError(f"{run} must be a run or a saved federation, got a {type(fitted).__name__}")
    return fitted


def capable(model: Any, verbs: tuple[str, ...], fitted: Any) -> Any:
    """Return a model that has one of the verbs."""
    if not any(hasattr(model, verb) for verb in verbs):
        known = dict.fromkeys(command for verb, command in COMMANDS.items() if hasattr(model, verb))
        can = f"; it can {', '.join(known)}" if known else "; see cotempo export"
        raise ParameterError(f"{type(fitted.method).__name__} must be able to {COMMANDS.get(verbs[0], verbs[0])}{can}")
    return model


def read_like(run: Path, fitted: Any, given: Path, client: str | None) -> dict[str, Table]:
    """Read tables as the run's own were read: with its units, zones and names of columns."""
    from cotempo.runs.experiment import DataSettings, Experiment
    from cotempo.runs.folder import read_experiment

    kept = Experiment.from_dict(read_experiment(run)).data if (run / "experiment.toml").is_file() else None
    settings = kept.model_copy(update={"windows": None}) if kept and kept.source else DataSettings()
    columns = settings.columns or {}
    if client in columns and isinstance(columns[client], dict):
        settings = settings.model_copy(update={"columns": columns[client]})
    try:
        tables: dict[str, Table] = settings.read_tables(given, fitted.method.kind)
    except DataError as error:  # new posts may come without the labels that the run's own had
        if {problem.column for problem in error.problems} != {"event"}:
            raise
        tables = settings.without_column("event").read_tables(given, fitted.method.kind)
    if client is not None:
        if len(tables) != 1:
            raise DataError(f"{given} must hold one client's table to use with --client, it holds {len(tables)}")
        tables = {client: next(iter(tables.values()))}
    for name in tables:
        fitted[name]
    return tables


def write_frames(frames: Mapping[str, pd.DataFrame], out: Path) -> Output:
    """Write dataframes of clients as one table."""
    import pandas as pd

    if out.suffix not in SUFFIXES:
        raise ParameterError(f"--out must end in {' or '.join(SUFFIXES)}, got {out.name!r}")
    joined = pd.concat([frame.assign(client=name) for name, frame in frames.items()], ignore_index=True)
    joined = joined[["client", *(column for column in joined if column != "client")]]
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".csv":
        joined.to_csv(out, index=False)
    else:
        joined.to_parquet(out, index=False)
    record = {"file": str(out), "rows": len(joined), "clients": len(frames), "columns": list(map(str, joined))}
    return Output([f"{count(len(joined), 'row')} of {count(len(frames), 'client')} in {out}"], record)


def intensity_frame(model: Any, table: Any, horizon: float, level: float) -> pd.DataFrame:
    """Return the intensity over each sequence's window, and beyond, given its events where the model asks for them."""
    import numpy as np
    import pandas as pd

    frames = []
    for name, (start, end) in table.windows.items():
        times = np.linspace(start, end + horizon, POINTS)
        if hasattr(model, "given"):
            past = table.time[table.sequence == name]
            band = model.intensity(times, past[past <= end], start, level)
        else:
            band = model.intensity(times, level)
        columns = {"sequence": name, "time": table.clock.dates_of(times)}
        frames.append(pd.DataFrame({**columns, "mean": band.mean, "lower": band.lower, "upper": band.upper}))
    return pd.concat(frames, ignore_index=True)


def as_time(text: str) -> Any:
    """Return a time of the command line: a number if it is one, else the text of a date."""
    try:
        return float(text)
    except ValueError:
        return text
