"""Trees to bytes and back: type for type, the same bytes everywhere, and nothing but `TreeError` for anything else."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cotempo.storage.tree import TreeError, decode, digest, encode, freeze, own, stack, unstack

DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")


@dataclass(frozen=True)
class Leaf:
    value: Any
    name: str = ""


@dataclass(frozen=True)
class Branch:
    left: Leaf
    right: Leaf | None = None


@dataclass(frozen=True)
class Stranger:
    value: int


@dataclass(frozen=True)
class Picky:
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise AssertionError("must not be negative")


LAYOUTS = {
    "C": lambda array: array,
    "Fortran": np.asfortranarray,
    "transposed": lambda array: array.T,
    "every other": lambda array: array[::2] if array.ndim else array,
    "backwards": lambda array: array[..., ::-1] if array.ndim else array,
    "broadcast": lambda array: np.broadcast_to(array, (2, *array.shape)),
}
arrays = st.builds(
    lambda array, layout: LAYOUTS[layout](array),
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    ),
    st.sampled_from(sorted(LAYOUTS)),
)
tensors = arrays.map(lambda array: torch.from_numpy(array.copy()))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
trees = st.recursive(
    scalars | arrays | tensors,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.builds(Leaf, inner, st.text(max_size=3))
        | st.builds(Branch, st.builds(Leaf, inner), st.none() | st.builds(Leaf, inner))
    ),
    max_leaves=8,
)


def assert_same(found: Any, wanted: Any) -> None:
    """Equal, type for type and bit for bit."""
    assert type(found) is type(wanted)
    if isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.tobytes() == wanted.tobytes()
    elif isinstance(wanted, torch.Tensor):
        assert found.dtype == wanted.dtype
        assert_same(found.numpy(), wanted.numpy())
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key, value in wanted.items():
            assert_same(found[key], value)
    elif isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    elif dataclasses.is_dataclass(wanted):
        assert_same(vars(found), vars(wanted))
    elif isinstance(wanted, float):
        assert found.hex() == wanted.hex() or (math.isnan(found) and math.isnan(wanted))
    else:
        assert found == wanted


@settings(max_examples=150, deadline=None)
@given(trees)
def test_round_trip_type_for_type(tree: Any) -> None:
    assert_same(decode(encode(tree), Branch), tree)


@settings(max_examples=50, deadline=None)
@given(arrays)
def test_arrays_come_out_read_only_and_contiguous(array: np.ndarray) -> None:
    found = decode(encode(array))
    assert found.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        found[...] = 0


def test_big_endian_arrays_keep_their_values() -> None:
    array = np.array([1.5, -2.0], dtype=">f8")
    assert decode(encode(array)).tolist() == [1.5, -2.0]
    assert digest(array) == digest(array.astype("<f8"))


def test_equal_trees_have_equal_bytes_in_another_process() -> None:
    code = (
        "import hashlib, sys; import numpy as np; from cotempo.storage.tree import encode;"
        "tree = {'b': np.arange(6.0).reshape(2, 3), 'a': (1, 2.5, 'x', None), 'é': {k: np.ones(2) for k in 'zyx'}};"
        "print(hashlib.sha256(encode(tree)).hexdigest())"
    )
    tree = {"b": np.arange(6.0).reshape(2, 3), "a": (1, 2.5, "x", None), "é": {key: np.ones(2) for key in "zyx"}}
    here = hashlib.sha256(encode(tree)).hexdigest()
    environment = {**os.environ, "PYTHONHASHSEED": "123"}
    there = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_another_layout_is_not_another_tree() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert digest(np.asfortranarray(array)) == digest(array)
    assert digest(array.T) != digest(array)


def test_a_tensor_is_not_an_array_to_a_digest() -> None:
    assert digest(torch.zeros(2, dtype=torch.float64)) != digest(np.zeros(2))


@pytest.mark.parametrize(
    "value",
    [
        np.array([object()]),
        np.array(["text"]),
        np.array([1j]),
        np.zeros(2, np.longdouble),
        np.datetime64("2020-01-01"),
        np.float64(1.0),
        [1, 2],
        {1: 2},
        {"deep": ({"er": b"bytes"},)},
        object(),
        Leaf,
        torch.zeros(2, dtype=torch.bfloat16),
        torch.zeros(2, dtype=torch.complex64),
        torch.zeros(2).to_sparse(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_tree_is_refused_when_written(value: object) -> None:
    with pytest.raises(TreeError):
        encode(value)


def test_the_error_says_where() -> None:
    with pytest.raises(TreeError, match=r"\['a'\]\[1\]\.value"):
        encode({"a": (1, Leaf(b"x"))})


# Reading what others wrote.

GOOD = encode({"a": np.arange(4.0), "b": (1, "text", Leaf(torch.zeros(2)))})


def read(data: bytes) -> None:
    """Reading must either give a tree or raise `TreeError`."""
    with contextlib.suppress(TreeError):
        assert_plain(decode(data, Leaf))


def assert_plain(tree: Any) -> None:
    if isinstance(tree, dict):
        assert all(isinstance(key, str) for key in tree)
        tree = tuple(tree.values())
    if type(tree) is tuple:
        for item in tree:
            assert_plain(item)
    elif type(tree) is Leaf:
        assert_plain(tree.value)
        assert_plain(tree.name)
    else:
        assert tree is None or type(tree) in (bool, int, float, str, np.ndarray, torch.Tensor)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_a_tree_or_a_tree_error(position: int, flip: int) -> None:
    data = bytearray(GOOD)
    data[position] ^= flip
    read(bytes(data))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(GOOD) - 1))
def test_truncated_bytes_are_a_tree_error(length: int) -> None:
    with pytest.raises(TreeError):
        decode(GOOD[:length], Leaf)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
@example(b"")
@example(b"\x80\x04N.")  # a pickle
@example((2**63).to_bytes(8, "little") + b"{}")
def test_garbage_is_a_tree_error(data: bytes) -> None:
    with pytest.raises(TreeError):
        decode(data)


WORDS = st.sampled_from(["array", "tensor", "tuple", "dict", "class", "fields", "0", "1", "Leaf", "Stranger", "value"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def with_skeleton(skeleton: Any, version: Any = 1) -> bytes:
    metadata = {"cotempo": json.dumps([version, skeleton])}
    return safetensors.numpy.save({"0": np.zeros(2)}, metadata=metadata)


@settings(max_examples=300, deadline=None)
@given(json_values)
@example({"dict": [1]})
@example({"class": "Leaf", "fields": [1]})
@example({"class": "Leaf", "fields": {"bogus": 1}})
@example({"class": ["Leaf"], "fields": {}})
@example({"array": {}})
def test_any_skeleton_is_a_tree_or_a_tree_error(skeleton: Any) -> None:
    read(with_skeleton(skeleton))


@pytest.mark.parametrize("metadata", [None, {"other": "1"}, {"cotempo": "no json"}, {"cotempo": "3"}])
def test_a_safetensors_file_of_somebody_else_is_a_tree_error(metadata: dict[str, str] | None) -> None:
    with pytest.raises(TreeError):
        decode(safetensors.numpy.save({"0": np.zeros(2)}, metadata=metadata))


def test_another_format_is_a_tree_error_that_says_so() -> None:
    with pytest.raises(TreeError, match="format must be 1, found 2"):
        decode(with_skeleton(None, version=2))


def test_deep_nesting_is_a_tree_error() -> None:
    skeleton = "[" * 100_000 + "]" * 100_000
    metadata = {"cotempo": f"[1,{skeleton}]"}
    with pytest.raises(TreeError):
        decode(safetensors.numpy.save({"0": np.zeros(2)}, metadata=metadata))


@pytest.mark.parametrize("shape", [[10**12], [-1], [2, -1], [3], [2**63], []])
def test_a_header_that_lies_about_an_array_is_a_tree_error(shape: list[int]) -> None:
    header = {
        "__metadata__": {"cotempo": json.dumps([1, {"array": "0"}])},
        "0": {"dtype": "F64", "shape": shape, "data_offsets": [0, 16]},
    }
    text = json.dumps(header).encode()
    with pytest.raises(TreeError):
        decode(len(text).to_bytes(8, "little") + text + bytes(16))


def test_a_dtype_that_is_not_ours_is_a_tree_error() -> None:
    header = {
        "__metadata__": {"cotempo": json.dumps([1, {"array": "0"}])},
        "0": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]},
    }
    text = json.dumps(header).encode()
    with pytest.raises(TreeError):
        decode(len(text).to_bytes(8, "little") + text + bytes(2))


def test_only_dataclasses_that_were_named_come_out() -> None:
    data = encode(Leaf(Stranger(1)))
    with pytest.raises(TreeError, match="Stranger"):
        decode(data, Leaf)
    with pytest.raises(TreeError, match="Leaf"):
        decode(encode(Leaf(1)))
    assert decode(data, Leaf, Stranger) == Leaf(Stranger(1))


def test_a_dataclass_that_refuses_its_values_is_a_tree_error() -> None:
    with pytest.raises(TreeError, match="AssertionError"):
        decode(with_skeleton({"class": "Picky", "fields": {"value": -1}}), Picky)


# Owning and freezing.


def test_own_copies_unless_nobody_else_can_write() -> None:
    array = np.arange(4.0)
    owned = own(array)
    array[0] = 9.0
    assert owned[0] == 0.0
    assert own(owned) is owned
    view = owned[1:]
    assert own(view) is not view


def test_freeze_reaches_every_array_and_leaves_the_source_alone() -> None:
    array = np.arange(6.0).reshape(2, 3).T
    tree = {"a": (array, Leaf({"x": array})), "b": 3}
    frozen = freeze(tree)
    array[0, 0] = 9.0
    for found in (frozen["a"][0], frozen["a"][1].value["x"]):  # type: ignore[index]
        assert found[0, 0] == 0.0
        assert found.flags.c_contiguous
        assert not found.flags.writeable
    assert array.flags.writeable


# Many trees in one.

memories = st.dictionaries(
    st.text(max_size=4),
    st.builds(Leaf, st.integers(0, 3).map(lambda n: np.arange(float(n))) | st.integers() | arrays),
    max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(memories)
def test_unstack_undoes_stack(memories: dict[str, Leaf]) -> None:
    stacked = decode(encode(stack(memories)))
    assert_same(unstack(stacked, Leaf), dict(sorted(memories.items())))


def test_like_trees_share_one_skeleton_and_rows_do_not_pin_the_rest() -> None:
    stacked = stack({f"client-{index}": Leaf(np.full(3, float(index))) for index in range(50)})
    assert len(stacked) == 1
    found = unstack(decode(encode(stacked)), Leaf)  # type: ignore[arg-type]
    assert found["client-7"].value.tolist() == [7.0] * 3
    assert found["client-7"].value.base is None


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(["names", "skeleton", "columns"]), json_values, max_size=3), max_size=2)
)
def test_a_broken_stack_is_a_tree_error(groups: list[Any]) -> None:
    with contextlib.suppress(TreeError):
        assert_plain(unstack(tuple(groups), Leaf))
