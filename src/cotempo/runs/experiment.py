"""Experiment files: one TOML file says what is run on what. Unknown keys are errors, with the nearest right one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, SerializeAsAny, field_validator

from cotempo import data
from cotempo.attacks.attack import Attack
from cotempo.data import READERS
from cotempo.data.argument_checks import check_choice
from cotempo.data.problems import Problems
from cotempo.data.read.sources import column_names, split_source
from cotempo.engines.settings import EngineSettings, InProcessSettings, engine_settings, engine_type
from cotempo.errors import CotempoError, ParameterError, nearest
from cotempo.federation.method import Method
from cotempo.federation.registry import find_method, import_modules
from cotempo.federation.rounds import Buffer, Participation
from cotempo.privacy.settings import Privacy
from cotempo.robust.reducer import Robust
from cotempo.settings import Settings, read_toml


def generators() -> dict[str, Callable[..., tuple[Any, Any]]]:
    """Every generator of data with a known truth, by the name experiment files use."""
    from cotempo.networks import make_lorenz96, make_networks

    return {"networks": make_networks, "lorenz96": make_lorenz96, **data.GENERATORS}


PUBLIC, BY_CLIENT = "public", ("columns", "zone", "date_format")


class DataSettings(Settings):
    """Where the clients' tables come from: files (`source`), or a generator (`generate`)."""

    paths: ClassVar[tuple[str, ...]] = ("source", "public", "windows")
    reading: ClassVar[tuple[str, ...]] = (
        "unit", "zone", "date_format", "columns", "windows", "missing", "without", "decimal", "resample", "labels",
        "ambiguous", "unmarked", "replace_signs",
    )  # fmt: skip

    source: str | tuple[str, ...] | None = Field(
        default=None, description="A file with a column `client`, several files, or a folder with one per client."
    )
    public: str | None = Field(
        default=None, description="The file of a table the server may see; of generated data, one of the clients."
    )
    kind: str | None = Field(default=None, description="events, series or posts; by default what the method needs.")
    unit: str | None = Field(default=None, description="What dates are counted in: s, h or D.")
    zone: str | dict[str, str] | None = Field(
        default=None, description="The time zone of dates that come without one; or that by client."
    )
    date_format: str | tuple[str, ...] | dict[str, str | tuple[str, ...]] | None = Field(
        default=None,
        description="How dates are written, where not as in ISO 8601; several where files differ, or that by client.",
    )
    windows: str | None = Field(default=None, description="Of events: a file with the window of each sequence.")
    columns: dict[str, str | dict[str, str]] | None = Field(
        default=None,
        description="What columns are called in the files, by the name that cotempo knows them by; or that by client "
        "(and `public`).",
    )
    missing: tuple[str | float, ...] | None = Field(
        default=None, description="Of series: further signs for a missing value, such as n.d. or -999."
    )
    decimal: str | None = Field(
        default=None, description="Of series: the sign before decimals, where it cannot be guessed."
    )
    without: tuple[str, ...] | None = Field(default=None, description="Of series: columns to leave out.")
    resample: str | float | dict[str, str | float] | None = Field(
        default=None, description="Of series: take means over so long first, such as 1h; or that by client."
    )
    replace_signs: dict[str, float] | None = Field(
        default=None, description='Of series: numbers that texts stand for, such as { "<0,1" = 0.05 }.'
    )
    labels: dict[str, str] | None = Field(
        default=None, description="Of posts: what events are called instead of other spellings."
    )
    ambiguous: str | None = Field(
        default=None, description="Which hour dates mean where clocks repeat one: first or second; else refused."
    )
    unmarked: str | None = Field(
        default=None, description="Of events: the type of those whose mark is missing; else refused."
    )
    generate: str | None = Field(default=None, description="A generator's name, in place of `source`.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the generator or the reader.")

    def read_tables(self, path: Any, kind: str) -> Any:
        """Read the tables of a file or folder with what is said about columns and times."""
        said = {name: value for name in self.reading if (value := getattr(self, name)) is not None}
        return _call(READERS[kind], {**said, **self.options}, path)

    def of_clients(self) -> DataSettings:
        """Return the same settings, without what is said of the public table."""
        clients = {
            option: {name: one for name, one in given.items() if name != PUBLIC}
            for option in BY_CLIENT
            if self.public is not None and isinstance(given := getattr(self, option), dict)
        }
        return self.model_copy(update=clients)

    def of_public(self) -> DataSettings:
        """Return the settings of the public table: what is said by client holds for it under the name `public`."""
        own: dict[str, Any] = {"windows": None}
        for option in BY_CLIENT:
            given = getattr(self, option)
            is_one = option == "columns" and not any(isinstance(each, dict) for each in (given or {}).values())
            if isinstance(given, dict) and not is_one:
                own[option] = given.get(PUBLIC)
        return self.model_copy(update=own).for_source(self.public)

    def for_source(self, source: Any) -> DataSettings:
        """Return the settings for another source, which need not have the columns that are left out."""
        there = {name for _, part in split_source(source, Problems()) for name in column_names(part)}
        return self.model_copy(update={"without": tuple(name for name in self.without or () if name in there) or None})

    def without_column(self, name: str) -> DataSettings:
        """Return the same settings, without what a column is called."""

        def without(columns: Any) -> Any:
            return (
                {key: without(columns[key]) for key in columns if key != name} if isinstance(columns, dict) else columns
            )

        return self.model_copy(update={"columns": without(self.columns)})

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str | None) -> str | None:
        if kind is not None and kind not in READERS:
            raise ValueError(f"[data]: kind: must be one of {', '.join(READERS)}, got {kind!r}{nearest(kind, READERS)}")
        return kind


