"""Parameters that mean nothing where they are given are refused."""

from __future__ import annotations

from collections.abc import Sequence

from cotempo.errors import ParameterError
from cotempo.federation import Method


def refuse_unused(method: Method, names: Sequence[str], where: str) -> None:
    """Refuse parameters that are not what they are by default.

    A default is let through: a method must read again what it was saved with.
    """
    for name in names:
        field, preset = type(method).model_fields[name], method.presets.get(method.preset, {})
        value, default = getattr(method, name), preset.get(name, field.default)
        if value != default:
            wanted = "left out" if default is None else repr(default)
            raise ParameterError(f"{name} must be {wanted} where {where}, got {value!r}")
