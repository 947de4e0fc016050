"""Experiment files: one TOML file says what is run on what. Unknown keys are errors, with the nearest right one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cotempo import data
from cotempo.data import READERS
from cotempo.engines import OPTIONS, need_own_options
from cotempo.errors import CotempoError, ParameterError, nearest
from cotempo.federation.method import Method
from cotempo.federation.participation import Participation
from cotempo.federation.registry import find_method


def generators() -> dict[str, Callable[..., tuple[Any, Any]]]:
    """Every generator of data with a known truth, by the name experiment files use."""
    from cotempo.networks import make_lorenz96, make_networks

    return {"networks": make_networks, "lorenz96": make_lorenz96, **data.GENERATORS}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DataSettings(_Section):
    """Where the clients' tables come from: files (`source`), or a generator (`generate`)."""

    source: str | None = None
    kind: str | None = None
    generate: str | None = None
    options: dict[str, Any] = {}

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str | None) -> str | None:
        if kind is not None and kind not in READERS:
            raise ValueError(f"[data]: kind: must be one of {', '.join(READERS)}, got {kind!r}{nearest(kind, READERS)}")
        return kind


class EngineSettings(_Section):
    """Where clients run; an option that the engine does not have is refused."""

    name: str = "inprocess"
    workers: int = Field(0, ge=0)
    batched: bool | None = None
    deadline: float | None = Field(None, gt=0, allow_inf_nan=False)
    threads: int = Field(1, ge=1)
    server: str | None = None
    participants: tuple[str, ...] = ()
    share_result: bool = False

    @model_validator(mode="after")
    def _own_options(self) -> EngineSettings:
        need_own_options(self.name, self.model_dump())
        return self


class CohortSettings(_Section):
    """How many clients take part in a round, and for how many rounds the cohort stays fixed."""

    size: int = Field(ge=1)
    period: int = Field(1, ge=1)


