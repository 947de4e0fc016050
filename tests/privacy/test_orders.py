"""Who may start runs: a signed order is for one run, as it was signed, by somebody on the list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotempo.errors import EngineError, ParameterError
from cotempo.privacy.contract import CODE_VERSION, Contract
from cotempo.privacy.orders import Order, make_key, read_key, require_order

WANTED: dict[str, Any] = {"method": "FDBNL", "parameters": {"lags": 2}, "seed": 1, "privacy": {"secure_sum": True}}


def contract(**changes: Any) -> Contract:
    known = {
        **WANTED, "run": "0" * 32, "participants": {"ash": "1" * 64, "birch": "2" * 64}, "coordinator": "3" * 64,
        "version": CODE_VERSION, **changes,
    }  # fmt: skip
    return Contract(**known)


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """A server's folder, at which Anna may start runs, and Bert's key."""
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "people.toml").write_text(f'anna = "{make_key("anna", tmp_path / "anna.key")}"\n')
    make_key("bert", tmp_path / "bert.key")
    return folder


def order(server: Path, who: str = "anna", **changes: Any) -> str:
    path = server / "order.json"
    Order.sign(server.parent / f"{who}.key", **{**WANTED, "participants": ("birch", "ash"), **changes}).save(path)
    return str(path)


def test_without_a_list_nobody_is_asked(tmp_path: Path) -> None:
    require_order(tmp_path, None, contract())


def test_who_is_on_the_list_may_start_a_run_and_resume_it(server: Path) -> None:
    signed = order(server)
    require_order(server, signed, contract())
    require_order(server, signed, contract(version="0.0.1"))


def test_a_run_that_nobody_signed_is_refused(server: Path) -> None:
    with pytest.raises(EngineError, match=r"are started by anna only; sign yours with: cotempo server queue"):
        require_order(server, None, contract())


def test_who_is_not_on_the_list_is_refused(server: Path) -> None:
    with pytest.raises(EngineError, match="started by anna only, not by bert"):
        require_order(server, order(server, "bert"), contract())


def test_who_was_taken_off_the_list_is_refused(server: Path) -> None:
    signed = order(server)
    (server / "people.toml").write_text(f'bert = "{read_key(server.parent / "bert.key").public.hex()}"\n')
    with pytest.raises(EngineError, match="started by bert only, not by anna"):
        require_order(server, signed, contract())


def test_another_key_under_the_same_name_is_refused(server: Path) -> None:
    (server.parent / "anna.key").unlink()
    make_key("anna", server.parent / "anna.key")
    with pytest.raises(EngineError, match="as anna signed it"):
        require_order(server, order(server), contract())


@pytest.mark.parametrize(
    "change",
    [
        {"method": "OneRound"},
        {"parameters": {"lags": 3}},
        {"seed": 2},
        {"privacy": {"secure_sum": False}},
        {"purpose": "another one"},
        {"participants": {"ash": "1" * 64}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_run_than_the_one_signed_is_refused(server: Path, change: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match="must be the one that anna signed"):
        require_order(server, order(server), contract(**change))


def test_an_order_that_was_changed_is_refused(server: Path) -> None:
    path = Path(order(server))
    path.write_text(path.read_text().replace('"lags":2', '"lags":3'))
    with pytest.raises(EngineError, match="as anna signed it"):
        require_order(server, str(path), contract(parameters={"lags": 3}))


def test_an_order_is_good_for_one_run(server: Path) -> None:
    signed = order(server)
    require_order(server, signed, contract())
    with pytest.raises(EngineError, match="was used before"):
        require_order(server, signed, contract(run="f" * 32))


def test_keys_are_private_and_never_written_over(server: Path) -> None:
    key = server.parent / "anna.key"
    with pytest.raises(ParameterError, match="new file"):
        make_key("anna", key)
    key.chmod(0o644)
    with pytest.raises(ParameterError, match="readable by its owner only"):
        order(server)
