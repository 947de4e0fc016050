"""Who may import whom, how large things may be, and how far it is from `fit` to the first question."""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

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
    forbidden = (FAMILIES - {own}) | {"engines", "cli", "runs", "report", "pages"}
    assert not parts(module, top_only=False) & forbidden


@pytest.mark.parametrize("module", under("federation", "storage", "settings", "typing"))
def test_the_core_knows_no_family_engine_or_surface(module: str) -> None:
    """Inside functions, `Method.fit` and `Fitted.report` may reach for the surface; nothing reaches for a family."""
    assert not parts(module, top_only=True) & (FAMILIES | {"engines", "cli", "report", "pages", "runs", ""})
    assert not parts(module, top_only=False) & (FAMILIES | {"cli", "pages"})


@pytest.mark.parametrize("module", under("engines"))
def test_engines_know_the_federation_only(module: str) -> None:
    below = {"alerts", "federation", "data", "devices", "errors", "privacy", "settings", "storage", "threads", "typing"}
    assert parts(module, top_only=False) <= {"engines", *below}


@pytest.mark.parametrize("module", under("data"))
def test_data_know_nothing_but_data(module: str) -> None:
    assert parts(module, top_only=False) <= {"data", "errors", "typing"}


def test_errors_threads_and_typing_know_nobody() -> None:
    for module in ("errors", "threads", "typing"):
        assert not parts(module, top_only=False)


def test_only_the_flower_engine_imports_flower() -> None:
    for module, path in MODULES.items():
        if not module.startswith("engines.flower"):
            names = {name.split(".")[0] for name in imports(path, module, top_only=False)}
            assert not names & {"flwr", "ray"}, module


def test_only_pages_import_starlette_and_only_the_command_line_imports_pages() -> None:
    for module, path in MODULES.items():
        names = {name.split(".")[0] for name in imports(path, module, top_only=False)}
        assert module.startswith("pages") or "starlette" not in names, module
        assert module.startswith(("pages", "cli")) or "pages" not in parts(module, top_only=False), module


def test_nothing_pickles_but_hosted_clients_the_checks_and_the_reader_that_admits_plain_data_only() -> None:
    for module, path in MODULES.items():
        names = {name.split(".")[0] for name in imports(path, module, top_only=False)}
        if names & {"pickle", "marshal", "shelve", "joblib", "dill"}:
            known = module in ("engines.local", "data.public.plain_pickle")
            assert known or module.startswith("testing."), module
        assert "torch.load" not in path.read_text(), module


# Public functions whose options are named one by one, so that editors complete them.
LONG = {"fit", "make_networks", "predict", "read_events", "read_series"}


def definitions(kind: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for module, path in MODULES.items():
        yield from ((module, node) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kind))


def test_no_folder_holds_more_than_15_modules() -> None:
    modules = Counter(path.parent for path in MODULES.values() if path.name != "__init__.py")
    assert {str(folder.relative_to(ROOT)) for folder, count in modules.items() if count > 15} == set()


def test_no_class_name_is_used_twice() -> None:
    names = Counter(node.name for _, node in definitions(ast.ClassDef) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == set()


def test_a_preset_is_a_set_of_values_and_nothing_else() -> None:
    assert {module for module, path in MODULES.items() if "preset ==" in path.read_text()} == set()


def test_no_function_has_more_than_8_parameters() -> None:
    """Constructors aside: their parameters are what a class is made of."""
    long = set()
    for _, node in definitions(ast.FunctionDef):
        assert isinstance(node, ast.FunctionDef)
        names = [item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if len({*names} - {"self", "cls"}) > 8 and node.name != "__init__":
            long.add(node.name)
    assert long == LONG


def test_packages_import_each_other_one_way_only() -> None:
    """Imports at the top of modules; `cotempo` itself loads names when they are first used."""
    packages = {module.split(".")[0] for module in MODULES} - {""}
    imported = {package: set[str]() for package in packages}
    for module in MODULES:
        if module.split(".")[0] in packages:
            imported[module.split(".")[0]] |= parts(module, top_only=True) - {module.split(".")[0], ""}
    while leaves := {package for package, needs in imported.items() if not needs & imported.keys()}:
        imported = {package: needs for package, needs in imported.items() if package not in leaves}
    assert not imported, f"a cycle among {sorted(imported)}"


def walk_to_first_question(method: cotempo.federation.Method, clients: dict[str, Any]) -> list[CodeType]:
    """Return every function of cotempo that `fit` enters, in order, up to the making of the first questions."""
    walk: list[CodeType] = []
    entered: list[FrameType] = []  # a generator that goes on is not entered again

    def follow(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if walk and walk[-1].co_name == "make_questions":
            return
        if event == "call" and code.co_filename.startswith(str(ROOT)) and not code.co_name.startswith("<"):
            walk.extend([code] if frame not in entered else [])
            entered.append(frame)

    sys.setprofile(follow)
    try:
        method.fit(clients, progress=False)
    finally:
        sys.setprofile(None)
    return walk


def without_repeats(walk: list[CodeType]) -> list[CodeType]:
    """Leave one of a stretch that comes again at once, as in a loop over clients."""
    kept: list[CodeType] = []
    for code in walk:
        kept.append(code)
        for length in range(1, len(kept) // 2 + 1):
            if kept[-length:] == kept[-2 * length : -length]:
                del kept[-length:]
                break
    return kept


def test_it_is_at_most_20_changes_of_file_from_fit_to_the_first_question() -> None:
    """Count every change of file on the way, in families and data too; what is done again for each further client of
    the same loop counts once. Constructors that dataclasses write count as no file."""
    method = cotempo.FDBNL(rounds=1)
    tables = [cotempo.make_networks(variables=3, clients=3, samples=40)[0] for _ in range(2)]
    method.fit(tables[0], progress=False)  # so that all modules are loaded
    walk = without_repeats(walk_to_first_question(method, tables[1]))
    files = itertools.groupby(walk, key=lambda code: str(Path(code.co_filename).relative_to(ROOT)))
    steps = [f"{file}: {', '.join(code.co_name for code in codes)}" for file, codes in files]
    assert steps[0] == "federation/method.py: fit"
    assert steps[-1].endswith("make_questions")
    assert len(steps) - 1 <= 20, "\n".join(["the way from fit to the first question:", *steps])


def test_importing_cotempo_is_light() -> None:
    code = "import json, sys, cotempo; cotempo.resume; print(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(ended.stdout))
    assert "cotempo.runs.run" in loaded
    heavy = {"torch", "scipy", "sklearn", "matplotlib", "flwr", "ray", "typer", "hypothesis", "pytest"}
    assert not loaded & heavy


def test_every_public_name_leads_somewhere() -> None:
    for name in cotempo.__all__:
        assert getattr(cotempo, name) is not None
    with pytest.raises(AttributeError, match="FDBN"):
        _ = cotempo.FDBN
