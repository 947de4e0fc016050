"""`cotempo init` and `cotempo methods`: an experiment file to begin with, and what can stand in it."""

from __future__ import annotations

import inspect
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from cotempo.cli.output import Output
from cotempo.data.clock import LABELS, UNITS
from cotempo.errors import CotempoError, RunError

if TYPE_CHECKING:
    from cotempo.federation.method import Method

LEAST_GAPS = {"D": 86400, "h": 300}  # seconds between rows from which dates are counted in this unit
LEAST_WORDS = 4  # on average, in a column of texts
_BARE = re.compile(r"[A-Za-z0-9_-]+")
AUTHORS = {
    "user",
    "username",
    "user_name",
    "screen_name",
    "usuario",
    "autor",
    "auteur",
    "utente",
    "benutzer",
    "account",
}
_TIME = re.compile(r"time|date|created|stamp|zeit|datum|fecha|hora|heure|_at$", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import", metavar="MODULE", help="A module of your own that registers methods; from here, or installed."
    ),
]
USUAL = {"events": "FedPP", "series": "FedMoments", "posts": "EventDetector"}


def write_experiment(
    path: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The file to write.")] = Path(
        "experiment.toml"
    ),
    source: Annotated[str | None, typer.Option("--data", help="The clients' tables, as a file or a folder.")] = None,
    method: Annotated[str | None, typer.Option(help="The method; by default one for the kind of table.")] = None,
    name: Annotated[str | None, typer.Option(help="The run's name; by default that of the file.")] = None,
    unit: Annotated[str | None, typer.Option(help="What dates are counted in: s, h or D.")] = None,
    public: Annotated[str | None, typer.Option(help="A table the server may see, for methods that use one.")] = None,
    imports: Imports = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file of that name.")] = False,
) -> Output:
    """Write an experiment file; in a terminal, ask for what the options do not say."""
    import tomli_w

    from cotempo import data
    from cotempo.federation.registry import find_method, import_modules
    from cotempo.runs.experiment import Experiment, beside, load_clients

    if path.exists() and not force:
        raise RunError(f"{path} must be a new file; replace it with --force")
    import_modules(imports or (), path.parent)
    source = source or _ask("Where are the clients' tables (a file with a column client, or a folder)?", "data")
    kind, doubt = _kind_of(path.parent / source)
    if doubt and method is None:
        if not sys.stdin.isatty():
            _refuse(doubt)
        typer.echo(doubt)
    seems = _text_columns(path.parent / source)
    kind = "posts" if seems else kind
    known = [each for each, cls in _methods().items() if kind is None or cls.kind == kind]
    usual = method or _ask(f"Which method ({', '.join(known)})?", USUAL.get(kind or "series", "FedMean"))
    chosen = find_method(usual)
    content: dict[str, Any] = {
        "name": name or path.stem,
        "seed": 0,
        "method": chosen.__name__,
        **({"imports": imports} if imports else {}),
        "data": {"source": source, **({"unit": unit} if unit else {}), **({"public": public} if public else {})},
    }
    if seems and chosen.kind == "posts":
        content["data"] |= _by_client(seems)
    if chosen.model_fields.get("common") and chosen.model_fields["common"].is_required():
        columns = [table.schema.columns for table in data.READERS[chosen.kind](path.parent / source).values()]
        common = [name for name in columns[0] if all(name in other for other in columns)]
        content[chosen.__name__] = {"common": common}
    Experiment.from_dict(content).make_method()  # raises where a required parameter is missing
    guessed = [
        f"Guessed {name} = {called!r}{f' of {client}' if len(seems) > 1 else ''}; correct it in [data]"
        f"{'.' if name == 'date_format' else ' columns.'}"
        for client, own in seems.items()
        for name, called in own.items()
    ]
    lines, run = [f"Wrote {path}: {chosen.__name__} on {source}.", *guessed], f"cotempo run {path}"
    if kind == "series" and method is None:
        lines.append("For a network of the columns, what drives what: --method OneRound.")
    if public is None and hasattr(chosen, "example") and chosen.example()[2] is not None:
        lines.append(
            f'{chosen.__name__} needs a public table: first write public = "FILE" below [data], or pass --public.'
        )
    try:
        clients, _ = load_clients(Experiment.from_dict({**content, "data": beside(path.parent, content["data"])}))
        if unit is None and (counted := _usual_unit(clients)):
            content["data"]["unit"] = counted
            lines.append(f"Dates are counted in {LABELS[counted]}, and so is a period; see unit below [data].")
        lines += [f"What would leave: {run} --dry-run", f"Run it: {run}"]
    except CotempoError as error:
        if method is None and kind not in ("events", "posts") and not sys.stdin.isatty():
            _refuse(str(error))
        lines += ["These tables cannot be read yet:", *(f"  {fault}" for fault in str(error).splitlines())]
        lines.append(f"Say below [data] how to (columns, date_format, zone, windows), then: cotempo check {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    written = tomli_w.dumps({**content, chosen.__name__: content.get(chosen.__name__, {})})
    reading = _reading(chosen.kind, _sources(path.parent / source), {*content["data"]})
    path.write_text(_below_data(written, reading) + _comments(chosen), encoding="utf-8")
    return Output(lines, {"file": str(path), "method": chosen.__name__, "source": source})


def _usual_unit(clients: Any) -> str:
    """Return what dates are best counted in, by the usual gap between two rows; nothing for plain numbers."""
    import numpy as np

    tables = [table for table in clients.values() if table.unit]
    gaps = np.concatenate([np.zeros(0), *(np.diff(np.sort(table.time[np.isfinite(table.time)])) for table in tables)])
    if not (gaps > 0).any():
        return ""
    usual = float(np.median(gaps[gaps > 0])) * UNITS[tables[0].unit]
    return next((unit for unit, least in LEAST_GAPS.items() if usual >= least), "s")


def _ask(question: str, default: str) -> str:
    return str(typer.prompt(question, default=default)) if sys.stdin.isatty() else default


def _kind_of(source: Path) -> tuple[str | None, str]:
    """Return the kind of table that is there; if it cannot be told, None, and why."""
    from cotempo import data

    try:
        return str(data.detect_kind(str(source))), ""
    except CotempoError as error:
        return None, str(error)


def _refuse(faults: str) -> NoReturn:
    must = f"tables must be readable, and of one kind, to choose a method for them, got:\n{faults}"
    usual = ", ".join(f"{method} where rows are {kind}" for kind, method in USUAL.items())
    raise RunError(f"{must}\nChoose one with --method, such as {usual}; cotempo methods lists all")


def _text_columns(source: Path) -> dict[str, dict[str, str]]:
    """Return by client what seems to hold texts, times and authors where texts are not called `text`.

    Each with the name that readers know, and with ``date_format`` where times count from 1970.
    """
    from cotempo.data.problems import Problems
    from cotempo.data.read.sheet import Reading
    from cotempo.data.read.sources import load, source_name, split_source

    found = {}
    try:
        for client, part in split_source(str(source), Problems()):
            columns = load(part, client, Reading()).columns
            cells = {name: values.slice(0, 50).drop_null().to_pylist() for name, values in columns.items()}
            found[source_name(part, client)] = _guess_columns(cells)
    except (CotempoError, IndexError):
        return {}
    return found if any(found.values()) else {}


def _guess_columns(cells: dict[str, list[Any]]) -> dict[str, str]:
    """Return what seems to hold texts, times and authors, by the first cells of each column."""
    from cotempo.social.encoders.scripts import spaced

    words = {name: [len(spaced(str(one)).split()) for one in column] for name, column in cells.items()}
    texts = {name: sum(counts) / len(counts) for name, counts in words.items() if counts}
    longest = max(texts, key=lambda name: texts[name], default="text")
    if "text" in cells or texts.get(longest, 0) < LEAST_WORDS:
        return {}
    found = {"text": longest}
    dates = [name for name, column in cells.items() if column and all(_DATE.match(str(one)) for one in column)]
    counted = {name: _since_1970(column) for name, column in cells.items() if _TIME.search(name)}
    dates += [name for name, unit in counted.items() if unit]
    if dates and "time" not in cells:
        found["time"] = dates[0]
    if counted.get(found.get("time", "time")):
        found["date_format"] = counted[found.get("time", "time")]
    authors = [name for name in cells if name.casefold() in AUTHORS]
    return {**found, **({"author": authors[0]} if authors and "author" not in cells else {})}


def _since_1970(column: list[Any]) -> str:
    """Return whether numbers count seconds or milliseconds since about 2001, as ``date_format`` says it, or neither."""
    if not column or not all(isinstance(one, int | float) for one in column):
        return ""
    return next(
        (unit for unit, factor in (("s", 1), ("ms", 1000)) if all(_in_years(one / factor) for one in column)), ""
    )


def _in_years(seconds: float) -> bool:
    return 1e9 < seconds < 4e9


def _by_client(seems: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return guesses as keys of [data], by client only where they differ."""
    columns = {name: {key: one for key, one in own.items() if key != "date_format"} for name, own in seems.items()}
    formats = {name: own["date_format"] for name, own in seems.items() if "date_format" in own}
    found: dict[str, Any] = {"columns": columns}
    if len({tuple(own.items()) for own in columns.values()}) == 1:
        found["columns"] = next(iter(columns.values()))
    if formats:
        alike = len(formats) == len(seems) and len(set(formats.values())) == 1
        found["date_format"] = next(iter(formats.values())) if alike else formats
    return found


def _sources(source: Path) -> list[str]:
    """Return the clients that the files of a source are named after."""
    from cotempo.data.problems import Problems
    from cotempo.data.read.sources import source_name, split_source

    try:
        return [source_name(part, client) for client, part in split_source(source, Problems())]
    except CotempoError:
        return []


def _reading(kind: str, sources: list[str], given: set[str]) -> list[str]:
    """Return keys of [data] as comments, with an example each, and one by client where there are several files."""
    examples: dict[str, tuple[Any, Any]] = {
        "columns": ({"time": "Timestamp"}, {"time": "Zeit"}),
        "zone": ("Europe/Berlin", "America/Chicago"),
        "date_format": ("%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p"),
    }
    lines = (
        ["# How the tables are read; by client where they differ:"] if len(sources) > 1 else ["# How they are read:"]
    )
    for key, each in examples.items():
        if key not in given:
            lines.append(f"# {key} = {_toml(each[0])}")
            lines += [f"# {key} = {_toml(dict(zip(sources, each, strict=False)))}"] * (len(sources) > 1)
    if kind == "events":
        lines += [f"# windows = {_toml('windows.csv')}", f"# unmarked = {_toml('unknown')}"]
    if kind == "series":
        lines += [f"# resample = {_toml('1h')}", f"# missing = {_toml(['n.d.', -999])}"]
    return lines


def _toml(value: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        inner = (f"{name if _BARE.fullmatch(name) else json.dumps(name)} = {_toml(one)}" for name, one in value.items())
        return f"{{{', '.join(inner)}}}"
    return json.dumps(value)


def _below_data(text: str, lines: list[str]) -> str:
    """Return an experiment with lines below the keys of [data], before the next header."""
    first, header, rest = text.partition("[data]\n")
    keys, following, others = rest.partition("\n[")
    return f"{first}{header}{keys.rstrip()}\n" + "".join(f"{line}\n" for line in lines) + following + others


def _comments(method: type[Method]) -> str:
    """Return the method's optional parameters as comments, with their defaults."""
    lines = [f"# Parameters, as cotempo methods {method.__name__} explains them:"]
    for key, field in method.model_fields.items():
        value = None if field.is_required() else field.get_default(call_default_factory=True)
        if key != "preset" and isinstance(value, bool | int | float | str):
            lines.append(f"# {key} = {json.dumps(value)}")
        elif value == () and not field.is_required():
            lines.append(f"# {key} = []")
        elif value is None and not field.is_required():
            lines.append(f"# {key}: none by default")
    return "\n".join(lines) + "\n"


def _methods() -> dict[str, type[Method]]:
    from cotempo.federation.registry import methods

    return methods()


def list_methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, with all its parameters.")] = None,
    imports: Imports = None,
) -> Output:
    """List the methods; of one, its parameters with defaults and what leaves a client in each phase."""
    from cotempo.federation.registry import find_method, import_modules

    import_modules(imports or (), ".")
    if name is not None:
        return describe_method(find_method(name))
    known = _methods()
    width = max(map(len, known))
    lines = [f"{each:{width}}  {cls.kind:6}  {about(cls)}" for each, cls in known.items()]
    record = {each: {"kind": cls.kind, "about": about(cls)} for each, cls in known.items()}
    return Output([*lines, "", "cotempo methods NAME shows parameters, and what leaves a client."], record)


def about(method: type[Method]) -> str:
    """Return the first sentence of a method's description."""
    return inspect.cleandoc(method.__doc__ or "").partition("\n")[0]


def _home(method: type[Method]) -> str:
    """Return the shortest package that has the method."""
    parts = method.__module__.split(".")
    packages = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return next(name for name in packages if hasattr(import_module(name), method.__name__))


def describe_method(method: type[Method]) -> Output:
    """Return a method's parameters, and what leaves a client, from a dry run on its small example."""
    first = f"{method.__name__}, on {method.kind}: {about(method)}"
    lines = [first, f"In Python: from {_home(method)} import {method.__name__}", "", "Parameters:"]
    record: dict[str, Any] = {"name": method.__name__, "kind": method.kind, "parameters": {}}
    for key, field in method.model_fields.items():
        default = "required" if field.is_required() else repr(field.get_default(call_default_factory=True))
        lines.append(f"  {key} = {default}" + (f"\n      {field.description}" if field.description else ""))
        record["parameters"][key] = {"default": default, "description": field.description or ""}
    if hasattr(method, "example"):
        from cotempo.runs.dry_run import dry_run

        small, clients, public = method.example()
        shown = dry_run(small, clients, public=public, progress=False)
        lines += [
            "",
            "What leaves a client, on a small example (other sizes with other data):",
            *shown.phases(),
        ]
        record["messages"] = [message for message in shown.messages if message["client"] == min(clients)]
    return Output(lines, record)
