"""`cotempo predict`, `next`, `count`, `impute`, `sample`, `release`, `export`: using a run."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotempo.cli.output import Output, count
from cotempo.errors import DataError, DataWarning, ParameterError, Problem, RunError, nearest

if TYPE_CHECKING:
    import pandas as pd

    from cotempo.data import Table

NO_FEATURES = ("client", "sequence", "time")  # what every table of series has
SUFFIXES = (".csv", ".parquet")


class FigureFormat(Enum):
    """Formats that figures are written in."""

    svg = "svg"
    png = "png"
    pdf = "pdf"


POINTS = 200  # of an intensity, over each window
COMMANDS = {  # by the verb a model needs
    "intensity": "predict", "forecast": "predict", "impute": "impute", "sample": "sample", "detect": "detect",
    "partial_fit": "update", "rename": "rename",
}  # fmt: skip
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or of a saved result.")]
Given = Annotated[Path, typer.Argument(metavar="INPUT", help="A table like those of the run, as a file or folder.")]
OutPath = Annotated[Path, typer.Option("--out", help="The file to write, .csv or .parquet.")]
Client = Annotated[str | None, typer.Option(help="Whose model to use, where INPUT does not name clients.")]
Draws = Annotated[int, typer.Option(help="Draws behind the intervals.")]
Level = Annotated[
    float | None,
    typer.Option(help="Share of the truth that an interval is to hold; by default .95 for events, .9 for series."),
]
Levels = Annotated[
    list[float], typer.Option("--level", help="Share of the truth that an interval is to hold; repeat it for several.")
]
DEFAULT_LEVELS = [0.9]  # as in Python
EVENTS_LEVEL = 0.95
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]


def predict(
    run: RunPath,
    given: Given,
    out: OutPath,
    horizon: Annotated[
        str, typer.Option(help="How far ahead: rows of a series or a duration such as 24h, or time for events.")
    ] = "0",
    draws: Draws = 100,
    level: Level = None,
    client: Client = None,
    seed: Seed = 0,
    step: Annotated[str | None, typer.Option(help="For events: time between rows, a number or such as 30min.")] = None,
) -> Output:
    """Continue series by --horizon rows, or give the intensity of events over their windows and --horizon beyond."""
    from cotempo.series.windows import Timing

    chosen, unsure = {} if level is None else {"level": level}, list[str]()
    number = float(horizon) if re.fullmatch(r"[+-]?[\d.]+", horizon) else None

    def continued(model: Any, table: Any) -> Any:
        if hasattr(model, "intensity"):
            ahead = table.clock.duration(horizon) if number is None else number
            frame = intensity_frame(model, table, ahead, EVENTS_LEVEL if level is None else level, step)
            if len(frame) and frame["lower"].isna().all():
                unsure.append(type(model).__name__)
            return frame
        if step is not None:
            raise ParameterError(f"--step must be left out where the method learns from series, got {step}")
        rows = Timing.of(table).count_rows(horizon) if number is None else number
        if rows < 1 or rows != int(rows):
            raise ParameterError(f"--horizon must be a whole number of rows, at least 1, got {horizon}")
        if hasattr(model, "network"):
            return model.network.forecast(table, int(rows), **chosen).to_frame()
        return model.forecast(table, int(rows), draws, **chosen, seed=seed).to_frame()

    written = apply(run, given, out, client, ("intensity", "forecast", "network"), continued)
    if unsure:
        what = "the run's models do not say how sure they are of their intensity"
        warnings.warn(f"lower and upper are empty: {what}; FedPP's have bands", stacklevel=2)
    return written


def next_event(
    run: RunPath,
    given: Annotated[
        Path | None, typer.Argument(metavar="[INPUT]", help="The events so far, where the model looks back at them.")
    ] = None,
    after: Annotated[str | None, typer.Option(help="The next event after when, a number or a date.")] = None,
    until: Annotated[str | None, typer.Option(help="How far to look; by default until it comes almost surely.")] = None,
    client: Annotated[str | None, typer.Option(help="One client; all by default.")] = None,
    level: Level = None,
) -> Output:
    """Say when the next event of a sequence comes, by clients' models: its median, and an interval."""
    fitted, rows, level = load_result(run), [], EVENTS_LEVEL if level is None else level
    formats = date_formats(run, client)
    tables: dict[str, Any] = dict.fromkeys([client] if client else fitted.names)
    tables = dict(read_like(run, fitted, given, client)) if given else tables
    for name, table in tables.items():
        model = capable(fitted[name], ("predict_next",), fitted)
        end = None if until is None else as_time(until, model.clock, formats)
        if not hasattr(model, "given"):
            if after is None and table is None:
                raise ParameterError(
                    "--after must say when the wait for the next event begins, or INPUT have the windows, at whose end "
                    "it does"
                )
            begin = float(table.end.max()) if after is None else as_time(after, model.clock, formats)
            found = {"": model.predict_next(begin, end)}
        elif table is None or after is not None:
            raise ParameterError("INPUT must hold the events so far, and --after be left out: the model looks back")
        else:
            parts = {sequence: (past, start) for sequence, past, _, start, _ in table.sequences()}
            found = {sequence: model.predict_next(past, end, start) for sequence, (past, start) in parts.items()}
        for sequence, ahead in found.items():
            ends = ahead.quantile([0.5 - level / 2, 0.5, 0.5 + level / 2])
            named = {"client": name, **({"sequence": sequence} if sequence else {})}
            texts = [str(end.round("s")) if ahead.clock.dates else f"{end:.6g}" for end in ends]
            rows.append({**named, **dict(zip(("lower", "median", "upper"), texts, strict=True))})
    lines = [
        f"{row['client']}{', ' + row['sequence'] if 'sequence' in row else ''}: "
        f"{row['median']} ({level:.0%}: {row['lower']} to {row['upper']})"
        for row in rows
    ]
    return Output(lines, {"level": level, "next": rows})


