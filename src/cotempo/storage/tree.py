"""Trees of plain things to bytes and back: safetensors for arrays, JSON for the rest, never pickle.

A tree is made of arrays, torch tensors, scalars, text-keyed mappings, tuples and frozen dataclasses. States, memories,
messages and checkpoints are trees, so one small codec carries them all.
"""

import dataclasses
import hashlib
import json
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import safetensors
import safetensors.numpy

from cotempo.errors import CotempoError
from cotempo.typing import Array

FORMAT = 1
Scalar = bool | int | float | str | None
T = TypeVar("T")


class TreeError(CotempoError):
    """Bytes are not a tree, or a value has no place in one."""


def is_tensor(value: object) -> bool:
    """Tell whether `value` is a torch tensor, without importing torch for those who do not use it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def own(array: Array) -> Array:
    """Return `array` as a read-only, C-contiguous array that nobody else can write to."""
    if array.base is None and not array.flags.writeable and array.flags.c_contiguous:
        return array
    array = np.array(array, order="C")
    array.flags.writeable = False
    return array


def freeze(tree: T) -> T:
    """Own every array of a tree, so that a tree in memory and one read back from disk compute the same bits."""
    frozen: Any = tree
    if isinstance(tree, np.ndarray):
        frozen = own(tree)
    elif isinstance(tree, tuple):
        frozen = tuple(freeze(item) for item in tree)
    elif isinstance(tree, Mapping):
        frozen = {key: freeze(item) for key, item in tree.items()}
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        old = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
        new = {name: freeze(value) for name, value in old.items()}
        changed = {name: value for name, value in new.items() if value is not old[name]}
        frozen = dataclasses.replace(tree, **changed) if changed else tree
    return typing.cast(T, frozen)


def encode(tree: object) -> bytes:
    """Write a tree as a safetensors file whose metadata holds the JSON skeleton."""
    arrays: dict[str, Array] = {}
    skeleton = _skeleton(tree, arrays, "")
    # One key only: safetensors writes several in random order, and equal trees must have equal bytes.
    metadata = {"cotempo": json.dumps([FORMAT, skeleton], separators=(",", ":"))}
    return safetensors.numpy.save(arrays, metadata=metadata)


def _skeleton(tree: Any, arrays: dict[str, Array], path: str) -> Any:
    if tree is None or isinstance(tree, bool | str) or type(tree) in (int, float):
        return tree
    if isinstance(tree, np.ndarray):
        arrays[key := str(len(arrays))] = _plain(tree, path)
        return {"array": key}
    if is_tensor(tree):
        arrays[key := str(len(arrays))] = _plain(from_tensor(tree), path)
        return {"tensor": key}
    if isinstance(tree, tuple):
        return {"tuple": [_skeleton(item, arrays, f"{path}[{i}]") for i, item in enumerate(tree)]}
    if isinstance(tree, Mapping):
        if not all(isinstance(key, str) for key in tree):
            raise TreeError(f"{path or 'mapping'} must have text keys")
        return {"dict": {key: _skeleton(item, arrays, f"{path}[{key!r}]") for key, item in tree.items()}}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = {
            field.name: _skeleton(getattr(tree, field.name), arrays, f"{path}.{field.name}")
            for field in dataclasses.fields(tree)
            if field.init
        }
        return {"class": type(tree).__qualname__, "fields": fields}
    raise TreeError(
        f"{path or 'value'} must be an array, scalar, tuple, mapping or dataclass, not {type(tree).__name__}"
    )


def from_tensor(tensor: Any) -> Array:
    """Return a tensor as an array; one that numpy cannot hold (bfloat16, sparse) is a `TreeError`."""
    try:
        return np.asarray(tensor.detach().cpu().numpy())
    except (TypeError, RuntimeError) as error:
        raise TreeError(f"a tensor must be dense and of a dtype numpy has, not {tensor.dtype}: {error}") from error


def holds_numbers(array: Array) -> bool:
    """Tell whether an array has a dtype that can be written: numbers of at most 64 bits, or booleans."""
    return array.dtype.kind in "fiub" and array.dtype.itemsize <= 8


def _plain(array: Array, path: str) -> Array:
    if not holds_numbers(array):
        raise TreeError(
            f"{path or 'value'} must be an array of booleans or numbers of at most 64 bits, not of dtype {array.dtype}"
        )
    return np.ascontiguousarray(array).reshape(array.shape)


def decode(data: bytes, *types: type) -> Any:
    """Read a tree; only the given dataclasses, and those their annotations name, can come out of it.

    Examples
    --------
    >>> decode(encode({"x": np.arange(3), "name": "a"}))
    {'x': array([0, 1, 2]), 'name': 'a'}
    """
    with _reading():
        skeleton = _read_skeleton(data)
        arrays = {
            name: own(np.frombuffer(info["data"], _DTYPES[info["dtype"]]).reshape(info["shape"]))
            for name, info in safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        }
        return _build(skeleton, arrays, _classes(types))


@contextmanager
def _reading() -> Iterator[None]:
    """Whatever foreign bytes make fail, a dataclass's own checks included, is a `TreeError`."""
    try:
        yield
    except TreeError:
        raise
    except Exception as error:
        about = f"{type(error).__name__}: {error}"[:300]
        raise TreeError(f"the bytes are not a valid cotempo tree: {about}") from error


