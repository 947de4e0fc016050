"""Every Python block of the README and the docs runs, in order, in an empty folder."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

import cotempo as ct
import cotempo.testing
from cotempo.federation import registry

ROOT = Path(__file__).parent.parent
DOCS = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "evidence").glob("*.md")]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS)]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages' methods are known to their own test only."""
    registry.methods()
    for name in ("_METHODS", "_ALIASES"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ct.data.write_clients(ct.make_networks(variables=4, clients=3, samples=90)[0], "plants.csv")
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in BLOCK.findall(page.read_text()):
        exec(compile(block, page.name, "exec"), vars(module))


def test_worked_example_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The method of CONTRIBUTING, put in a file of its own as the page says, passes every check."""
    first = BLOCK.findall((ROOT / "CONTRIBUTING.md").read_text())[0]
    (tmp_path / "ranges.py").write_text(first)
    monkeypatch.syspath_prepend(tmp_path)
    import ranges

    clients, _ = ct.make_networks(variables=3, clients=3, samples=60, seed=1)
    ct.testing.check_method(ranges.FedRange(), clients)


def test_relative_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
