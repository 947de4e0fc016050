"""`Fitted`, the result of `fit`: the learned state, its history, and whether joining helped each client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotempo.data import Schema
from cotempo.data.html import html_table
from cotempo.devices import Device
from cotempo.errors import DataError, Problem, RunError, nearest
from cotempo.federation.method import Benefit, Memory, Method, State
from cotempo.federation.registry import find_method
from cotempo.storage.files import write_whole
from cotempo.storage.tree import TreeError, decode, digest, encode, stack, unstack

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Outcome:
    """What a finished run leaves: everything a `Fitted` is made of."""

    method: Method
    state: State
    schemas: Mapping[str, Schema]
    memories: Mapping[str, Memory]
    history: tuple[Mapping[str, Any], ...] = ()
    privacy: Mapping[str, Any] = field(default_factory=dict)


class Fitted:
    """A method's result.

    Attributes
    ----------
    method, state
        The method as it was configured, and what its server learned.
    names
        The clients.
    history
        One record per step: round, phase, seconds, metrics, bytes sent and received per client, failures.
    privacy
        What the run did so that messages tell less, as `cotempo.Privacy` names it.
    """

    def __init__(self, outcome: Outcome):
        self.outcome = outcome
        self.method = outcome.method
        self.state = outcome.state
        self.history = outcome.history
        self.privacy = dict(outcome.privacy)
        self.names = tuple(sorted(outcome.schemas))

    def __getitem__(self, client: str) -> Any:
        """Return the result for one client; a method with one model for all returns that model."""
        if client not in self.outcome.schemas:
            known = ", ".join(self.names[:10])
            raise DataError(
                [Problem(f"there is no such client{nearest(client, self.names)}; known are {known}", client)]
            )
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.method!r}, {len(self.names)} clients, {self.rounds} rounds)"

    def _repr_html_(self) -> str:
        benefit = self.benefit
        rows = [(name, item.alone, item.together, item.gain) for name, item in benefit.items()]
        better = {True: "higher is better", False: "lower is better"}
        metrics = {f"{item.metric}; {better[item.higher_is_better]}" for item in benefit.values()}
        header = ("client", "alone", "together", "gain") if rows else ()
        return html_table(self.headline(), rows, header, [repr(self.method), *sorted(metrics)])

    def headline(self) -> str:
        """Return the method, the number of clients and rounds, and the seconds in one line."""
        return f"{type(self.method).__name__}: {len(self.names)} clients, {self.rounds} rounds, {self.seconds:.2f} s"

    def summary(self, truth: Any = None) -> dict[str, Any]:
        """Return what the command line and the report say: sizes, scores against a known truth, benefit, failures."""
        return {
            "method": type(self.method).__name__,
            "clients": self.names,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "scores": dict(self.scores(truth)) if truth is not None else {},
            "benefit": self.benefit,
            "helped": sum(item.helped for item in self.benefit.values()),
            "failures": self.failures,
            "digest": self.digest,
        }

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return max((record["round"] for record in self.history), default=0)

    @property
    def seconds(self) -> float:
        """How long all steps took."""
        return float(sum(record["seconds"] for record in self.history))

    @property
    def failures(self) -> list[Mapping[str, Any]]:
        """Every answer that was not counted, and why."""
        return [failure for record in self.history for failure in record["failures"]]

    @property
    def benefit(self) -> Mapping[str, Benefit]:
        """Per client, its metric alone and together with the others."""
        return self.method.benefit(self.state)

    @property
    def digest(self) -> str:
        """SHA-256 of the state: equal for runs that are the same, bit for bit."""
        return digest(self.state)

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Pictures of the result by title, for the report."""
        return {}

    def scores(self, truth: Any) -> Mapping[str, float]:
        """How near the result is to a known truth, for the report."""
        return {}

    def report(self, path: str | Path, truth: Any = None) -> Path:
        """Write one self-contained HTML page about this result."""
        from cotempo.report import write_report

        return write_report(self, Path(path), truth=truth)

    def save(self, folder: str | Path) -> Path:
        """Write the result to a folder that `cotempo.load` reads."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        about = {
            "method": type(self.method).__name__,
            "parameters": self.method.model_dump(mode="json"),
            "schemas": {name: vars(schema) for name, schema in self.outcome.schemas.items()},
            "privacy": self.privacy,
        }
        write_whole(folder / "state.safetensors", encode(self.state))
        write_whole(folder / "memories.safetensors", encode(stack(self.outcome.memories)))
        write_whole(folder / "history.jsonl", "".join(json.dumps(record) + "\n" for record in self.history).encode())
        write_whole(folder / "fitted.json", json.dumps(about, indent=1).encode())
        return folder


def load(folder: str | Path, *, device: Device | None = None) -> Any:
    """Read a result that `Fitted.save` wrote; `device` replaces the one it was learned on, such as a GPU not here."""
    folder = Path(folder)
    try:
        about = json.loads((folder / "fitted.json").read_text())
        method = find_method(about["method"])(**{**about["parameters"], **({"device": device} if device else {})})
        schemas = {
            name: Schema(kind=schema["kind"], columns=tuple(schema["columns"]), unit=schema["unit"])
            for name, schema in about["schemas"].items()
        }
        outcome = Outcome(
            method,
            decode((folder / "state.safetensors").read_bytes(), method.State),
            schemas,
            unstack(decode((folder / "memories.safetensors").read_bytes()), *method.memory_types),
            tuple(json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()),
            about.get("privacy", {}),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, TreeError) as error:
        raise RunError(f"{folder} must hold a saved result: {error}") from error
    return outcome.method.result(outcome)