def count_events(
    run: RunPath,
    given: Annotated[
        Path | None, typer.Argument(metavar="[INPUT]", help="The events so far, where the model looks back at them.")
    ] = None,
    *,
    start: Annotated[
        str, typer.Option(help="From when: a number, or a date as in ISO 8601 or as the run's are written.")
    ],
    end: Annotated[str, typer.Option(help="Until when.")],
    client: Annotated[str | None, typer.Option(help="One client; all by default.")] = None,
    level: Level = None,
) -> Output:
    """Say how many events a sequence will have, by clients' models: the mean, and an interval for chance and doubt."""
    import numpy as np

    fitted, rows, level = load_models(run, client), [], EVENTS_LEVEL if level is None else level
    formats = date_formats(run, client)
    tables: dict[str, Any] = dict(read_like(run, load_result(run), given, client)) if given else {}
    cold = [name for name, model in fitted.items() if name not in tables and getattr(model, "remembers", False)]
    if cold:
        what = "these counts begin as if no event had come before, and the models look back at events"
        warnings.warn(f"{', '.join(cold)}: {what}; pass those so far: cotempo count RUN INPUT", stacklevel=2)
    for name, model in fitted.items():
        ends = [as_time(when, model.clock, formats) for when in (start, end)]
        capable(model, ("predict_count",), model)
        if name not in tables:
            nothing = {"history": ()} if hasattr(model, "given") else {}  # warned of for all at once
            rows.append({"client": name, **model.predict_count(*ends, level, **nothing)._asdict()})
            continue
        if not hasattr(model, "given"):
            raise ParameterError("INPUT must be left out where the model does not look back at events")
        for sequence, times, codes, *_ in tables[name].sequences():
            before = int(np.searchsorted(times, model.clock.number(ends[0])))
            marks = tuple(tables[name].marks[code] for code in codes[:before]) if getattr(model, "marks", ()) else ()
            found = model.predict_count(*ends, level, times[:before], marks)
            named = {"sequence": sequence} if len(tables[name].names) > 1 else {}
            rows.append({"client": name, **named, **found._asdict()})
    lines = [
        f"{row['client']}{', ' + row['sequence'] if 'sequence' in row else ''}: "
        f"{row['mean']:.1f} ({level:.0%}: {row['lower']:.0f} to {row['upper']:.0f})"
        for row in rows
    ]
    return Output(lines, {"level": level, "counts": rows})


