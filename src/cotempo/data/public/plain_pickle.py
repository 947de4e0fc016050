"""`load_plain`: read a pickle that holds nothing but containers, numbers, texts and numpy arrays.

A pickle is a program: loading one runs what it says. Archives of event sequences are published as pickles all the
same. Here a pickle reaches no function of numpy or of anything else: the few names that rebuild arrays stand for
classes of our own, which keep what they are given and are made arrays once all of it has been checked.
"""

import math
import pickle
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cotempo.errors import DataError

KINDS = "biufSU"  # bool, integers, floats, texts


def load_plain(path: str | Path) -> Any:
    """Return what a pickle holds; raise `DataError` where it is no pickle or holds more than plain data."""
    with open(path, "rb") as file:
        try:
            return _made(_PlainUnpickler(file, encoding="latin1").load())
        except DataError as error:
            raise DataError(f"{path} {error}") from None
        except Exception as error:  # a broken pickle may raise anything
            raise DataError(f"{path} must be a pickle of plain data, got {type(error).__name__}: {error}") from error


class _Dtype:
    """A numpy type by its name; its state tells the order of its bytes."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name, self.order = name, "="

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def make(self) -> np.dtype[Any]:
        name = self.name if isinstance(self.name, str) else "V"
        if name.startswith("O"):
            return np.dtype(object)
        found = np.dtype(name)
        if found.kind not in KINDS or self.order not in "<>=|":
            _refuse(f"an array of type {name!r}")
        return found.newbyteorder(">") if self.order == ">" else found


class _Array:
    """An array to be: shape, type, whether columns come first, and its bytes, or a list where it holds objects."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def make(self) -> Any:
        _, shape, kind, by_columns, content = self.state
        dtype = kind.make()
        if dtype.hasobject:
            values = np.empty(len(content), dtype=object)
            values[:] = [_made(value) for value in content]
        else:
            content = _made(content)
            values = np.frombuffer(content.encode("latin1") if isinstance(content, str) else content, dtype)
        if math.prod(shape) != len(values):
            _refuse(f"an array of shape {shape} with {len(values)} values")
        return values.reshape(shape, order="F" if by_columns else "C").copy()


class _Scalar:
    """A single number of a numpy type."""

    def __init__(self, kind: Any, content: Any) -> None:
        self.array = _Array()
        self.array.state = (1, (1,), kind, False, content)

    def make(self) -> Any:
        return self.array.make()[0].item()


class _Buffer(_Array):
    """An array as newer pickles have it: bytes, type, shape and order in one call."""

    def __init__(self, content: Any, kind: Any, shape: Any, order: Any) -> None:
        self.state = (1, shape, kind, order == "F", content)


class _Bytes:
    """Bytes that older pickles hold as text."""

    def __init__(self, text: str, _: str) -> None:
        self.text = text

    def make(self) -> bytes:
        return self.text.encode("latin1")


NAMES = {
    ("numpy", "ndarray"): None,  # only named, as an argument of _reconstruct
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Bytes,
    ("collections", "OrderedDict"): dict,
    ("builtins", "set"): set,
    ("__builtin__", "set"): set,
    **{(f"numpy.{core}.numeric", "_frombuffer"): _Buffer for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _Scalar for core in ("core", "_core")},
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in NAMES:
            _refuse(f"{module}.{name}")
        found = NAMES[module, name]
        return (
            found if found in (None, dict, set) else type(name, (found,), {})
        )  # its own, so that nothing of ours changes

    def persistent_load(self, pid: Any) -> NoReturn:
        _refuse("an object kept elsewhere")


def _made(value: Any) -> Any:
    """Return the value with arrays in the place of what stands for them."""
    if isinstance(value, _Dtype | _Array | _Scalar | _Bytes):
        if isinstance(value, _Dtype):
            _refuse("a type without an array")
        return value.make()
    if isinstance(value, dict):
        return {_made(key): _made(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_made(one) for one in value)
    if value is None or isinstance(value, bool | int | float | str | bytes | bytearray):
        return value
    _refuse(f"a {type(value).__name__}")


def _refuse(what: str) -> NoReturn:
    raise DataError(f"must hold containers, numbers, texts and numpy arrays only, got {what}")
