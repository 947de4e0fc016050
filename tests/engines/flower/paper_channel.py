"""A deployment without processes: the engine, and its sites' services, with sealed bytes between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from consortium import Consortium

from cotempo.data import Table
from cotempo.engines.flower import protocol
from cotempo.engines.flower.coordinator import engine
from cotempo.engines.flower.protocol import Envelope, Part
from cotempo.engines.flower.site import service as service_module
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.engines.flower.site.worker import answer
from cotempo.engines.flower.wire import Sealer, unseal


@dataclass(frozen=True)
class Release:
    """What tells a version of cotempo from another."""

    version: str
    speaks: tuple[int, int]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be this release."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(protocol, "SPEAKS", self.speaks)
            patch.setattr(service_module, "CODE_VERSION", self.version)
            patch.setattr(engine, "CODE_VERSION", self.version)
            yield


@dataclass
class PaperChannel:
    """A `ServerTask` whose sites are in this process, each of a release of its own."""

    services: dict[str, SiteService]
    releases: dict[str, Release]
    spoken: dict[str, int] = field(default_factory=dict)  # the version of the last question and answer, by site
    answers: dict[str, Envelope] = field(default_factory=dict)

    def nodes(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.services, 2)}

    def push(self, envelopes: Mapping[int, Envelope], seconds: float) -> dict[int, str]:
        names = {number: name for name, number in self.nodes().items()}
        sent = {}
        for node, envelope in envelopes.items():
            key, asked = cross(envelope, node)
            with self.releases[names[node]].running():
                _, self.answers[key] = cross(answer(self.services[names[node]], asked), node)
            assert self.answers[key].version == asked.version or Part.REFUSED in self.answers[key].parts
            self.spoken[names[node]] = asked.version
            sent[node] = key
        return sent

    def pull(self, ids: Iterable[str]) -> list[tuple[str, Envelope]]:
        return [(key, self.answers.pop(key)) for key in self.in_time(list(ids))]

    def in_time(self, ids: list[str]) -> list[str]:
        """What has arrived; all of it, unless a test says otherwise."""
        return ids

    def collect(self, meeting: str) -> dict[str, bytes]:
        return {}

    def close(self, **_: Any) -> None:
        pass


def cross(envelope: Envelope, node: int) -> tuple[str, Envelope]:
    """Return what arrives."""
    sealer = Sealer()
    sealed = sealer.seal({"run_id": 1, "dst_node_id": node}, envelope)
    return sealed.id, unseal(sealed.id, sealer.objects)


class PaperDeployment:
    """A consortium that is provisioned, and never started."""

    def __init__(
        self,
        folder: Path,
        tables: Mapping[str, Table],
        releases: Mapping[str, Release],
        methods: tuple[str, ...] = ("Walking", "Strolling"),
    ):
        self.consortium = Consortium(folder, tables, methods=methods)
        self.channel = PaperChannel({}, dict(releases))
        for name in tables:
            self.restart(name, releases[name])

    def restart(self, name: str, release: Release) -> None:
        """Start a site again, as a release."""
        kit = self.consortium.clients[name].kit
        self.channel.services[name] = SiteService(SiteSettings.from_kit(kit), kit / "home")
        self.channel.releases[name] = release