def impute(
    run: RunPath,
    given: Given,
    out: OutPath,
    draws: Draws = 20,
    level: Levels = DEFAULT_LEVELS,
    client: Client = None,
    seed: Seed = 0,
    fill_stuck: Annotated[bool, typer.Option("--fill-stuck", help="Fill cells of a stuck sensor, too.")] = False,
) -> Output:
    """Fill what is missing in series, with the bounds of intervals, and a column that says which cells were filled."""
    levels = level[0] if len(level) == 1 else tuple(level)

    def filled(model: Any, table: Any) -> Any:
        found = model.impute(table, draws, level=levels, seed=seed, fill_stuck=fill_stuck)
        frame = found.to_frame()
        for name, gone in zip(found.features, found.missing.T, strict=True):
            frame[f"{name}_filled"] = gone
        return frame

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
    """Draw synthetic series or events for their owners; nothing checks how near they are to real ones (see release)."""
    fitted = load_result(run)
    frames, clock, formats = {}, list[str](), date_formats(run, client)
    for name in [client] if client else fitted.names:
        model = capable(fitted[name], ("sample",), fitted)
        if hasattr(model, "intensity"):
            if start is None or end is None:
                raise ParameterError("--start and --end must say when sequences of events begin and end")
            drawn = model.sample(*(as_time(when, model.clock, formats) for when in (start, end)), seed, number)
        else:
            if start is not None or end is not None:
                raise ParameterError(
                    "--start and --end must be left out where the method learns from series: time begins with 0 in "
                    "each drawn window"
                )
            drawn, clock = model.sample(number, seed=seed), window_time(model)
        frames[name] = drawn.to_frame()
    written = write_frames(frames, out)
    return written._replace(lines=[*written.lines, *clock])


def release(
    run: RunPath,
    given: Given,
    out: OutPath,
    number: Annotated[int, typer.Option("--count", help="Windows to draw for each client.")] = 100,
    client: Client = None,
    seed: Seed = 0,
) -> Output:
    """Draw synthetic series to share, without those too near to the real ones in INPUT, that the run learned from."""
    lines: list[str] = []
    clock: list[str] = []

    def released(model: Any, table: Any) -> Any:
        clock[:] = window_time(model)
        found = model.release(table, number, seed=seed)
        frame = found.to_frame()
        lines.append(f"{count(found.withheld, 'window')} withheld, nearness {found.nearness:.2f} (1 as real ones)")
        return frame

    written = apply(run, given, out, client, ("release",), released)
    named = [f"{name}: {line}" for name, line in zip(written.record["names"], lines, strict=True)]
    return Output([*written.lines, *named, *clock], written.record, written.code)


def export(
    run: RunPath,
    folder: Annotated[Path, typer.Option("--out", help="A folder for the files.")],
    figures: Annotated[FigureFormat | None, typer.Option(help="Write the figures, too, in this format.")] = None,
    client: Annotated[str | None, typer.Option(help="Of tables about clients, the rows of this one only.")] = None,
) -> Output:
    """Write the results as CSV tables (networks, events found, whether joining helped each client), and the figures."""
    from cotempo.drawing.svg import file_name
    from cotempo.events import IntensityOverTime
    from cotempo.federation.fitted import Fitted
    from cotempo.report.tables import without_formula

    fitted = load_result(run)
    tables = fitted.tables()
    if client is not None:
        fitted[client]  # a name that is not known is refused
        tables = {
            name: frame[frame["client"] == client] if "client" in frame else frame for name, frame in tables.items()
        }
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, frame in tables.items():
        paths.append(folder / f"{file_name(name)}.csv")
        frame.rename(columns=without_formula).map(without_formula).to_csv(paths[-1], index=False)
    if figures:
        drawn = {**fitted.figures(), **({"Gain of each client": Fitted.plot(fitted)} if fitted.benefit else {})}
        if client is not None and isinstance(fitted[client], IntensityOverTime):
            drawn = {f"Intensity of {client} with its 95 % band": fitted.plot([client])}
        for title, figure in drawn.items():
            paths.append(folder / f"{file_name(title)}.{figures.value}")
            figure.savefig(paths[-1], dpi=200)
    lines = [str(path) for path in paths] or [f"{type(fitted.method).__name__} has nothing to export"]
    return Output(lines, {"files": [str(path) for path in paths]})