class Experiment(Settings):
    """What is run on what."""

    name: str = Field(default="run", pattern=r"^[\w][\w .-]*$", max_length=100)
    seed: int = Field(default=0, ge=0)
    method: str
    imports: tuple[str, ...] = Field(default=(), description="Modules of your own that register methods.")
    rounds: int | None = Field(default=None, ge=1)
    cohort: Participation = Participation()
    quorum: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False)
    buffer: Buffer | None = None
    data: DataSettings | None = None
    privacy: Privacy = Privacy()
    robust: Robust | None = None
    attack: Attack | None = None
    engine: SerializeAsAny[EngineSettings] = InProcessSettings()
    parameters: dict[str, Any] = Field(default_factory=dict)

    @field_validator("engine", mode="before")
    @classmethod
    def _engine_by_name(cls, given: Any) -> Any:
        return engine_settings(**given) if isinstance(given, Mapping) else given

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], folder: str | Path = ".") -> Experiment:
        """Read the content of an experiment file; the method's own table bears the method's name.

        Modules with methods of one's own that are not installed lie in `folder`, by default where the person works: a
        run's folder that came from others must not say what code is run.
        """
        content = dict(content)
        if not isinstance(content.get("method"), str):
            raise ParameterError('an experiment must name its method, like method = "FDBNL"')
        imports = content.get("imports", ())
        if not (isinstance(imports, list | tuple) and all(isinstance(module, str) for module in imports)):
            raise ParameterError(f'imports must be a list of modules, like imports = ["mine"], got {imports!r}')
        import_modules(imports, folder)
        method = find_method(content["method"])
        own = [key for key in content if key.lower() in (method.__name__.lower(), content["method"].lower())]
        if "parameters" in content or len(own) > 1:
            raise ParameterError(f"the method's parameters must stand in one table, [{method.__name__}], and no other")
        for key in own:
            content["parameters"] = content.pop(key)
            if not isinstance(content["parameters"], dict):
                raise ParameterError(f"[{key}] must be a table of parameters, got {content['parameters']!r}")
            if "rounds" in content and "rounds" in content["parameters"]:
                raise ParameterError(f"rounds must be given once, at the top or in [{key}]; leave one of them out")
        if isinstance(content.get("cohort"), int):
            content["cohort"] = {"size": content["cohort"]}
        for key in {*content} - {*cls.model_fields}:
            if method.__name__ in (hint := nearest(key, [*cls.model_fields, method.__name__])):
                raise ParameterError(f"the experiment has no table [{key}]{hint}")
        return cls.read({**content, "method": method.__name__}, "the experiment")

    @classmethod
    def from_file(cls, path: str | Path, **engine: Any) -> Experiment:
        """Read an experiment file; relative paths of data and of a server start at its folder.

        `engine` and `server` stand in the place of the file's own.
        """
        path, content = Path(path), read_toml(path)
        if isinstance(content.get("data"), dict):
            content["data"] = beside(path.parent, content["data"])
        settings = content.get("engine", {})
        if isinstance(settings, dict):
            if isinstance(settings.get("server"), str):
                settings["server"] = str((path.parent / settings["server"]).resolve())
            content["engine"] = _redirect(settings, **engine)
        experiment = cls.from_dict(content, path.parent)
        if experiment.data is None and not experiment.engine.is_remote:
            raise ParameterError(f"{path} must have a [data] table that says where the clients are")
        return experiment

    def to_dict(self) -> dict[str, Any]:
        """The content of an experiment file."""
        content = self.model_dump(mode="json", exclude={"parameters", "rounds"})
        return {**content, self.method: self._parameters}

    @property
    def _parameters(self) -> dict[str, Any]:
        return self.parameters if self.rounds is None else {**self.parameters, "rounds": self.rounds}

    def on(self, *, engine: str | None = None, server: str | Path | None = None) -> Experiment:
        """Return the same experiment on another engine; what is `None` stays as it is."""
        settings = _redirect(self.engine.model_dump(), engine=engine, server=server)
        return Experiment(**{**self.model_dump(), "engine": settings})

    def make_method(self) -> Method:
        """The method with its hyperparameters."""
        return find_method(self.method)(**self._parameters)


