"""The papers' protocols in the benchmarks: how data are dealt and held out, generated Conttime, parts by processes."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def load(path: str):
    """Import a file of the benchmarks under a name of its own."""
    name = "benchmark_" + path.replace("/", "_").removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def setting(monkeypatch):
    """A data set whose rows are numbered, in two pieces."""
    module = load("series/setting.py")
    rows = np.arange(400.0)[:, None] + np.array([0.0, 0.25, 0.5, 0.75])
    monkeypatch.setattr(module, "load", lambda name: (rows, (250, 150)))
    return module


def test_windows_a_step_apart_are_dealt_once_and_a_fifth_is_held_out(setting):
    dealt = setting.make_setting("numbers", clients=3, protocol="windows", held=0.2, seed=4)
    length = setting.WINDOW
    public = [values[0, 0] // 1 for _, values in dealt.public.pieces()]
    firsts = {"public": public}
    for name, owner in dealt.owners.items():
        kept = [values[0, 0] // 1 for _, values in owner.complete.pieces()]
        out = (owner.held[:, 0, 0] // 1).tolist()
        assert len(out) == round(0.2 * (len(kept) + len(out)))
        np.testing.assert_array_equal(np.diff(owner.held[:, :, 0], axis=1), 1)
        firsts[name] = kept + out
    every = sorted(first for part in firsts.values() for first in part)
    assert every == [*range(250 - length + 1), *range(250, 400 - length + 1)]
    assert abs(len(public) - len(every) / 2) <= 1


def test_blocks_that_are_held_out_are_not_learned_from(setting):
    dealt = setting.make_setting("numbers", clients=2, protocol="blocks", held=0.2, seed=1)
    for owner in dealt.owners.values():
        assert not set(owner.held[:, :, 0].ravel() // 1) & set(owner.complete.values[:, 0] // 1)
        assert owner.held.shape[1:] == (setting.WINDOW, len(owner.complete.features))
    few = setting.make_setting("numbers", clients=2, protocol="windows", held=0.2, most=50, seed=1)
    windows = sum(len(list(owner.complete.pieces())) + len(owner.held) for owner in few.owners.values())
    assert windows + len(list(few.public.pieces())) == 50


def test_conttime_is_generated_with_the_published_lengths_and_types():
    times, types, lengths = load("events/conttime.py").generate(40, seed=3)
    again = load("events/conttime.py").generate(40, seed=3)
    np.testing.assert_array_equal(times, again[0])
    assert len(times) == len(types) == lengths.sum()
    assert lengths.min() >= 20
    assert lengths.max() <= 100
    assert set(types) <= set(range(5))
    assert len(set(types)) > 2
    for sequence in np.split(times, np.cumsum(lengths)[:-1]):
        assert sequence[0] > 0
        assert (np.diff(sequence) > 0).all()


def square(number: int) -> dict[str, float]:
    if number == 2:
        raise ValueError("no")
    return {"square": float(number**2)}


def test_parts_are_written_as_they_go_and_one_that_fails_is_left_out(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("COTEMPO_COMMIT", "none")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    parts = load("parts.py")
    work = [({"number": n}, partial(square, n)) for n in range(4)]
    parts.do_parts(tmp_path, work[:1])
    with monkeypatch.context() as context:
        context.setattr(parts, "ProcessPoolExecutor", Inline)
        parts.do_parts(tmp_path, work, jobs=2)
    assert "FAILED" in capfd.readouterr().out
    assert [part["square"] for part in sorted(parts.read_parts(tmp_path), key=lambda part: part["number"])] == [0, 1, 9]


class Inline:
    """An executor that works at once: processes import the script they serve, which a test is not."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, function, *given):
        function(*given)
        return self

    def result(self) -> None: ...