@contextlib.contextmanager
def warnings_of(client: str) -> Iterator[None]:
    """Say whose table each warning is about."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", DataWarning)
        yield
    for each in found:
        words = str(each.message)
        told = words if not isinstance(each.message, DataWarning) or client in words else f"{client}: {words}"
        warnings.warn_explicit(told, each.category, each.filename, each.lineno)


def apply(
    run: Path,
    given: Path,
    out: Path,
    client: str | None,
    verbs: tuple[str, ...],
    function: Callable[[Any, Any], Any],
) -> Output:
    """Apply clients' models to their tables, and write what comes out as one table with a column `client`."""
    from cotempo.data.problems import Problems

    fitted = load_result(run)
    if fitted.for_newcomer() is fitted:  # the result is the model of all: what it cannot do is told before any table
        capable(fitted, verbs, fitted)
    problems, frames = Problems(), {}
    for name, table in read_like(run, fitted, given, client).items():
        with problems.collect(name), warnings_of(name):  # so that one client's fault does not stop the others
            frames[name] = function(capable(model_of(fitted, name), verbs, fitted), table)
    if not frames:
        problems.raise_any()
    for problem in problems.found:
        warnings.warn(f"left out: {problem}", stacklevel=2)
    done = write_frames(frames, out)
    return done._replace(code=3) if problems.found else done


def model_of(fitted: Any, client: str) -> Any:
    """Return a client's model; for a client that took no part, the one that all have, if there is one."""
    shared = None if client in fitted.names else fitted.for_newcomer()
    if shared is None and client not in fitted.names:
        must = f"its model must be known, but it took no part in the run{nearest(client, fitted.names)}"
        raise DataError([Problem(f"{must}; say whose to use with --client: {', '.join(fitted.names)}", client)])
    return fitted[client] if shared is None else shared


def import_methods(run: Path) -> None:
    """Import the modules that a run's experiment names, if they are installed or lie where the person works."""
    from cotempo.federation.registry import import_modules
    from cotempo.runs.folder import read_experiment

    if (run / "experiment.toml").is_file():
        import_modules(read_experiment(run).get("imports", ()), ".")


def load_result(run: Path) -> Any:
    """Return what a run learned."""
    from cotempo.federation.fitted import Fitted, load

    import_methods(run)
    fitted = load(run)
    if not isinstance(fitted, Fitted):
        raise RunError(f"{run} must be a run or a saved federation, got a {type(fitted).__name__}")
    return fitted


def load_models(run: Path, client: str | None) -> dict[str, Any]:
    """Return the models of a run's clients, or of one; a model that a client saved goes by the name of its file."""
    from cotempo.federation.fitted import Fitted, load

    import_methods(run)
    found = load(run)
    if not isinstance(found, Fitted):
        return {client or run.stem: found}
    return {name: found[name] for name in ([client] if client else found.names)}


def save_result(fitted: Any, run: Path) -> list[str]:
    """Save a result that was changed, write its report again if there is one, and return what was done in words."""
    fitted.save(run)
    page = run / "report.html"
    if not page.is_file():
        return [f"Saved in {run}."]
    fitted.report(page, run=run if (run / "experiment.toml").is_file() else None)
    return [f"Saved in {run}, with a new report."]


def capable(model: Any, verbs: tuple[str, ...], fitted: Any) -> Any:
    """Return a model that has one of the verbs."""
    if not any(hasattr(model, verb) for verb in verbs):
        known = dict.fromkeys(command for verb, command in COMMANDS.items() if hasattr(model, verb))
        can = f"it can {', '.join(known)}" if known else "write its tables with: cotempo export"
        verb = COMMANDS.get(verbs[0], verbs[0])
        raise ParameterError(
            f"the run's method must be able to {verb}, got {type(getattr(fitted, 'method', fitted)).__name__}; {can}"
        )
    return model


