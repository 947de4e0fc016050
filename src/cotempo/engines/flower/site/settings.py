"""`SiteSettings`: the content of a kit's `site.toml`, by which a site has the last word."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from cotempo.alerts import SILENT, AlertSettings
from cotempo.data import READERS
from cotempo.data.argument_checks import check_choice
from cotempo.devices import Device
from cotempo.errors import EngineError, ParameterError
from cotempo.privacy.approval import ApprovalSettings
from cotempo.privacy.policy import Allowed, SitePolicy
from cotempo.settings import Settings, read_toml


class SiteRandomness(Settings):
    """Where a site's random draws come from: its own secret, or the run's seed, which all know."""

    shared: bool = False


class SiteSettings(Settings):
    """The content of `site.toml`, whose template in `kit/` explains every key."""

    name: str
    server: str
    data: str | dict[str, str]
    methods: tuple[str, ...]
    imports: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ("cpu",)
    parameters: dict[str, Allowed] = Field(default_factory=dict)
    privacy: SitePolicy = SitePolicy()
    random: SiteRandomness = SiteRandomness()
    approval: ApprovalSettings = ApprovalSettings()
    alerts: AlertSettings = SILENT
    log: Literal["text", "json"] = "text"

    @classmethod
    def from_kit(cls, kit: Path) -> Self:
        """Read a kit's `site.toml`; relative data paths start at the kit."""
        path = kit / "site.toml"
        if not path.is_file():
            raise EngineError(f"{kit} must be the folder of a startup kit, it holds no readable site.toml")
        settings = cls.read(read_toml(path), str(path))
        if not settings.data:
            raise ParameterError(f"{path}: data must name your table; fill it in")
        if isinstance(settings.data, str):
            return settings.model_copy(update={"data": str((kit / settings.data).resolve())})
        for kind in settings.data:
            check_choice(f"{path}: data: a kind", kind, READERS)
        found = {kind: str((kit / source).resolve()) for kind, source in settings.data.items()}
        return settings.model_copy(update={"data": found})
