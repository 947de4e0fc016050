"""Methods by name, so that experiment files, saved results and the contract suite find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cotempo.errors import ParameterError, nearest
from cotempo.federation.method import Method

M = TypeVar("M", bound=type[Method])
_METHODS: dict[str, type[Method]] = {}
_ALIASES: dict[str, str] = {}


def register(*aliases: str) -> Callable[[M], M]:
    """Class decorator: make a method known under its class name, and under other names it was published by."""

    def add(cls: M) -> M:
        _METHODS[cls.__name__] = cls
        _ALIASES.update({alias.lower(): cls.__name__ for alias in (cls.__name__, *aliases)})
        return cls

    return add


def methods() -> dict[str, type[Method]]:
    """Every registered method by class name."""
    return dict(sorted(_METHODS.items()))


def find_method(name: str) -> type[Method]:
    """Return a method by its name or another name it is known by; capitals do not matter."""
    try:
        return _METHODS[_ALIASES[name.lower()]]
    except KeyError:
        raise ParameterError(
            f"there is no method {name!r}{nearest(name, _METHODS)}; known are {', '.join(methods())}. "
            "A method of your own must be imported before it is named."
        ) from None