class Experiment(_Section):
    """What is run on what."""

    name: str = Field("run", pattern=r"^[\w][\w .-]*$", max_length=100)
    seed: int = Field(0, ge=0)
    method: str
    rounds: int | None = Field(None, ge=1)
    cohort: CohortSettings | None = None
    quorum: float = Field(0.5, ge=0, le=1, allow_inf_nan=False)
    data: DataSettings | None = None
    engine: EngineSettings = EngineSettings()
    parameters: dict[str, Any] = {}

    def __init__(self, **values: Any):
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ParameterError(_explain(error, values.get("method"))) from None

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Experiment:
        """Read the content of an experiment file; the method's own table bears the method's name."""
        content = dict(content)
        if not isinstance(content.get("method"), str):
            raise ParameterError('an experiment must name its method, like method = "FDBNL"')
        method = find_method(content["method"])
        own = [key for key in content if key.lower() in (method.__name__.lower(), content["method"].lower())]
        if "parameters" in content or len(own) > 1:
            raise ParameterError(f"the method's parameters must stand in one table, [{method.__name__}], and no other")
        for key in own:
            content["parameters"] = content.pop(key)
            if not isinstance(content["parameters"], dict):
                raise ParameterError(f"[{key}] must be a table of parameters, was given {content['parameters']!r}")
            if "rounds" in content and "rounds" in content["parameters"]:
                raise ParameterError(f"rounds must be given once, at the top or in [{key}]; leave one of them out")
        if isinstance(content.get("cohort"), int):
            content["cohort"] = {"size": content["cohort"]}
        return cls(**{**content, "method": method.__name__})

    @classmethod
    def from_file(cls, path: str | Path, **engine: Any) -> Experiment:
        """Read an experiment file; a relative data source or server is looked for beside it.

        `engine` and `server` stand in the place of the file's own.
        """
        path = Path(path)
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ParameterError(f"{path} must be a readable file: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ParameterError(f"{path} must be a TOML file: {error}") from error
        source = content.get("data", {}).get("source") if isinstance(content.get("data"), dict) else None
        if isinstance(source, str):
            content["data"]["source"] = str((path.parent / source).resolve())
        settings = content.get("engine", {})
        if isinstance(settings, dict):
            if isinstance(settings.get("server"), str):
                settings["server"] = str((path.parent / settings["server"]).resolve())
            content["engine"] = _redirect(settings, **engine)
        experiment = cls.from_dict(content)
        if experiment.data is None and not experiment.is_remote:
            raise ParameterError(f"{path} must have a [data] table that says where the clients are")
        return experiment

    def to_dict(self) -> dict[str, Any]:
        """The content of an experiment file."""
        content = self.model_dump(mode="json", exclude={"parameters", "rounds"})
        return {**content, self.method: self._parameters}

    @property
    def _parameters(self) -> dict[str, Any]:
        return self.parameters if self.rounds is None else {**self.parameters, "rounds": self.rounds}

    @property
    def is_remote(self) -> bool:
        """Whether the clients' tables are at their own places, and none is read here."""
        return self.engine.name == "flower"

    def on(self, *, engine: str | None = None, server: str | Path | None = None) -> Experiment:
        """Return the same experiment on another engine; what is `None` stays as it is."""
        settings = _redirect(self.engine.model_dump(), engine=engine, server=server)
        return Experiment(**{**self.model_dump(), "engine": settings})

    @property
    def participation(self) -> Participation:
        """Who takes part in a round."""
        return Participation(self.cohort.size, self.cohort.period) if self.cohort else Participation()

    def make_method(self) -> Method:
        """The method with its hyperparameters."""
        return find_method(self.method)(**self._parameters)


def load_clients(experiment: Experiment) -> tuple[Any, Any]:
    """Read or generate an experiment's clients; the truth is `None` where it is not known."""
    where = experiment.data
    if experiment.is_remote:
        return {}, None
    if where is None:
        raise ParameterError(
            "the run was begun on tables in memory; give them again: cotempo.resume(run, clients) from Python"
        )
    if (where.source is None) == (where.generate is None):
        raise ParameterError("[data] must have either source (a file or folder) or generate (a generator's name)")
    if where.generate is not None:
        known = generators()
        if where.generate not in known:
            raise ParameterError(
                f"[data] generate must be one of {', '.join(known)}, was given {where.generate!r}"
                f"{nearest(where.generate, known)}"
            )
        clients, truth = _call(known[where.generate], where.options)
        return clients, truth
    kind = where.kind or find_method(experiment.method).kind
    return _call(READERS[kind], where.options, where.source), None


def load_truth(experiment: Experiment) -> Any:
    """The truth behind generated data; `None` where the data are somebody's own, which need not be read again."""
    known = experiment.data and experiment.data.generate and not experiment.is_remote
    return load_clients(experiment)[1] if known else None


def _redirect(
    settings: Mapping[str, Any], *, engine: str | None = None, server: str | Path | None = None
) -> dict[str, Any]:
    """Return an `[engine]` table for another engine, without what only the engine it names has."""
    settings, named = dict(settings), settings.get("name")
    if engine is not None:
        if named is not None and named != engine:
            settings = {key: value for key, value in settings.items() if engine in OPTIONS.get(key, (engine,))}
        settings["name"] = engine
    if server is not None:
        settings["server"] = str(Path(server).resolve())
    return settings


def _call(function: Callable[..., Any], options: Mapping[str, Any], *args: Any) -> Any:
    try:
        return function(*args, **options)
    except CotempoError:
        raise
    except (TypeError, ValueError) as error:
        raise ParameterError(f"[data.options]: {error}; mend or leave out that option") from error


_SECTIONS: dict[str, type[BaseModel]] = {"engine": EngineSettings, "data": DataSettings, "cohort": CohortSettings}


def _explain(error: ValidationError, method: object) -> str:
    lines = []
    for item in error.errors():
        if item["type"] == "value_error":
            lines.append(str(item["ctx"]["error"]))
            continue
        *path, last = [str(part) for part in item["loc"]]
        where = f"[{'.'.join(path)}]" if path else "the experiment"
        if item["type"] == "extra_forbidden":
            known = {*(_SECTIONS[path[0]] if path else Experiment).model_fields} - {"parameters"}
            hint = nearest(last, [*known, str(method)] if not path else known)
            lines.append(f"{where} has no key {last!r}{hint}; known are {', '.join(sorted(known))}")
        else:
            lines.append(f"{where}: {last}: {item['msg']}, was given {item['input']!r}")
    return "\n".join(lines)