def read_like(run: Path, fitted: Any, given: Path, client: str | None) -> dict[str, Table]:
    """Read tables as the run's own were read: with its units, zones and names of columns."""
    from cotempo.runs.experiment import BY_CLIENT, DataSettings

    kept = data_settings(run)
    settings = DataSettings()
    part = False  # of the run's own tables
    if kept and kept.source:  # the run's windows are of its own tables; others have theirs beside them, or none
        again = isinstance(kept.source, str) and Path(kept.source).resolve() == given.resolve()
        part = not again and given.resolve() in files_of(kept.source)
        settings = (kept if again or part else kept.model_copy(update={"windows": None})).for_source(given)
    sources = sources_of(given)
    # What is said by client is said by the name of its file, too.
    known = {name.casefold(): name for name in (*fitted.outcome.schemas, *sources)}
    by_client = {
        option: each
        for option in BY_CLIENT
        if isinstance(each := getattr(settings, option), dict)
        and not (option == "columns" and any(isinstance(one, str) for one in each.values()))
        and {name.casefold() for name in each} & known.keys()
    }
    # INPUT may be of some clients only: name all of the run's, so that the others are not taken for misspelt.
    # Nor need the run know a newcomer's.
    plain: dict[str, Any] = {"columns": {}, "zone": "", "date_format": ""}
    for option, each in by_client.items():
        rest = known.keys() - {name.casefold() for name in each}
        settings = settings.model_copy(update={option: {known[name]: plain[option] for name in rest} | each})
    if fitted.method.kind == "series":
        settings = settings.model_copy(update={"columns": columns_there(settings.columns, sources)})
    if client is not None:
        for option, each in by_client.items():
            said = {name.casefold(): one for name, one in each.items()}
            own = next((said[name] for name in map(str.casefold, (client, *sources)) if name in said), None)
            settings = settings.model_copy(update={option: own})
    elif (
        by_client
        and given.is_file()
        and not {name.casefold() for each in (fitted.outcome.schemas, *by_client.values()) for name in each}
        & {given.stem.casefold()}
    ):
        names = ", ".join(fitted.outcome.schemas)
        raise ParameterError(
            f"{given.name} must be a client's table: [data] {' and '.join(by_client)} of this run differ by client; "
            f"say whose it is with --client ({names})"
        )
    steps = settings.resample if isinstance(settings.resample, dict) else {}
    if steps:
        settings = settings.model_copy(update={"resample": None})
    with warnings.catch_warnings():
        # Signs that the run's own tables had need not be in others.
        warnings.filterwarnings("ignore", message=".*no cell holds this sign, which missing=")
        try:
            tables: dict[str, Table] = settings.read_tables(given, fitted.method.kind)
        except DataError as error:  # new posts may come without the labels that the run's own had
            if {problem.column for problem in error.problems} != {"event"}:
                if kept and kept.source:
                    raise
                must = (
                    "the run was started from Python, where its tables were read, so that nothing is known of how: "
                    "write INPUT with the columns that cotempo knows (cotempo.write_clients does), or read it in "
                    "Python, too, and use cotempo.load"
                )
                raise DataError([*error.problems, Problem(must)]) from None
            tables = settings.without_column("event").read_tables(given, fitted.method.kind)
    if part:  # the windows name clients of other files, too
        tables = {name: table for name, table in tables.items() if table.rows}
    if client is not None:
        if len(tables) != 1:
            raise DataError(f"{given} must hold one client's table to use with --client, it holds {len(tables)}")
        fitted[client]  # a name that is not known is refused
        tables = {client: next(iter(tables.values()))}
    found: dict[str, Any] = tables
    tables = {name: table.resample(steps[name]) if steps.get(name) else table for name, table in found.items()}
    for name, table in tables.items():
        if name in fitted.outcome.schemas:
            fitted.outcome.schemas[name].clock.match(table.clock)
    return tables


def files_of(source: Any) -> set[Path]:
    """Return the files of a run's source, of those that are still there."""
    from cotempo.data.problems import Problems
    from cotempo.data.read.sources import split_source

    try:
        parts = [part for _, part in split_source(list(source) if isinstance(source, tuple) else source, Problems())]
    except (DataError, OSError):
        return set()
    return {file.resolve() for part in parts for file in (part if isinstance(part, list) else [part])}


def sources_of(given: Path) -> dict[str, set[str]]:
    """Return the columns of each source of a file or folder, by the client it is named after."""
    from cotempo.data.problems import Problems
    from cotempo.data.read.sources import column_names, source_name, split_source

    try:
        return {source_name(part, name): {*column_names(part)} for name, part in split_source(given, Problems())}
    except DataError:
        return {}  # a reader says why


def columns_there(columns: Any, sources: Mapping[str, set[str]]) -> Any:
    """Return what columns are called, as a run says it, without features that a source does not have."""
    if not columns or not sources:
        return columns
    if any(isinstance(each, dict) for each in columns.values()):
        return {
            name: columns_there(each, {name: sources[name]}) if name in sources else each
            for name, each in columns.items()
        }
    there = set[str]().union(*sources.values())
    return {name: called for name, called in columns.items() if called in there or name in NO_FEATURES}


