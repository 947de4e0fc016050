"""`dry_run`: everything a run would send, found by running it here and sending nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cotempo.data.tables import Framed, FrameKind, make_frame, pluralize
from cotempo.engines.inprocess import InProcess
from cotempo.engines.settings import InProcessSettings
from cotempo.federation.exchange import Expect, Question
from cotempo.federation.message import Message
from cotempo.federation.method import Method
from cotempo.federation.rounds import EVERYONE, LoopOptions, Participation, RunRecorder, initial_checkpoint, rounds
from cotempo.federation.wire import EMPTY, summarize_message
from cotempo.privacy.settings import Privacy
from cotempo.progress import Progress
from cotempo.runs.run import Run, tell
from cotempo.threads import limit_threads


def dry_run(
    method: Method,
    clients: Mapping[str, Any],
    *,
    public: Any = None,
    seed: int = 0,
    cohort: Participation = EVERYONE,
    privacy: Privacy | None = None,
    progress: bool | None = None,
) -> DryRun:
    """Return everything each client would send, phase by phase, and send nothing.

    The method runs to its end on this machine and on these tables, so that sizes and numbers of messages are those of
    the run with the same seed; what takes time and changes no message, such as training steps, is cut short. At a site
    that has its own table only, another number of rounds may be needed than with all clients.

    Parameters
    ----------
    method, clients, public, seed, cohort, privacy, progress
        As of `fit`.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, _ = ct.make_networks(variables=3, clients=2, samples=60)
    >>> print("\\n".join(ct.dry_run(ct.FedMean(), clients).lines()[:4]))
    client-0, client-1 would each send 2 messages and 80 bytes, 160 bytes together.
    <BLANKLINE>
    Phase 'mean': 1 message of 32 bytes a client; only the sum over clients is used.
      mean: 3 numbers: the mean of each variable over your complete rows; your number of rows is its weight
    """
    options, seen = LoopOptions(seed=seed, participation=cohort), MessageList()
    setup = Run.of(method.rehearsal(), clients, InProcessSettings(), options, public=public).guarded(privacy)
    method = setup.method  # with epsilon, its private form
    with limit_threads(1), Progress(f"{type(method).__name__}, dry run", progress) as say:
        engine = InProcess(method, setup.tables, seed=seed, shields=setup.options.shields)
        start = initial_checkpoint(method, engine, setup.options)
        for step in rounds(method, engine, setup.options, start=start, recorder=seen):
            tell(say, method, step)
    return DryRun(tuple(seen.records))


class MessageList(RunRecorder):
    """Keeps what clients would send, field by field, without values."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def log_message(self, question: Question, message: Message, expect: Expect) -> None:
        """Keep a message's sizes; a field without a fixed shape is marked: its size depends on the data."""
        record = summarize_message(question, message, expect)
        for name, field in record["fields"].items():
            spec = expect.fields.get(name)
            field["varies"] = spec is not None and (None in spec.shape or spec.dtype == "str")
        self.records.append(record)


@dataclass(frozen=True)
class DryRun(Framed):
    """What clients would send: `messages` in order, as `cotempo messages` shows them after a run."""

    messages: tuple[dict[str, Any], ...]

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes in all by client."""
        names = sorted({record["client"] for record in self.messages})
        return {name: sum(record["bytes"] for record in self._of(client=name)) for name in names}

    def _of(self, **wanted: str) -> list[dict[str, Any]]:
        return [record for record in self.messages if all(record[key] == value for key, value in wanted.items())]

    def lines(self) -> list[str]:
        """Return what would be sent in plain words: totals by client, then every phase with its fields."""
        if not self.messages:
            return ["Nothing would be sent."]
        alike: dict[str, list[str]] = {}
        for name, size in self.sizes.items():
            sent = f"send {pluralize(len(self._of(client=name)), 'message')} and {size:,} bytes"
            alike.setdefault(sent, []).append(name)
        totals = []
        for sent, names in alike.items():
            together = f", {sum(self.sizes[name] for name in names):,} bytes together" if names[1:] else ""
            totals.append(f"{', '.join(names)} would {'each ' if names[1:] else ''}{sent}{together}.")
        return [*totals, "", *self.phases()]

    def phases(self) -> list[str]:
        """Return lines on what is sent in each phase, whoever sends it."""
        found = dict.fromkeys(record["phase"] for record in self.messages)
        return [line for phase in found for line in self._phase(phase)]

    def _phase(self, phase: str) -> Iterator[str]:
        records = self._of(phase=phase)
        fate = "only the sum over clients is used" if records[0]["summed"] else "each is used as it is"
        times = [len(self._of(phase=phase, client=name)) for name in {record["client"] for record in records}]
        count = pluralize(times[0], "message") if len({*times}) == 1 else f"{min(times)} to {max(times)} messages"
        yield f"Phase {phase!r}: {count} of {span(record['bytes'] for record in records)} bytes a client; {fate}."
        if not records[0]["fields"]:
            yield f"  {EMPTY}"
        for name, field in records[0]["fields"].items():
            numbers = [_count(record["fields"][name]) for record in records if name in record["fields"]]
            what = "one number" if {*numbers} == {1} else f"{span(numbers)} numbers"
            varies = " (depends on the data)" if field["varies"] else ""
            yield f"  {name}: {what}{varies}{field['description'] and ': ' + field['description']}"

    def to_frame(self, kind: FrameKind = "pandas") -> Any:
        """Return one row per client, step and field."""
        rows = [
            (record["client"], record["step"], record["round"], record["phase"], name, _count(field),
             field.get("bytes", 8), record["summed"], field["description"])
            for record in self.messages for name, field in record["fields"].items()
        ]  # fmt: skip
        names = ("client", "step", "round", "phase", "field", "numbers", "bytes", "summed", "description")
        return make_frame({name: [row[place] for row in rows] for place, name in enumerate(names)}, kind)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _count(field: Mapping[str, Any]) -> int:
    size = 1
    for length in field.get("shape", ()):
        size *= length
    return size


def span(values: Any) -> str:
    """Return numbers as one, or as the smallest and the largest."""
    found = {*values}
    return f"{min(found):,}" if len(found) == 1 else f"{min(found):,} to {max(found):,}"
