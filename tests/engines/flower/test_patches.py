"""Every name of Flower's that is patched or borrowed still exists, and nothing outside `patches` reaches for one."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from cotempo.engines import flower
from cotempo.engines.flower import patches

ROOT = Path(flower.__file__).parent
NODE, PULL = "flwr.supernode.start_client_internal", "flwr.supercore.inflatable.inflatable_utils"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (PULL, "pull_objects"),
        (PULL, "pull_and_inflate_object_from_tree"),
        (NODE, "time.sleep"),
        (NODE, "_pull_and_store_message"),
        (NODE, "_push_messages"),
        ("flwr.supercore.run", "RunNotRunningException"),
        ("flwr.superlink.cli.flower_superlink", "_parse_superlink_lifespan_config"),
        ("flwr.superlink.cli.flower_superlink", "SuperLinkLifespan"),
        ("flwr.superlink.grid", "HttpGrid._runtime_client"),
        ("flwr.supercore.task_identity", "TaskIdentity"),
        ("flwr.server.superlink.fleet.vce.vce_api", "add_messages_to_queue"),
        ("flwr.simulation.run_simulation", "_run_simulation"),
    ],
)
def test_a_name_still_exists(module: str, name: str) -> None:
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [
        (PULL, "pull_objects", {"initial_backoff", "backoff_cap", "max_tries_per_object"}),
        (PULL, "pull_and_inflate_object_from_tree", {"initial_backoff", "backoff_cap", "max_tries_per_object"}),
        (NODE, "_pull_and_store_message", {"pull_object", "confirm_message_received"}),
        (NODE, "_push_messages", {"send", "push_object"}),
        ("flwr.simulation.run_simulation", "_run_simulation", {"backend_config"}),
    ],
)
def test_a_function_still_takes_these_parameters(module: str, name: str, parameters: set[str]) -> None:
    function = getattr(importlib.import_module(module), name)
    assert parameters <= set(inspect.signature(function).parameters)


def test_the_attributes_that_are_set_or_read_are_still_there() -> None:
    from flwr.server.superlink.linkstate import InMemoryLinkState
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.superlink.grid import HttpGrid

    assert "_client" in vars(HttpGrid("127.0.0.1:1", True, token="x"))
    assert {"task_id", "run_id", "node_id"} <= set(dir(type(TaskIdentity)))
    made = inspect.getsource(InMemoryLinkState.__init__)
    assert "self.lock" in made
    assert "self.message_ins_store" in made


def test_the_supernode_uses_nothing_of_time_but_sleep() -> None:
    tree = ast.parse(inspect.getsource(importlib.import_module(NODE)))
    used = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "time"
    }
    assert used == {"sleep"}


@pytest.mark.parametrize("path", sorted({*ROOT.rglob("*.py")} - {Path(patches.__file__)}), ids=lambda path: path.stem)
def test_nothing_else_reaches_for_a_private_name(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flwr"):
            assert not [alias.name for alias in node.names if alias.name.startswith("_")]
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            assert ast.unparse(node.value) in ("self", "os"), ast.unparse(node)
        if isinstance(node, ast.Name | ast.Attribute):
            assert ast.unparse(node).split(".")[-1] not in ("vars", "setattr", "__kwdefaults__", "__dict__")