def write_frames(frames: Mapping[str, pd.DataFrame], out: Path) -> Output:
    """Write dataframes of clients as one table."""
    import pandas as pd

    if out.suffix not in SUFFIXES:
        raise ParameterError(f"--out must end in {' or '.join(SUFFIXES)}, got {out.name!r}")
    # Where a client lacks a column, whole numbers of others would become floats, and long ids lose digits.
    whole = [frame.astype(dict.fromkeys(frame.select_dtypes("int64"), "Int64")) for frame in frames.values()]
    joined = pd.concat(
        [frame.assign(client=name) for name, frame in zip(frames, whole, strict=True)], ignore_index=True
    )
    if "measured" in joined:  # of clients that lack variables; others measure all
        joined["measured"] = joined["measured"].isna() | joined["measured"].eq(True)
    joined = joined[["client", *(column for column in joined if column != "client")]]
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".csv":
        joined.to_csv(out, index=False)
    else:
        joined.to_parquet(out, index=False)
    record = {
        "file": str(out),
        "rows": len(joined),
        "clients": len(frames),
        "names": list(frames),
        "columns": list(map(str, joined)),
    }
    return Output([f"{count(len(joined), 'row')} of {count(len(frames), 'client')} in {out}"], record)


def window_time(model: Any) -> list[str]:
    """Return what the times of synthetic windows are, in words."""
    from cotempo.data.clock import LABELS

    clock = model.timing.clock
    return [f"Time counts {LABELS[clock.unit] if clock.dates else 'rows'} from the beginning of each window."]


def intensity_frame(model: Any, table: Any, horizon: float, level: float, step: str | None) -> pd.DataFrame:
    """Return the intensity over each sequence's window, and beyond the last, given its events where the model asks."""
    import pandas as pd

    frames = []
    clock = table.clock
    if step is None and clock.rhythm(getattr(model, "period", None)):
        step = "1h"  # coarser rows would hide the day
    for name, (start, end) in table.windows.items():
        # What comes after a window of which another follows is in that one, or between them.
        until = end if (table.start >= end).any() else end + horizon
        times = (
            clock.plain_times(start, until, POINTS)
            if step is None
            else clock.steps(start, until, clock.duration(as_number(step)))
        )
        if hasattr(model, "given"):
            past = table.time[table.sequence == name]
            band = model.intensity(times, past[past <= end], start, level)
        else:
            band = model.intensity(times, level)
        columns = {"sequence": name, "time": clock.dates_of(times)}
        frames.append(pd.DataFrame({**columns, **band._asdict(), "level": level}))
    return pd.concat(frames, ignore_index=True)


def as_number(text: str) -> Any:
    """Return a number of the command line as one, other texts as they are."""
    try:
        return float(text)
    except ValueError:
        return text


def as_time(text: str, clock: Any, formats: Sequence[str]) -> Any:
    """Return a time of the command line: a number, or a date, which is one of the clock's zone if it names none."""
    found = as_number(text)
    if isinstance(found, float):
        return found
    from cotempo.data.clock import parse_date

    date = parse_date(text, formats)
    if date.tz is not None or not clock.zone:
        return date
    try:
        return date.tz_localize(clock.date(0.0).tzinfo)
    except ValueError:  # clocks were changed
        mend = f"write the offset, such as '{date:%Y-%m-%d %H:%M}+01:00'"
        raise DataError(f"a time must be one that {clock.zone} had once, got {text!r}; {mend}") from None


def date_formats(run: Path, client: str | None) -> Sequence[str]:
    """Return how dates are written in the tables of a run, or of one client."""
    settings = data_settings(run)
    given = settings and settings.date_format
    if isinstance(given, dict):
        each = [style for name, style in given.items() if client in (None, name)]
        return [style for styles in each for style in ([styles] if isinstance(styles, str) else styles)]
    return [given] if isinstance(given, str) else given or ()


def data_settings(run: Path) -> Any:
    """Return what a run's experiment says about its tables; nothing if it had none."""
    from cotempo.runs.experiment import Experiment
    from cotempo.runs.folder import read_experiment

    return Experiment.from_dict(read_experiment(run)).data if (run / "experiment.toml").is_file() else None
