"""Methods by name, so that experiment files, saved results and the contract suite find them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cotempo.errors import ParameterError, nearest

if TYPE_CHECKING:  # `import cotempo` loads this module, and nothing that takes time
    from cotempo.federation.method import Method

M = TypeVar("M", bound="type[Method]")
_METHODS: dict[str, type[Method]] = {}
_ALIASES: dict[str, str] = {}
_HOMES: set[str] = set()


def register(*aliases: str) -> Callable[[M], M]:
    """Class decorator: make a method known under its class name, and under other names it was published by.

    A name belongs to one method: files and saved results would not know which of two was meant.
    """

    def add(cls: M) -> M:
        names = (cls.__name__, *aliases)
        for name in names:
            holder = _METHODS.get(_ALIASES.get(name.lower(), ""))
            if holder is not None and _place(holder) != _place(cls):
                raise ParameterError(
                    f"a method's name must be its own, {name!r} is that of {_place(holder)}; "
                    f"give {_place(cls)} another, or do not register it"
                )
        _METHODS[cls.__name__] = cls
        _ALIASES.update({name.lower(): cls.__name__ for name in names})
        return cls

    return add


def _place(cls: type) -> str:
    """Where a class is defined; a module that is loaded again defines the same."""
    return f"{cls.__module__}.{cls.__qualname__}"


def announce(*modules: str) -> None:
    """Name modules that register methods; they are imported when a method is looked for."""
    _HOMES.update(modules)


def import_modules(modules: Iterable[str], folder: str | Path) -> None:
    """Import modules that register methods of somebody's own, from what is installed or else from a folder.

    Importing runs code: name only modules that the person at this machine chose, never what a message says.
    """
    place = str(Path(folder).resolve())
    for module in modules:
        if place not in sys.path:
            sys.path.append(place)  # last, so that a file there cannot stand in for an installed package
        importlib.invalidate_caches()
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise ParameterError(f"the module {module!r} must be importable, it needs {error.name!r}") from error
            raise ParameterError(
                f"a module of your own must be installed or lie in {place}, named without .py, got {module!r}"
            ) from None
        except ParameterError:
            raise
        except Exception as error:
            raise ParameterError(
                f"the module {module!r} must be importable, {type(error).__name__}: {error}"
            ) from error


def methods() -> dict[str, type[Method]]:
    """Every registered method by class name."""
    while _HOMES:
        importlib.import_module(_HOMES.pop())
    return dict(sorted(_METHODS.items()))


def find_method(name: str) -> type[Method]:
    """Return a method by its name or another name it is known by; capitals do not matter."""
    known = methods()
    try:
        return known[_ALIASES[name.lower()]]
    except KeyError:
        raise ParameterError(
            f"there is no method {name!r}{nearest(name, known)}; known are {', '.join(known)}. "
            'A method of your own must be decorated with @register() and imported: imports = ["MODULE"] in the '
            "experiment, --import MODULE on the command line."
        ) from None
