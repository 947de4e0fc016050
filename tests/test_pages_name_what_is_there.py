"""The docs say which function holds which equation of a paper, and each of them is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import cotempo

DOCS = Path(__file__).parent.parent / "docs"
SOURCE = Path(cotempo.__file__).parent
PLACE = re.compile(r"`((?:events|series|social|networks|learners)/[\w/]+\.py):([\w.]+)`")


def names_in(path: Path) -> set[str]:
    """Functions, classes and methods of a module, methods as `Class.method` and by themselves."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("family", ["events", "series", "social", "networks"])
def test_every_equation_is_where_the_docs_say(family: str) -> None:
    places = PLACE.findall((DOCS / "evidence" / f"{family}.md").read_text())
    assert len(places) >= 5
    missing = [
        f"{path}:{name}"
        for path, name in places
        if not (SOURCE / path).is_file() or name not in names_in(SOURCE / path)
    ]
    assert not missing


def test_the_files_that_the_architecture_names_are_there() -> None:
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", (DOCS / "architecture.md").read_text()))
    assert {"federation/rounds.py", "runs/run.py"} <= named
    assert not [name for name in named if not ((SOURCE / name).exists() or (DOCS.parent / name).exists())]


def test_the_diagram_is_that_of_the_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    import diagram

    assert diagram.PICTURE.read_text() == diagram.draw(diagram.package_imports())
