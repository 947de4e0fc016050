"""`Order`: a run that a person asks for, signed with their key; a server that lists people starts no other runs."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field

from cotempo.errors import EngineError, ParameterError
from cotempo.privacy.contract import Contract
from cotempo.privacy.keys import KEY, NAME, SIGNATURE, canonical
from cotempo.privacy.secure_sum.identity import Identity, is_signed
from cotempo.privacy.secure_sum.masks import join
from cotempo.settings import Settings, read_toml
from cotempo.storage.files import write_whole


class People(Settings):
    """Who may start runs: the public key of each person, by name."""

    keys: dict[str, Annotated[str, Field(pattern=KEY)]]


def read_people(server: Path) -> dict[str, str]:
    """Return who may start runs, from a server's ``people.toml``; empty if there is none."""
    path = server / "people.toml"
    return dict(People.read({"keys": read_toml(path)}, str(path)).keys) if path.is_file() else {}


class Order(Settings):
    """What is to be computed, among whom and for what, and who asks for it; good for one run."""

    id: str = Field(pattern=r"^[0-9a-f]{32}$")
    by: str = Field(pattern=NAME)
    method: str
    parameters: dict[str, Any]
    seed: int
    participants: tuple[str, ...]
    privacy: dict[str, Any]
    purpose: str = ""
    signature: str = Field(default="", pattern=f"^$|{SIGNATURE}")

    @classmethod
    def sign(cls, key: Path, **content: Any) -> Self:
        """Return an order signed with the key in a file that `make_key` wrote."""
        person = read_key(key)
        draft = cls.read({"id": secrets.token_hex(16), "by": person.name, **content}, "the order")
        return draft.model_copy(update={"signature": person.sign(draft.statement).hex()})

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read an order."""
        try:
            return cls.read(json.loads(path.read_bytes()), str(path))
        except (OSError, ValueError, TypeError) as error:
            raise ParameterError(f"{path} must be an order that cotempo server queue wrote: {error}") from None

    def save(self, path: Path) -> None:
        """Write the order."""
        write_whole(path, self.model_dump_json().encode())

    @property
    def statement(self) -> bytes:
        """What is signed."""
        return join("cotempo order 1", canonical(self.model_dump(mode="json", exclude={"signature"})))

    def require_signed(self, people: Mapping[str, str]) -> None:
        """Raise `EngineError` unless one of these people signed."""
        keys = {name: bytes.fromhex(key) for name, key in people.items()}
        if self.by not in keys:
            raise EngineError(f"{_who_may(people)}, not by {self.by}; ask whoever keeps the server's people.toml")
        if not is_signed(keys, self.by, self.statement, bytes.fromhex(self.signature)):
            raise EngineError(f"the order must be as {self.by} signed it with the key in people.toml, it is not")

    def require_for(self, contract: Contract) -> None:
        """Raise `EngineError` unless a run is the one that was ordered."""
        ordered = self.model_dump(mode="json", include={"method", "parameters", "seed", "privacy", "purpose"})
        run = contract.model_dump(mode="json", include={*ordered})
        same = canonical(run) == canonical(ordered) and {*self.participants} == {*contract.participants}
        if not same:
            raise EngineError(f"the run must be the one that {self.by} signed, it is another; queue it again")


def require_order(server: Path, order: str | None, contract: Contract) -> None:
    """Raise `EngineError` if a server lists who may start runs, and none of them has ordered this one."""
    people = read_people(server)
    if not people:
        return
    if order is None:
        raise EngineError(
            f"{_who_may(people)}; sign yours with: cotempo server queue SERVER EXPERIMENT.toml --key YOURS.key"
        )
    signed, used = Order.from_file(Path(order)), server / "state" / "orders"
    signed.require_signed(people)
    signed.require_for(contract)
    used.mkdir(parents=True, exist_ok=True, mode=0o700)
    record = used / signed.id
    if record.exists() and record.read_text() != contract.run:
        raise EngineError("an order is good for one run, this one was used before; queue the experiment again")
    write_whole(record, contract.run.encode())


def _who_may(people: Iterable[str]) -> str:
    return f"runs at this server are started by {', '.join(sorted(people))} only"


def make_key(name: str, path: Path) -> str:
    """Make a person's key in a new file; return its public half."""
    if not re.match(NAME, name):
        raise ParameterError(f"a name must be letters, digits, '.', '_' and '-' only, got {name!r}")
    if path.exists():
        raise ParameterError(f"{path} must be a new file: a key in use must not be written over")
    secret = secrets.token_bytes(32)
    write_whole(path, f"{name} {secret.hex()}\n".encode())
    return Identity(name, secret).public.hex()


def read_key(path: Path) -> Identity:
    """Read a person's key; refuse a file that others can read."""
    try:
        if path.stat().st_mode & 0o077:
            raise ParameterError(f"{path} must be readable by its owner only; chmod go-rwx {path}")
        name, secret = path.read_text().split()
        return Identity(name, bytes.fromhex(secret))
    except (OSError, ValueError) as error:
        raise ParameterError(f"{path} must be a key that cotempo server key wrote: {error}") from None
