"""How much of Flower that is not documented is used; that it is there and behaves; and what happens without it."""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import sys
import threading
from pathlib import Path
from queue import Queue
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cotempo.engines import flower
from cotempo.engines.flower import patches
from cotempo.engines.flower.transport import AWAY_CODES
from cotempo.engines.flower.wire import CALLS, SERVER_NODE
from cotempo.errors import EngineError

ROOT = Path(flower.__file__).parent
PUBLIC = {"flwr", "flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.simulation"}
PRIVATE = {
    "flwr.proto.control_pb2",
    "flwr.proto.fleet_pb2",
    "flwr.proto.runtime_pb2",
    "flwr.server.superlink.fleet.vce.vce_api",
}


def flower_modules(path: Path) -> set[str]:
    """Modules of Flower that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            found |= {name for name in names if name.split(".")[0] == "flwr"}
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr":
            package = importlib.import_module(node.module or "")
            is_module = {name: isinstance(getattr(package, name, None), ModuleType) for name in names}
            found |= {f"{node.module}.{name}" if is_module[name] else str(node.module) for name in names}
    return found


def test_four_private_modules_are_used_and_only_here() -> None:
    for module in PRIVATE:
        importlib.import_module(module)
    used = {path: flower_modules(path) - PUBLIC for path in ROOT.rglob("*.py")}
    assert used.pop(Path(patches.__file__)) == PRIVATE
    assert not any(used.values()), used


@pytest.mark.parametrize("path", sorted({*ROOT.rglob("*.py")} - {Path(patches.__file__)}), ids=lambda path: path.stem)
def test_nothing_else_reaches_for_a_private_name(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            assert ast.unparse(node.value) in ("self", "os"), ast.unparse(node)
        if isinstance(node, ast.Name | ast.Attribute):
            assert ast.unparse(node).split(".")[-1] not in ("vars", "setattr", "__kwdefaults__", "__dict__")


@pytest.mark.parametrize("path", sorted(CALLS))
def test_every_call_exists_on_the_wire_with_these_types(path: str) -> None:
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supernode.fleet_http_client import FleetHttpClient

    clients = {"control": ControlHttpClient, "runtime": RuntimeHttpClient, "fleet": FleetHttpClient}
    source = inspect.getsource(clients[path.split("/")[0]])
    call = next(call for call in source.split("    def ") if f'"/v1/{path}"' in call)
    asked, answered = CALLS[path]
    assert f"request: {asked}" in call
    assert f"response_type={answered}" in call
    assert patches.wire_type(asked)().SerializeToString() == b""
    assert patches.wire_type(answered)().SerializeToString() == b""


def test_numbers_and_names_on_the_wire_are_flowers() -> None:
    from flwr.common import constant
    from flwr.supercore import constant as core

    codes = constant.ErrorCode
    assert AWAY_CODES == (codes.MESSAGE_UNAVAILABLE, codes.REPLY_MESSAGE_UNAVAILABLE, codes.NODE_UNAVAILABLE)
    assert constant.SUPERLINK_NODE_ID == SERVER_NODE
    assert core.TaskType.SERVER_APP == "flwr-serverapp"
    assert core.TASK_TOKEN_HEADER == "flwr-task-token"
    assert constant.TIMESTAMP_HEADER == "flwr-timestamp"
    assert core.FLEET_HTTP_PUBLIC_KEY_HEADER == "flwr-public-key"
    assert core.FLEET_HTTP_SIGNATURE_HEADER == "flwr-signature"


def test_a_message_that_is_gone_from_the_wire_is_named() -> None:
    with pytest.raises(EngineError, match=r"the message PostcardRequest on its wire.*neither a server nor a site"):
        patches.wire_type("PostcardRequest")


def test_a_version_without_the_definitions_of_the_wire_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr.proto.fleet_pb2", None)
    monkeypatch.delattr("flwr.proto.fleet_pb2")
    with pytest.raises(EngineError, match=r"install flwr 1.41 or 1.42"):
        patches.wire_type.__wrapped__("Message")


def test_an_untested_version_is_warned_of_and_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches.importlib.metadata, "version", lambda name: "1.77.0")
    with pytest.warns(UserWarning, match=r"tested with flwr 1.41 and 1.42, got 1.77.0"):
        assert patches.check_version.__wrapped__() == "1.77.0"


def test_the_declared_versions_are_the_tested_ones() -> None:
    from importlib.metadata import requires

    declared = {line.split(";")[0].strip() for line in requires("cotempo") or () if line.startswith("flwr")}
    assert declared == {"flwr[simulation]<1.43,>=1.41"}
    assert patches.TESTED == ("1.41", "1.42")


def test_the_command_serves_the_wrapped_application(monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn
    from flwr.superlink.cli import flower_superlink

    served: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **options: served.append((app, options)))
    monkeypatch.setattr(sys, "argv", ["flower-superlink", "--insecure", "--port", "65001", "--isolation", "process"])
    monkeypatch.setattr(logging.getLogger("flwr"), "level", logging.INFO)
    patches.run_superlink(lambda app: ("wrapped", app))
    ((app, options),) = served
    assert app[0] == "wrapped"
    assert options["port"] == 65001
    assert callable(flower_superlink)


def test_without_the_command_no_server_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches.importlib.metadata, "entry_points", lambda **_: [])
    with pytest.raises(EngineError, match=r"the command flower-superlink.*no server can be run"):
        patches.run_superlink(lambda app: app)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_simulation_runs_also_without_the_faster_dispatch(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    import flwr.simulation
    from flwr.server.superlink.fleet.vce import vce_api

    ran: list[int] = []
    monkeypatch.setattr(flwr.simulation, "run_simulation", lambda server, client, nodes, **_: ran.append(nodes))
    monkeypatch.setattr(vce_api, "add_messages_to_queue", vce_api.add_messages_to_queue)
    if is_there:
        patches.run_simulation(None, None, 3, {})  # type: ignore[arg-type]
        assert vce_api.add_messages_to_queue is patches.dispatch_messages
    else:
        monkeypatch.delattr(vce_api, "add_messages_to_queue")
        with pytest.warns(UserWarning, match="thousands of clients are slow"):
            patches.run_simulation(None, None, 3, {})  # type: ignore[arg-type]
    assert ran == [3]


def test_dispatch_hands_over_every_message_once() -> None:
    from flwr.server.superlink.linkstate import InMemoryLinkState

    made = inspect.getsource(InMemoryLinkState.__init__)
    assert "self.lock" in made
    assert "self.message_ins_store" in made
    messages = {str(number): SimpleNamespace(metadata=SimpleNamespace(delivered_at="")) for number in range(3)}
    state, queue, stop = SimpleNamespace(lock=threading.Lock(), message_ins_store=messages), Queue[Any](), iter("aaab")
    stopping = SimpleNamespace(wait=lambda seconds: next(stop) == "b")
    patches.dispatch_messages(state, queue, None, stopping)  # type: ignore[arg-type]
    assert [queue.get_nowait() for _ in range(3)] == [*messages.values()]
    assert queue.empty()
