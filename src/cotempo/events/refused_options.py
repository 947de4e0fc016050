"""Refusal of parameters that mean nothing where they are given."""

from collections.abc import Sequence

from cotempo.errors import ParameterError
from cotempo.federation import Method


def refuse_unused(method: Method, names: Sequence[str], where: str) -> None:
    """Refuse parameters that differ from their default; a default passes, so that a saved method can be read again."""
    for name in names:
        value, default = getattr(method, name), type(method).model_fields[name].default
        if value != default:
            wanted = "left out" if default is None else repr(default)
            raise ParameterError(f"{name} must be {wanted} where {where}, got {value!r}")