def _read_skeleton(data: bytes) -> Any:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("header is cut off")
    version, skeleton = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["cotempo"])
    if version != FORMAT:
        raise ValueError(f"format must be {FORMAT}, found {version!r}")
    return skeleton


_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def _classes(types: Iterable[Any], found: dict[str, type] | None = None) -> dict[str, type]:
    """Return the dataclasses that `types` and their annotations name."""
    found = {} if found is None else found
    for cls in types:
        _classes(typing.get_args(cls), found)
        if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__qualname__ not in found:
            found[cls.__qualname__] = cls
            _classes(typing.get_type_hints(cls).values(), found)
    return found


def _build(skeleton: Any, arrays: dict[str, Array], classes: Mapping[str, type]) -> Any:
    """Return the tree of a skeleton. An array has one place in it: repeated, a small file would fill the memory."""
    if not isinstance(skeleton, dict):
        if isinstance(skeleton, list):
            raise ValueError("a bare list has no place in a tree")
        return skeleton
    if "array" in skeleton:
        return arrays.pop(skeleton["array"])
    if "tensor" in skeleton:
        import torch

        return torch.from_numpy(arrays.pop(skeleton["tensor"]).copy())
    if "tuple" in skeleton:
        return tuple(_build(item, arrays, classes) for item in skeleton["tuple"])
    if "dict" in skeleton:
        return {key: _build(item, arrays, classes) for key, item in skeleton["dict"].items()}
    fields = {key: _build(item, arrays, classes) for key, item in skeleton["fields"].items()}
    return classes[skeleton["class"]](**fields)


def digest(tree: object) -> str:
    """SHA-256 of a tree's bytes: two trees are the same, bit for bit, when their digests are."""
    return hashlib.sha256(encode(tree)).hexdigest()


def stack(trees: Mapping[str, object]) -> tuple[object, ...]:
    """Make one tree of many: those of equal structure share a skeleton and lie in stacked arrays.

    Ten thousand clients' memories then cost one file of a few arrays, not ten thousand headers.
    """
    groups: dict[tuple[object, ...], tuple[list[str], list[list[Array]]]] = {}
    for name, tree in trees.items():
        arrays: dict[str, Array] = {}
        skeleton = json.dumps(_skeleton(tree, arrays, name))
        columns = list(arrays.values())
        likeness = (skeleton, *((array.shape, array.dtype.str) for array in columns))
        names, rows = groups.setdefault(likeness, ([], []))
        names.append(name)
        rows.append(columns)
    return tuple(
        {"names": tuple(names), "skeleton": str(likeness[0]), "columns": tuple(map(np.stack, zip(*rows, strict=True)))}
        for likeness, (names, rows) in groups.items()
    )


def unstack(stacked: tuple[Mapping[str, Any], ...], *types: type) -> dict[str, Any]:
    """Undo `stack`; rows are copied out, so that one kept tree does not keep them all."""
    trees = {}
    with _reading():
        classes = _classes(types)
        for group in stacked:
            skeleton = json.loads(group["skeleton"])
            columns = list(enumerate(group["columns"]))
            for row, name in enumerate(group["names"]):
                arrays = {str(i): own(column[row, ...]) for i, column in columns}
                trees[name] = _build(skeleton, arrays, classes)
    return dict(sorted(trees.items()))
