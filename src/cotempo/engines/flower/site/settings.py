"""`SiteSettings`: the content of a kit's `site.toml`, by which a site has the last word."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from cotempo.data import READERS, detect_kind
from cotempo.devices import Device
from cotempo.errors import EngineError, ParameterError
from cotempo.settings import Settings, read_toml


class SitePolicy(Settings):
    """What a site demands of a run before it takes part."""

    minimum_rows: int = Field(default=0, ge=0)
    minimum_clients: int = Field(default=2, ge=1)


class SiteRandomness(Settings):
    """Where a site's random draws come from: its own secret number, or (None) the run's seed."""

    seed: int | None = Field(default=None, ge=0)


class SiteSettings(Settings):
    """The content of `site.toml`, whose template in `kit/` explains every key."""

    name: str
    server: str
    data: str | dict[str, str]
    methods: tuple[str, ...]
    identity: str | None = None
    peers: dict[str, str] = Field(default_factory=dict)
    imports: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ("cpu",)
    privacy: SitePolicy = SitePolicy()
    random: SiteRandomness = SiteRandomness()

    @classmethod
    def from_kit(cls, kit: Path) -> SiteSettings:
        """Read a kit's `site.toml`; relative data paths start at the kit."""
        path = kit / "site.toml"
        if not path.is_file():
            raise EngineError(f"{kit} must be the folder of a startup kit, it holds no readable site.toml")
        settings = cls.read(read_toml(path), str(path))
        if not settings.data:
            raise ParameterError(f"{path}: data must name your table; fill it in")
        if settings.identity is not None:
            settings = settings.model_copy(update={"identity": str((kit / settings.identity).resolve())})
        if isinstance(settings.data, str):
            return settings.model_copy(update={"data": str((kit / settings.data).resolve())})
        if unknown := [kind for kind in settings.data if kind not in READERS]:
            raise ParameterError(f"{path}: data: a kind must be one of {', '.join(READERS)}, got {unknown[0]!r}")
        found = {kind: str((kit / source).resolve()) for kind, source in settings.data.items()}
        return settings.model_copy(update={"data": found})

    @property
    def sources(self) -> dict[str, str]:
        """Where the tables are, by kind; the kind of a single table is detected from its columns."""
        return {detect_kind(self.data): self.data} if isinstance(self.data, str) else {**self.data}
