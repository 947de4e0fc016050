"""`EngineSettings`: where clients run, one object from TOML or `fit` to an engine's constructor.

Each engine declares its options in a subclass, which opens it; an option of another engine is refused.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from cotempo.alerts import SILENT, AlertSettings
from cotempo.data import Table
from cotempo.data.argument_checks import check_choice
from cotempo.errors import ParameterError
from cotempo.federation.engine import Engine
from cotempo.federation.method import Method
from cotempo.federation.shields import Shield
from cotempo.privacy.settings import Privacy
from cotempo.settings import Settings, read_toml

OFF = Privacy(secure_sum=False)
Tables = Mapping[str, Table]
Shields = Sequence[Shield]


class EngineSettings(Settings):
    """Where clients run."""

    engines: ClassVar["dict[str, type[EngineSettings]]"] = {}
    defaults: ClassVar["dict[str, EngineSettings]"] = {}
    is_remote: ClassVar[bool] = False  # whether clients hold their own tables, so that none is read here

    name: str
    threads: int = Field(default=1, ge=1, description="Threads per process, at most one per core; sites use one.")
    deadline: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Seconds per answer; direct calls cannot be interrupted."
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        EngineSettings.engines[cls.model_fields["name"].default] = cls
        EngineSettings.defaults[cls.model_fields["name"].default] = cls()  # type: ignore[call-arg]

    def client_names(self, tables: Mapping[str, Table]) -> tuple[str, ...]:
        """Return the clients that are to take part, before anything is opened."""
        return tuple(sorted(tables))

    def with_participants(self) -> Self:
        """Return the settings of a run that begins: who takes part is decided now, whoever joins or leaves later."""
        return self

    def alerts(self) -> AlertSettings:
        """Return whom to tell what goes wrong in a run."""
        return SILENT

    @abstractmethod
    def open(
        self, method: Method, tables: Tables, *, seed: int, run: str, shields: Shields, privacy: Privacy = OFF
    ) -> Engine:
        """Open the engine.

        Parameters
        ----------
        tables
            A table per client; empty if the engine is remote.
        run
            The run's identity, by which remote sites find their memory again.
        shields
            What clients apply to every message; a remote site applies its own.
        privacy
            What remote sites are told that protects the run, in its contract.
        """


class InProcessSettings(EngineSettings):
    """Clients in this process, called directly, or in a pool of worker processes."""

    name: str = "inprocess"
    workers: int = Field(default=0, ge=0, description="Worker processes for the clients; 0 calls them directly.")
    batched: bool | None = Field(
        default=None,
        description="Whether methods that can answer for a whole cohort at once do so; by default, but only in direct "
        "calls. Batched and looped runs agree within rounding, not in bits.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.workers and self.batched:
            raise ValueError(f"batched must be left out with workers: a batch is one call, got workers={self.workers}")
        return self

    def open(
        self, method: Method, tables: Tables, *, seed: int, run: str, shields: Shields, privacy: Privacy = OFF
    ) -> Engine:
        """Open direct calls or the pool."""
        if self.workers:
            from cotempo.engines.pool import Pool

            return Pool(method, tables, self, seed=seed, shields=shields)
        if self.deadline is not None:
            raise ParameterError("a deadline needs workers of at least 1: a direct call cannot be interrupted")
        from cotempo.engines.inprocess import InProcess

        return InProcess(method, tables, self, seed=seed, shields=shields)


class SimulationSettings(EngineSettings):
    """Many clients on one machine or a Ray cluster, by Flower's simulation."""

    name: str = "flower-simulation"
    workers: int = Field(default=0, ge=0, description="Ray actors to spread the clients over; with 0, one per core.")

    def open(
        self, method: Method, tables: Tables, *, seed: int, run: str, shields: Shields, privacy: Privacy = OFF
    ) -> Engine:
        """Open Flower's simulation."""
        from cotempo.engines.flower.simulation import FlowerSimulation

        return FlowerSimulation(method, tables, self, seed=seed, shields=shields)


class FlowerSettings(EngineSettings):
    """Sites across organisations, on Flower."""

    is_remote: ClassVar[bool] = True

    name: str = "flower"
    server: str | None = Field(default=None, description="The server's folder, as `cotempo provision` made it.")
    participants: tuple[str, ...] = Field(
        default=(), description="The sites that take part; by default all that are admitted and not paused."
    )
    share_result: bool = Field(
        default=False, description="Send the final state to the sites, so that each can use its own model there."
    )

    purpose: str = Field(
        default="", max_length=500, description="What the run is for; people at the sites read it before they approve."
    )
    patience: float = Field(
        default=3600.0,
        ge=0,
        allow_inf_nan=False,
        description="Seconds to wait for people at the sites to approve the run; after that it can be resumed.",
    )

    order: str | None = Field(
        default=None,
        description="The signed order of the run, if the server has a list of who may start runs; cotempo server queue "
        "writes it.",
    )

    def client_names(self, tables: Tables) -> tuple[str, ...]:
        """Return the sites that are to take part, from the server's folder unless they are named."""
        if self.participants or self.server is None:
            return tuple(sorted(self.participants))
        server = Path(self.server)
        admitted = {path.stem for path in (server / "sites").glob("*.pub")}
        return tuple(sorted(admitted - paused_sites(server)))

    def alerts(self) -> AlertSettings:
        """Return what stands in ``alerts.toml`` in the server's folder, if there is one."""
        path = Path(self.server or "") / "alerts.toml"
        return AlertSettings.read(read_toml(path), str(path)) if self.server and path.is_file() else SILENT

    def with_participants(self) -> Self:
        """Return the settings with the sites named that are to take part."""
        return self.model_copy(update={"participants": self.client_names({})})

    def open(
        self, method: Method, tables: Tables, *, seed: int, run: str, shields: Shields, privacy: Privacy = OFF
    ) -> Engine:
        """Open a deployment."""
        if any(shield.at_sites is None for shield in shields):
            raise ParameterError("shields must be set at the sites, whose messages they protect, got some here")
        from cotempo.engines.flower.coordinator.engine import Flower

        return Flower(method, self, seed=seed, run=run, privacy=privacy)


def paused_sites(server: Path) -> set[str]:
    """Return the sites that the coordinator does not ask for now, from the server's folder."""
    path = server / "paused"
    return {*path.read_text().split()} if path.is_file() else set()


def engine_settings(name: str | EngineSettings = "inprocess", **options: Any) -> EngineSettings:
    """Return the settings of an engine by its name; options that are `None` count as not given.

    Examples
    --------
    >>> engine_settings("inprocess", server="here")
    Traceback (most recent call last):
    cotempo.errors.ParameterError: the engine inprocess has no option 'server', which is for flower
    """
    options = {option: value for option, value in options.items() if value is not None}
    if isinstance(name, EngineSettings):
        if options:
            raise ParameterError(f"options must be part of the engine's settings, got {', '.join(options)} beside them")
        return name
    if not options and name in EngineSettings.defaults:
        return EngineSettings.defaults[name]
    kind = engine_type(name)
    for option in {*options} - {*kind.model_fields}:
        if owners := [owner for owner, other in EngineSettings.engines.items() if option in other.model_fields]:
            raise ParameterError(f"the engine {name} has no option {option!r}, which is for {' and '.join(owners)}")
    return kind.read(options, "[engine]")


def engine_type(name: str) -> type[EngineSettings]:
    """Return an engine's settings class."""
    check_choice("engine", name, EngineSettings.engines)
    return EngineSettings.engines[name]
