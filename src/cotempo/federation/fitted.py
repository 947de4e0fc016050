"""`Fitted`, the result of `fit`: the learned state, its history, and whether joining helped each client."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotempo.data import Schema
from cotempo.data.html import html_table
from cotempo.data.tables import make_frame, pluralize
from cotempo.devices import Device
from cotempo.errors import DataError, Problem, RunError, nearest
from cotempo.federation.benefit import NOT_COMPARED, Benefit, Joining, standard_error
from cotempo.federation.method import Memory, Method, State
from cotempo.federation.reducers import SUSPICION
from cotempo.federation.registry import find_method
from cotempo.storage.files import write_whole
from cotempo.storage.saved import pack, read_object, unpack
from cotempo.storage.tree import TreeError, decode, digest, encode, stack, unstack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Differences of values that are equal but for rounding, as a share of them.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Outcome:
    """What a finished run leaves: everything a `Fitted` is made of.

    `asked` says by phase what clients sent: the description of every field, and whether only the sum is used. `warned`
    is what was odd about the tables, and `tables` has their hashes by client, where they were here.
    """

    method: Method
    state: State
    schemas: Mapping[str, Schema]
    memories: Mapping[str, Memory]
    history: tuple[Mapping[str, Any], ...] = ()
    privacy: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    warned: tuple[str, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)


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
    streams
        Clients' models that change as they are used, such as a detector that follows a stream; saved with the rest.
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
        self.streams: dict[str, Any] = {}

    def __getitem__(self, client: str) -> Any:
        """Return the result for one client; a method with one model for all returns that model."""
        if client not in self.outcome.schemas:
            known = ", ".join(self.names[:10])
            raise DataError(
                [Problem(f"there is no such client{nearest(client, self.names)}; known are {known}", client)]
            )
        return self

    def for_newcomer(self) -> Any | None:
        """Return the model for a client that took no part, if all clients have the same; else `None`."""
        return self if type(self).__getitem__ is Fitted.__getitem__ else None

    def __repr__(self) -> str:
        return f"<{self.headline()}>"

    def _repr_html_(self) -> str:
        benefit = self.benefit
        rows = [(name, b.alone, b.together, b.gain, b.error, self.verdict(name)) for name, b in benefit.items()]
        better = {True: "higher is better", False: "lower is better"}
        metrics = {f"{item.metric}; {better[item.higher_is_better]}" for item in benefit.values()}
        header = ("client", "alone", "together", "gain", "error", "verdict") if rows else ()
        return html_table(self.headline(), rows, header, [repr(self.method), *sorted(metrics)])

    def headline(self) -> str:
        """Return the method, the number of clients and rounds, and the seconds in one line."""
        sizes = f"{pluralize(len(self.names), 'client')}, {pluralize(self.rounds, 'round')}"
        return f"{type(self.method).__name__}: {sizes}, {self.seconds:.2f} s"

    def answer(self) -> str:
        """Return the result in one sentence with its uncertainty, for the head of the report."""
        return self.joining.describe(self.method.metric, self.method.higher_is_better)

    def summary(self, truth: Any = None) -> dict[str, Any]:
        """Return what the command line and the report say: sizes, scores against a known truth, benefit, failures."""
        return {
            "method": type(self.method).__name__,
            "clients": self.names,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "scores": dict(self.scores(truth)) if truth is not None else {},
            "benefit": self.benefit,
            "helped": self.joining.helped,
            "compared": self.joining.compared,
            "advice": self.advice(),
            "failures": self.failures,
            "digest": self.digest,
        }

    def advice(self) -> list[str]:
        """Return what was odd about tables, who was harmed by joining, and who was not compared, with the reason.

        Where sites keep their memories, only sums are known here.
        """
        lines = list(self.outcome.warned)
        if self._is_alone:
            return [
                *lines,
                *self.warnings(),
                f"{self.names[0]} is the only client: nobody joined, so that nothing is compared",
            ]
        benefit, name = self.benefit, type(self.method).__name__
        if self.joining.compared > len(benefit):
            return [*lines, f"{self.joining}; each site knows its own figures"]
        harmed = [client for client in benefit if benefit[client].verdict == "harmed"]
        missing = [client for client in self.names if client not in benefit and client not in self.suspects]
        lines += self.warnings()
        if harmed:
            own = self.method.learns_alone or f"{name}(...).fit({{{harmed[0]!r}: table}})"
            lines.append(
                f"joining harmed {_some(harmed)}; to use a model of its own, learn from its table alone: {own}"
            )
        if any(item.error is None for item in benefit.values()):
            lines.append(
                f"{name} measures no error of the difference between alone and together, and one run can differ by "
                "chance: run several seeds before you judge"
            )
        if missing:
            why = f"compares {self.method.compares or 'clients with enough data to hold some out'}"
            if self.privacy.get("epsilon") is not None:
                why = "with epsilon compares nobody: every comparison would tell about held-out rows"
            elif not self.method.metric:
                why = "does not compare"
            elif getattr(self.method, "compare", True) is False:
                why = "has compare=False"
            lines.append(f"not compared with learning alone: {_some(missing)} ({name} {why})")
        return lines

    def tables(self) -> Mapping[str, Any]:
        """Return the results as dataframes by name, for the report and for `cotempo export`."""
        names = ("alone", "together", "gain", "error", "verdict", "metric")
        own = {client: {"verdict": self.verdict(client)} for client in self.benefit}
        rows = [
            (client, *(own[client].get(name, getattr(item, name)) for name in names))
            for client, item in self.benefit.items()
        ]
        columns = {name: [row[place] for row in rows] for place, name in enumerate(("client", *names))}
        return {"benefit": make_frame(columns)} if rows else {}

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
    def suspects(self) -> tuple[str, ...]:
        """Clients that were left out of a sum because they differ from all others; `failures` say in what."""
        return tuple(sorted({failure["client"] for failure in self.failures if failure["kind"] == SUSPICION}))

    def warnings(self) -> list[str]:
        """Return a sentence on each client that was left out because it differs from all others, for `fit` to warn."""
        return [
            f"{client} was left out of {_some(phases)}: {detail}. If its table is as it should be (cotempo.survey "
            'looks for faults), take everybody in by fit(..., reducer=cotempo.Robust("mean", cap=None))'
            for client in self.suspects
            for phases, detail in [self._suspicion(client)]
        ]

    def _suspicion(self, client: str) -> tuple[list[str], str]:
        """Return in which phases a client was left out, and the first reason."""
        told = [f for f in self.failures if f["client"] == client and f["kind"] == SUSPICION]
        return list(dict.fromkeys(failure["phase"] for failure in told)), told[0]["detail"]

    @property
    def benefit(self) -> Mapping[str, Benefit]:
        """Per client, its metric alone and together with the others; at a site, the site's own; none for one client.

        Clients keep these figures: a coordinator of remote sites has only their sums, `joining`.
        """
        if self._is_alone:
            return {}
        method, choice = self.method, self.joining.choice
        kept = {name: getattr(memory, "compared", NOT_COMPARED) for name, memory in self.outcome.memories.items()}
        found = {name: compared[choice].tolist() for name, compared in sorted(kept.items()) if compared.size}
        return {
            name: Benefit(method.metric, alone, together, method.higher_is_better, None if math.isnan(error) else error)
            for name, (alone, together, error) in found.items()
        }

    @property
    def kept_own(self) -> Sequence[str]:
        """Clients known to use a model of their own rows in place of the common one; here none."""
        return ()

    def verdict(self, client: str) -> str:
        """Return whether joining helped a client, for tables; or that it kept its own model, and so lost nothing."""
        return "kept its own model" if client in self.kept_own else self.benefit[client].verdict

    @property
    def joining(self) -> Joining:
        """How many clients joining helped, and the mean gain: sums over clients."""
        return Joining() if self._is_alone else self.method.joining(self.state)

    @property
    def _is_alone(self) -> bool:
        """Whether there was one client only; what a site keeps of a run is of one client, too, but has no history."""
        return len(self.names) == 1 and len(self.history) > 0

    @property
    def digest(self) -> str:
        """SHA-256 of the state: equal for runs that are the same, bit for bit."""
        return digest(self.state)

    def plot(self) -> Figure:
        """Draw how much joining helped each client, with two standard errors."""
        from cotempo.report.figures import plot_benefit

        return plot_benefit(self.benefit)

    def figures(self, truth: Any = None) -> Mapping[str, Figure]:
        """Pictures of the result by title, for the report."""
        return {}

    def scores(self, truth: Any) -> Mapping[str, float]:
        """How near the result is to a known truth, for the report."""
        return {}

    def report(self, path: str | Path, truth: Any = None, run: str | Path | None = None) -> Path:
        """Write one self-contained HTML page about this result.

        Parameters
        ----------
        path
            The file to write.
        truth
            What generated data were made from, to compare with.
        run
            The folder the run is kept in, for the command that repeats it.
        """
        from cotempo.report import write_report

        return write_report(self, Path(path), truth, Path(run) if run else None)

    def save(self, folder: str | Path) -> Path:
        """Write the result to a folder that `cotempo.load` reads; replace what an earlier `save` wrote there.

        The folder of a run keeps it as its result.
        """
        folder = Path(folder)
        folder = folder / "result" if (folder / "experiment.toml").is_file() else folder
        folder.mkdir(parents=True, exist_ok=True)
        about = {
            "method": type(self.method).__name__,
            "parameters": self.method.model_dump(mode="json"),
            "schemas": {name: vars(schema) for name, schema in self.outcome.schemas.items()},
            "privacy": self.privacy,
            "asked": dict(self.outcome.asked),
            "warned": list(self.outcome.warned),
            "tables": dict(self.outcome.tables),
        }
        write_whole(folder / "state.safetensors", encode(self.state))
        write_whole(folder / "memories.safetensors", encode(stack(self.outcome.memories)))
        write_whole(folder / "streams.safetensors", encode(pack(self.streams)))
        write_whole(folder / "history.jsonl", "".join(json.dumps(record) + "\n" for record in self.history).encode())
        write_whole(folder / "fitted.json", json.dumps(about, indent=1).encode())
        return folder


def plus_minus(values: Sequence[float]) -> str:
    """Return the mean of values and its standard error, such as clients' gains.

    Examples
    --------
    >>> plus_minus([0.1, 0.2, 0.3])
    '+0.2 ± 0.058'
    >>> plus_minus([0.1 + 0.2, 0.3, 0.3])
    '+0.3'
    """
    spread = standard_error(values)
    # What is left of rounding is no error.
    error = f" ± {spread:.2g}" if len(values) > 1 and spread > ROUNDING * max(map(abs, values)) else ""
    return f"{sum(values) / len(values) + 0.0:+.3g}{error}"  # no minus before a zero


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def load(path: str | Path, *, device: Device | None = None) -> Any:
    """Read what was saved: the folder of a finished run, a folder that a result was saved to, or a model's file.

    Parameters
    ----------
    path
        The folder or file.
    device
        Replaces the device it was learned on, such as a GPU that is not here.
    """
    folder, replaced = Path(path), {"device": device} if device else {}
    if folder.is_file():
        return read_object(folder, **replaced)
    if not folder.exists():
        raise RunError(f"{folder} must be a run, a saved result or a saved model, there is nothing of this name")
    if (folder / "experiment.toml").is_file():
        if not (folder / "result").is_dir():
            raise RunError(f"{folder} must be a finished run, it has no result; continue with: cotempo resume {folder}")
        folder = folder / "result"
    try:
        about = json.loads((folder / "fitted.json").read_text())
        method = find_method(about["method"])(**{**about["parameters"], **replaced})
        schemas = {
            name: Schema(schema["kind"], tuple(schema["columns"]), schema["unit"], schema["zone"])
            for name, schema in about["schemas"].items()
        }
        outcome = Outcome(
            method,
            decode((folder / "state.safetensors").read_bytes(), method.State),
            schemas,
            unstack(decode((folder / "memories.safetensors").read_bytes()), *method.memory_types),
            tuple(json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()),
            about["privacy"],
            about["asked"],
            tuple(about.get("warned", ())),
            about.get("tables", {}),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said when it was learned, and still in `advice`
            fitted = method.result(outcome)
        fitted.streams = unpack(decode((folder / "streams.safetensors").read_bytes()), replaced)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, TreeError) as error:
        raise RunError(f"{folder} must hold a saved result: {error}") from error
    return fitted