def load_clients(experiment: Experiment) -> tuple[Any, Any]:
    """Read or generate an experiment's clients; the truth is `None` where it is not known."""
    where = experiment.data
    if where and where.public is not None and where.generate is None and not find_method(experiment.method).uses_public:
        raise ParameterError(f"[data] public must be left out: {experiment.method} uses no public table")
    if experiment.engine.is_remote:
        return {}, None
    if where is None:
        raise ParameterError(
            "the run was started on tables in memory; give them again: cotempo.resume(run, clients) from Python"
        )
    if (where.source is None) == (where.generate is None):
        raise ParameterError("[data] must have either source (a file or folder) or generate (a generator's name)")
    if where.generate is not None:
        known = generators()
        check_choice("[data] generate", where.generate, known)
        clients, truth = _call(known[where.generate], where.options)
        return {name: table for name, table in clients.items() if name != where.public}, truth
    source = list(where.source) if isinstance(where.source, tuple) else where.source
    return where.of_clients().read_tables(source, where.kind or find_method(experiment.method).kind), None


def load_public(experiment: Experiment) -> Any:
    """Read the table the server may see; `None` where the experiment names none."""
    where = experiment.data
    if where is None or where.public is None:
        return None
    if where.generate is not None:
        clients, _ = _call(generators()[where.generate], where.options)
        check_choice("[data] public", where.public, clients)
        return clients[where.public]
    problems, tables = Problems(), dict[str, Any]()
    with problems.collect(prefix="public table: "):
        tables = where.of_public().read_tables(where.public, find_method(experiment.method).kind)
    problems.raise_any()
    if len(tables) != 1:
        raise ParameterError(f"[data] public must be one table, {where.public} holds {len(tables)} clients")
    return next(iter(tables.values()))


def load_truth(experiment: Experiment) -> Any:
    """The truth behind generated data; `None` where the data are somebody's own, which need not be read again."""
    known = experiment.data and experiment.data.generate and not experiment.engine.is_remote
    return load_clients(experiment)[1] if known else None


def _redirect(
    settings: Mapping[str, Any], *, engine: str | None = None, server: str | Path | None = None
) -> dict[str, Any]:
    """Return an `[engine]` table for another engine, without the options only the engine it names has."""
    settings, named = dict(settings), settings.get("name")
    if engine is not None:
        if named is not None and named != engine:
            settings = {key: value for key, value in settings.items() if key in engine_type(engine).model_fields}
        settings["name"] = engine
    if server is not None:
        settings["server"] = str(Path(server).resolve())
    return settings


def beside(folder: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ``[data]`` table whose paths do not depend on the working directory."""
    found = dict(data)
    for name in DataSettings.paths if "generate" not in data else ():
        given = found.get(name)
        if isinstance(given, str):
            found[name] = str((folder / given).resolve())
        elif isinstance(given, list):
            found[name] = [str((folder / one).resolve()) if isinstance(one, str) else one for one in given]
    return found


def _call(function: Callable[..., Any], options: Mapping[str, Any], *args: Any) -> Any:
    return call_with(function, options, *args, where="[data] and [data.options]")


def call_with(function: Callable[..., Any], options: Mapping[str, Any], *args: Any, where: str) -> Any:
    """Call a reader or generator; raise `ParameterError` for options it has not, or of another type than it says."""
    known = inspect.signature(function, eval_str=True).parameters
    names = list(known)[len(args) :]
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
    for name, value in options.items() if not takes_any else ():
        if name not in names:
            raise ParameterError(
                f"{where}: {function.__name__} has no option {name!r}{nearest(name, names)}; it has {', '.join(names)}"
            )
        wanted = known[name].annotation
        if wanted in (int, float) and (isinstance(value, bool) or not isinstance(value, int | wanted)):
            kind = "a whole number" if wanted is int else "a number"
            raise ParameterError(f"{where}: {name} must be {kind}, got {value!r}")
    try:
        return function(*args, **options)
    except CotempoError:
        raise
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{where}: {error}; fix or remove that option") from error
