"""`EngineSettings`: the one object that says where clients run, from TOML or `fit` to an engine's constructor.

Each engine declares its options in a subclass, which opens it; an option of another engine is unknown to that class
and is refused. A new engine is one file with such a subclass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from cotempo.errors import ParameterError, nearest
from cotempo.settings import Settings

if TYPE_CHECKING:
    from cotempo.data import Table
    from cotempo.federation.engine import Engine
    from cotempo.federation.method import Method
    from cotempo.federation.shields import Shield


class EngineSettings(Settings):
    """Where clients run."""

    engines: ClassVar[dict[str, type[EngineSettings]]] = {}
    is_remote: ClassVar[bool] = False  # whether clients hold their own tables, so that none is read here

    name: str
    threads: int = Field(
        default=1,
        ge=1,
        description="Threads each process may use, at most as many as there are cores; sites across organisations "
        "use one.",
    )
    deadline: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds a client may take for an answer; not for direct calls, which cannot be interrupted.",
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        EngineSettings.engines[cls.model_fields["name"].default] = cls

    def client_names(self, tables: Mapping[str, Table]) -> tuple[str, ...]:
        """Return the clients that are to take part, before anything is opened."""
        return tuple(sorted(tables))

    @abstractmethod
    def open(
        self, method: Method, tables: Mapping[str, Table], *, seed: int, run: str, shields: Sequence[Shield]
    ) -> Engine:
        """Open the engine.

        Parameters
        ----------
        method
            What clients answer for.
        tables
            A table per client; empty if the engine is remote.
        seed
            Decides every random number.
        run
            The run's identity, by which remote sites find their memory again.
        shields
            What clients apply to every message; a remote site applies its own, and is told their names.
        """


class InProcessSettings(EngineSettings):
    """Clients in this process, called directly, or in a pool of worker processes."""

    name: str = "inprocess"
    workers: int = Field(
        default=0,
        ge=0,
        description="Processes to spread the clients over; with 0, they are called directly in this process.",
    )
    batched: bool | None = Field(
        default=None,
        description="Whether methods that can answer for a whole cohort at once do so: by default with direct calls, "
        "the only ones where they can. Batched and looped runs agree within rounding, not in bits.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.workers and self.batched:
            raise ValueError(
                "batched must be left out with workers: a batch is one call for all clients in this process, got "
                f"workers={self.workers}"
            )
        return self

    def open(
        self, method: Method, tables: Mapping[str, Table], *, seed: int, run: str, shields: Sequence[Shield]
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
        self, method: Method, tables: Mapping[str, Table], *, seed: int, run: str, shields: Sequence[Shield]
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
        default=(), description="The sites that take part; all that were provisioned by default."
    )
    share_result: bool = Field(
        default=False, description="Send the final state to the sites, so that each can use its own model there."
    )

    def client_names(self, tables: Mapping[str, Table]) -> tuple[str, ...]:
        """Return the sites that are to take part, from the server's folder unless they are named."""
        if self.participants or self.server is None:
            return tuple(sorted(self.participants))
        return tuple(sorted(path.stem for path in (Path(self.server) / "sites").glob("*.pub")))

    def open(
        self, method: Method, tables: Mapping[str, Table], *, seed: int, run: str, shields: Sequence[Shield]
    ) -> Engine:
        """Open a deployment."""
        names = tuple(shield.at_sites for shield in shields if shield.at_sites is not None)
        if len(names) < len(shields):
            raise ParameterError("shields must be set at the sites, whose messages they protect, got some here")
        from cotempo.engines.flower.coordinator.engine import Flower

        return Flower(method, self, seed=seed, run=run, shields=names)


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
    kind = engine_type(name)
    for option in {*options} - {*kind.model_fields}:
        owners = [owner for owner, other in EngineSettings.engines.items() if option in other.model_fields]
        if owners:
            raise ParameterError(f"the engine {name} has no option {option!r}, which is for {' and '.join(owners)}")
    return kind.read(options, "[engine]")


def engine_type(name: object) -> type[EngineSettings]:
    """Return an engine's settings class."""
    engines = EngineSettings.engines
    if name not in engines:
        raise ParameterError(f"engine must be one of {', '.join(engines)}{nearest(str(name), engines)}, got {name!r}")
    return engines[str(name)]
