"""`exposition`: runs as numbers for Prometheus, in its text format, version 0.0.4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cotempo.runs.lights import lights
from cotempo.runs.state import GOING, STATES, RunState

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricValue(NamedTuple):
    """One value of a metric: the end of its name, if it has parts, and its labels."""

    value: float
    labels: Mapping[str, str]
    part: str = ""


class Metric(NamedTuple):
    """A metric as Prometheus knows it."""

    name: str
    kind: str
    description: str


def samples(name: str, state: RunState) -> Iterator[tuple[Metric, MetricValue]]:
    """Yield what a run says in numbers."""
    run, status, pulse = {"run": name}, state.status, state.pulse
    for each in STATES:
        yield STATUS, MetricValue(float(each == status), {**run, "state": each})
    yield ROUNDS, MetricValue(state.round, run)
    yield SECONDS, MetricValue(state.seconds, run, "_sum")
    yield SECONDS, MetricValue(state.steps, run, "_count")
    if state.beat:
        yield SIGN, MetricValue(state.beat, run)
    epsilon = state.experiment.get("privacy", {}).get("epsilon")
    if epsilon is not None:
        yield EPSILON, MetricValue(epsilon, run)
    kinds = Counter((failure["client"], failure["kind"]) for failure in state.failures)
    for (site, kind), count in sorted(kinds.items()):
        yield FAILURES, MetricValue(count, {**run, "site": site, "kind": kind})
    for light in lights(state):
        site = {**run, "site": light.client}
        yield ANSWERS, MetricValue(state.answers[light.client], site)
        yield BYTES, MetricValue(state.sent[light.client], site)
        if status in GOING:
            yield UP, MetricValue(float(light.word != "gone"), site)
        if light.client in pulse.get("answered", {}):
            yield LATENCY, MetricValue(pulse["answered"][light.client] - pulse["asked_at"], site)


STATUS = Metric("cotempo_run_state", "gauge", "1 for the state a run is in, 0 for all others.")
ROUNDS = Metric("cotempo_rounds_total", "counter", "Rounds a run has come to.")
SECONDS = Metric("cotempo_step_seconds", "summary", "Time of a run's steps.")
SIGN = Metric("cotempo_last_sign_timestamp_seconds", "gauge", "When a run last gave a sign, in seconds since 1970.")
EPSILON = Metric("cotempo_epsilon", "gauge", "The epsilon of a run with noise.")
FAILURES = Metric("cotempo_failures_total", "counter", "Answers that were not counted, by site and kind.")
ANSWERS = Metric("cotempo_answers_total", "counter", "Answers that were counted, by site.")
BYTES = Metric("cotempo_left_bytes_total", "counter", "Bytes that left a site.")
UP = Metric("cotempo_site_up", "gauge", "Whether a site of a run at work is there.")
LATENCY = Metric("cotempo_answer_seconds", "gauge", "How long a site took for its last answer.")


def exposition(states: Mapping[str, RunState]) -> str:
    """Return all runs as text; a metric's lines stand together, as Prometheus wants them."""
    found: dict[Metric, list[MetricValue]] = {}
    for name, state in states.items():
        for metric, sample in samples(name, state):
            found.setdefault(metric, []).append(sample)
    lines = []
    for metric, values in found.items():
        lines += [f"# HELP {metric.name} {metric.description}", f"# TYPE {metric.name} {metric.kind}"]
        for value, labels, part in values:
            shown = ",".join(f'{label}="{escape(text)}"' for label, text in labels.items())
            lines.append(f"{metric.name}{part}{{{shown}}} {float(value)!r}")
    return "\n".join([*lines, ""])


def escape(text: str) -> str:
    r"""Return a label's value as the format writes it.

    Examples
    --------
    >>> print(escape('say "hi"'))
    say \"hi\"
    """
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
