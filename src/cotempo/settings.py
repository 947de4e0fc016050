"""`Settings`, the base of the parameters of methods, experiments, engines and sites, and `read_toml`."""

import inspect
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from cotempo.errors import ParameterError, nearest


class Settings(BaseModel):
    """Frozen parameters; a value that is wrong, or a name that is unknown, raises `ParameterError`.

    Fields' descriptions become the Parameters section of the class docstring, unless it has one already.

    Examples
    --------
    >>> class Step(Settings):
    ...     size: float = 0.1
    >>> Step(sise=1.0)
    Traceback (most recent call last):
    cotempo.errors.ParameterError: Step has no parameter 'sise' (did you mean 'size'?)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def __init__(self, *unnamed: Any, **values: Any):
        if unnamed:
            name = type(self).__name__
            first = next((field for field in type(self).model_fields if field != "preset"), "name")
            raise ParameterError(f"{name} takes parameters by name, like {name}({first}=...), got {unnamed[0]!r}")
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ParameterError(explain(error, type(self))) from None

    # Sections are then validated with their parent, whose errors name them by their path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]
    __init__.__signature__ = inspect.signature(lambda self, **values: None)  # type: ignore[attr-defined]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.__doc__ = with_parameters(cls.__doc__ or "", cls.model_fields) or None

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show what differs from its default: a method has twenty parameters, and people change one or two."""
        fields = type(self).model_fields
        return [(n, v) for n, v in super().__repr_args__() if n is None or n not in fields or v != fields[n].default]

    def __str__(self) -> str:
        return repr(self)

    @classmethod
    def read(cls, values: Mapping[str, Any], subject: str) -> Self:
        """Return settings from the content of a file; errors begin with `subject`."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise ParameterError(explain(error, cls, subject)) from None


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the content of a TOML file; raise `ParameterError` if it cannot be read."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{path} must be a readable file: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise ParameterError(f"{path} must be a TOML file: {error}") from error


def explain(error: ValidationError, model: type[BaseModel], subject: str | None = None) -> str:
    """Return a validation error in words, one line per mistake."""
    lines = []
    for item in error.errors():
        where, inner, path = subject or model.__name__, model, list(item["loc"])
        while len(path) > 1 and (section := _section(inner, path[0])):
            where, inner, path = f"{where} [{path[0]}]", section, path[1:]
        name = ".".join(str(part) for part in path)
        if item["type"] == "extra_forbidden":
            hint = nearest(name, inner.model_fields) or f"; known are {', '.join(sorted(inner.model_fields))}"
            lines.append(f"{where} has no parameter {name!r}{hint}")
        elif item["type"] == "value_error":  # from a validator of ours, in complete sentences
            lines.append(f"{where}: {item['ctx']['error']}")
        elif item["type"] == "missing":
            about = getattr(inner.model_fields.get(name), "description", None) or ""
            lines.append(f"{where} must be given {name!r}" + (f": {about[0].lower()}{about[1:]}" if about else ""))
        else:
            lines.append(f"{where}: {name}: {item['msg']}, got {item['input']!r}")
    return "\n".join(lines)


def _section(model: type[BaseModel], name: object) -> type[BaseModel] | None:
    """Return the model of a nested section, if the field holds one."""
    field = model.model_fields.get(str(name))
    kinds = (field.annotation, *typing.get_args(field.annotation)) if field else ()
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def with_parameters(docstring: str, fields: Mapping[str, FieldInfo]) -> str:
    """Return a docstring with a numpydoc Parameters section from the fields' descriptions, if it has none."""
    docstring = inspect.cleandoc(docstring)
    described = {name: field for name, field in fields.items() if field.description}
    if not described or re.search(r"^Parameters\n-+$", docstring, re.MULTILINE):
        return docstring
    entries = [f"{name} : {_annotation(field)}\n    {field.description}" for name, field in described.items()]
    section = "\n".join(["Parameters", "-" * 10, *entries])
    first = re.search(r"^\w[\w ]*\n-{3,}$", docstring, re.MULTILINE)
    head, tail = (docstring[: first.start()], docstring[first.start() :]) if first else (docstring, "")
    return "\n\n".join(part.strip() for part in (head, section, tail) if part.strip()) + "\n"


def _annotation(field: FieldInfo) -> str:
    kind = field.annotation.__name__ if isinstance(field.annotation, type) else str(field.annotation)
    kind = kind.replace("typing.", "")
    return kind if field.is_required() else f"{kind}, default {field.get_default(call_default_factory=True)!r}"
