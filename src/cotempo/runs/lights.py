"""`lights`: what each client of a run does now, in a word and a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from cotempo.progress import duration
from cotempo.runs.state import RunState, when

LATE_SECONDS, LATE_TIMES = 5.0, 3.0  # a client is late if it takes longer than both: seconds, and times the median
CAUSES = {
    "Lost": "no answer came",
    "Deadline": "too late",
    "WorkerDied": "its process died",
    "MessageError": "a message that is not valid",
    "DiskFull": "its disk is full",
    "Refused": "refused",
}


class Light(NamedTuple):
    """A client's name, its state in one word, and what is to know of it."""

    client: str
    word: str
    detail: str


def lights(state: RunState) -> Iterator[Light]:
    """Yield a light for each client of a run, as it is now; of a run that is over, how it took part."""
    pulse, going = state.pulse, state.is_going
    away, failed = pulse.get("away", {}), pulse.get("failed", {})
    answered, asked = pulse.get("answered", {}), {*pulse.get("asked", ())}
    asked_at = pulse.get("asked_at", 0.0)
    usual = median([moment - asked_at for moment in answered.values()]) if answered else 0.0
    for name in state.clients:
        if name in away and state.status != "finished":
            since = f"since {when(away[name], state.now)}".replace("since at", "since") if away[name] else ""
            yield Light(name, "gone", f"{since}; {_part(state, name)}".removeprefix("; "))
        elif name in failed and state.status != "finished":
            kind, detail = failed[name]
            word = "refused" if kind == "Refused" else "left out"
            cause = CAUSES.get(kind, f"error {kind}")
            yield Light(name, word, detail if kind == "Refused" or detail == cause else _join(cause, detail))
        elif not going:
            yield Light(name, "idle", _part(state, name))
        elif name in answered:
            yield Light(name, "answered", f"in {_span(answered[name] - asked_at)}")
        elif name in asked:
            waited = state.now - asked_at
            is_late = waited > max(LATE_SECONDS, LATE_TIMES * usual) and bool(answered)
            others = f", others took {_span(usual)}" if is_late else ""
            yield Light(name, "late" if is_late else "computing", f"for {duration(waited)}{others}")
        else:
            yield Light(name, "idle", "not asked in this step")


def _part(state: RunState, name: str) -> str:
    count = state.answers[name] + state.lost[name]
    if not count:
        return "never asked"
    return f"answered {state.answers[name]:,} of {count:,} questions"


def _join(cause: str, detail: str) -> str:
    return f"{cause}: {detail}" if detail else cause


def _span(seconds: float) -> str:
    if seconds < 0.1:
        return "under 0.1 s"
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)
