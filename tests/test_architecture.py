"""Who may import whom."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cotempo

ROOT = Path(cotempo.__file__).parent
FAMILIES = {"events", "series", "social", "networks"}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


def imports(path: Path, module: str, *, top_only: bool) -> Iterator[str]:
    """Full names of what a module imports; `top_only` leaves out functions' bodies and type checking."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if top_only and (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _checks_types(node)):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = ["cotempo", *(package.split(".") if package else [])]
                base = base[: len(base) - node.level + 1]
                source = ".".join([*base, *([node.module] if node.module else [])])
            else:
                source = node.module or ""
            yield source
            yield from (f"{source}.{alias.name}" for alias in node.names)
        pending += ast.iter_child_nodes(node)


def _checks_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def parts(module: str, *, top_only: bool) -> set[str]:
    """The top-level parts of cotempo that a module imports."""
    found = set()
    for name in imports(MODULES[module], module, top_only=top_only):
        if name.startswith("cotempo."):
            found.add(name.split(".")[1])
        elif name == "cotempo":
            found.add("")
    return found & ({module.split(".")[0] for module in MODULES} | {""})


def under(*names: str) -> list[str]:
    return [module for module in MODULES if module.split(".")[0] in names]


def test_the_reader_of_imports_sees_them() -> None:
    assert {"data", "federation"} <= parts("networks.fdbnl", top_only=True)
    assert "report" in parts("federation.fitted", top_only=False)
    assert "report" not in parts("federation.fitted", top_only=True)


@pytest.mark.parametrize("module", under(*FAMILIES))
def test_a_family_imports_no_other_family_and_nothing_above_it(module: str) -> None:
    own = module.split(".")[0]
    forbidden = (FAMILIES - {own}) | {"engines", "cli", "experiment", "fitting", "report"}
    assert not parts(module, top_only=False) & forbidden


@pytest.mark.parametrize("module", under("federation", "reducers", "shields"))
def test_the_core_knows_no_family_engine_or_surface(module: str) -> None:
    """Inside functions, `Method.fit` and `Fitted.report` may reach for the surface; nothing reaches for a family."""
    assert not parts(module, top_only=True) & (FAMILIES | {"engines", "cli", "report", "experiment", "fitting", ""})
    assert not parts(module, top_only=False) & (FAMILIES | {"engines", "cli"})


@pytest.mark.parametrize("module", under("engines"))
def test_engines_know_the_federation_only(module: str) -> None:
    assert parts(module, top_only=False) <= {
        "engines",
        "federation",
        "data",
        "devices",
        "errors",
        "settings",
        "storage",
        "threads",
    }


@pytest.mark.parametrize("module", under("data"))
def test_data_know_nothing_but_data(module: str) -> None:
    assert parts(module, top_only=False) <= {"data", "errors"}


def test_errors_and_threads_know_nobody() -> None:
    for module in ("errors", "threads"):
        assert not parts(module, top_only=False)


def test_only_the_flower_engine_imports_flower() -> None:
    for module, path in MODULES.items():
        if not module.startswith("engines.flower"):
            names = {name.split(".")[0] for name in imports(path, module, top_only=False)}
            assert not names & {"flwr", "ray"}, module


def test_nothing_pickles_but_the_bench_and_the_checks() -> None:
    for module, path in MODULES.items():
        names = {name.split(".")[0] for name in imports(path, module, top_only=False)}
        if names & {"pickle", "marshal", "shelve", "joblib", "dill"}:
            assert module == "engines.hosted" or module.startswith("testing."), module
        assert "torch.load" not in path.read_text(), module


def test_importing_cotempo_is_light() -> None:
    code = "import json, sys, cotempo; cotempo.fit; print(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(ended.stdout))
    assert "cotempo.runs.run" in loaded
    heavy = {"torch", "scipy", "sklearn", "matplotlib", "flwr", "ray", "typer", "hypothesis", "pytest"}
    assert not loaded & heavy


def test_every_public_name_leads_somewhere() -> None:
    for name in cotempo.__all__:
        assert getattr(cotempo, name) is not None
    assert sorted(cotempo.__all__) == sorted(cotempo._HOME)
    with pytest.raises(AttributeError, match="FDBN"):
        _ = cotempo.FDBN
