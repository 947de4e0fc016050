"""A consortium without processes: sites that enrolled and pinned each other's keys, and a coordinator that signs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cotempo.data import Table, write_clients
from cotempo.engines.flower.protocol import Consents, Part, Parts
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.privacy.contract import CODE_VERSION, Consent, Contract
from cotempo.privacy.keys import PeerBook, SiteKeys, coordinator_identity, write_coordinator_key

RUN = "0123456789abcdef" * 2


class PaperConsortium:
    """Sites of these names in a folder; made once, then read again."""

    def __init__(self, folder: Path, names: Sequence[str]):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "book.toml").exists():
            book = PeerBook(coordinator=write_coordinator_key(folder / "coordinator.key"))
            for name in names:
                book = book.with_site(SiteKeys.create(name, folder / name / "keys").enrol())
            book.save(folder / "book.toml")
            for name in names:
                book.save(folder / name / "peers.toml")
        self.book = PeerBook.from_file(folder / "book.toml")
        self.coordinator = coordinator_identity(folder / "coordinator.key")

    def service(self, name: str, table: Table, **settings: Any) -> SiteService:
        """Return a site with its table beside its keys."""
        kit = self.folder / name
        if not (kit / "data.csv").exists():
            write_clients({name: table}, kit / "data.csv")
        known = {"name": name, "server": "h:1", "data": str(kit / "data.csv"), **settings}
        return SiteService(SiteSettings(**known), kit / "home")

    def contract(self, **changes: Any) -> Contract:
        """Return a contract among all sites."""
        participants = {name: key.hex() for name, key in self.book.signing.items()}
        if isinstance(chosen := changes.get("participants"), tuple):
            changes = {**changes, "participants": {name: participants[name] for name in chosen}}
        known = {
            "run": RUN, "seed": 0, "participants": participants, "coordinator": self.book.coordinator,
            "privacy": {"secure_sum": False}, "version": CODE_VERSION, **changes,
        }  # fmt: skip
        return Contract(**known)

    def invite(self, **changes: Any) -> Parts:
        """Return the parts of an invitation."""
        contract = self.contract(**changes)
        return {
            Part.CONTRACT: contract.to_bytes(),
            Part.SIGNATURE: contract.sign(self.coordinator, "coordinator").encode(),
        }

    def sign(self, data: bytes) -> bytes:
        """Return the signatures of all participants."""
        contract = Contract.from_bytes(data)
        names = [name for name in contract.participants if name in self.book.sites]
        keys = {name: SiteKeys.load(name, self.folder / name / "keys") for name in names}
        signed = {name: Consent(signature=contract.sign(keys[name].identity, "site")) for name in names}
        return Consents(run=contract.run, sites=signed).to_bytes()
