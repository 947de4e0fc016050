"""`describe`: everything the report says about one result, in sentences, tables and pictures."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from cotempo.data.tables import KINDS, pluralize
from cotempo.federation.fitted import Fitted
from cotempo.federation.method import Method
from cotempo.federation.wire import EMPTY
from cotempo.report.figures import plot_benefit, plot_progress
from cotempo.report.tables import PageTable, Picture, number, size
from cotempo.runs.folder import environment, read_experiment

MOST_FAILURES = 20


def describe(fitted: Fitted, truth: Any = None, run: Path | None = None) -> dict[str, Any]:
    """Return everything the page says about a result; `run` is the folder it is kept in, if any."""
    found = fitted.summary(truth)
    benefit, scores = fitted.benefit, found["scores"]
    pictures = [Picture.of(title, figure) for title, figure in fitted.figures(truth).items()]
    progress = plot_progress(fitted.history)
    frames = {title: frame for title, frame in fitted.tables().items() if title != "benefit" and len(frame)}
    traffic = Traffic(fitted)
    return {
        "title": read_experiment(run)["name"] if run else found["method"],
        "about": f"{found['method']}: {about(fitted.method)}" if run else about(fitted.method),
        "answer": fitted.answer(),
        "tiles": [
            (f"{len(fitted.names):,}", "client" if len(fitted.names) == 1 else "clients"),
            (f"{fitted.rounds:,}", "round" if fitted.rounds == 1 else "rounds"),
            (f"{fitted.seconds:.3g} s", "in all"),
            (size(traffic.up), "left the clients"),
            *((number(value), name.replace("_", " ")) for name, value in list(scores.items())[:2]),
        ],
        "notes": [begin_sentence(note, fitted.names) for note in found["advice"]],
        "pictures": pictures,
        "tables": {title[:1].upper() + title[1:]: PageTable.of(frame) for title, frame in frames.items()},
        "joining": fitted.joining.describe(fitted.method.metric, fitted.method.higher_is_better),
        "benefit": benefit_table(fitted) if benefit else None,
        "benefit_picture": Picture.of("Gain of each client", plot_benefit(benefit)) if benefit else None,
        "left": traffic.sentence(),
        "messages": traffic.messages(),
        "took_part": traffic.attendance(),
        "clients": traffic.clients(),
        "failures": list(failure_sentences(fitted.failures)),
        "privacy": list(privacy_sentences(fitted.privacy)),
        "progress": Picture.of("Metrics over the steps", progress) if progress else None,
        "phases": traffic.phases(),
        "scores": PageTable(("score", "value"), [(name.replace("_", " "), value) for name, value in scores.items()]),
        "card": model_card(fitted),
        "settings": PageTable(
            ("setting", "value"), [(name, str(value)) for name, value in fitted.method.get_params().items()]
        ),
        "digest": found["digest"],
        "repeated": (
            "The noise comes from the operating system, so that a repeated run ends in another state. This one is"
            if fitted.privacy.get("epsilon")
            else "The same data and seed give the same state, bit for bit:"
        ),
        "repeat": repeat_command(fitted, run),
    }


def begin_sentence(note: str, names: Sequence[str]) -> str:
    """Return a note with a capital letter, unless it begins with the name of a client.

    Examples
    --------
    >>> begin_sentence("es: two events", ["en", "es"]), begin_sentence("posts have no date", ["en", "es"])
    ('es: two events', 'Posts have no date')
    """
    return note if note.startswith(tuple(names)) else note[:1].upper() + note[1:]


def about(method: Method) -> str:
    """Return what a method does, by the first line of its docstring."""
    return (type(method).__doc__ or "").strip().partition("\n")[0]


def benefit_table(fitted: Fitted) -> PageTable:
    """Return clients' metric alone and together, the largest gain first."""
    items = sorted(fitted.benefit.items(), key=lambda item: -item[1].gain)
    rows = [(name, b.alone, b.together, b.gain, b.error, fitted.verdict(name)) for name, b in items]
    note = "A difference of at most two standard errors shows nothing."
    return PageTable(("client", "alone", "together", "gain", "standard error", "verdict"), rows, note, both_ends=True)


class Traffic:
    """Bytes and messages of a run, by phase and by client."""

    def __init__(self, fitted: Fitted):
        self.fitted = fitted
        self.steps: dict[str, list[Mapping[str, Any]]] = {}
        self.sent, self.got, self.counts = Counter[str](), Counter[str](), Counter[str]()
        for record in fitted.history:
            self.steps.setdefault(record["phase"], []).append(record)
            self.sent.update(record["received"])
            self.counts.update([*record["received"]])
            self.got.update(record["sent"])
        self.up = self.sent.total()

    def sentence(self) -> str:
        """Return how much left, in one sentence."""
        if not self.sent:
            return "Nothing left the clients."
        sizes = sorted(self.sent.values())
        each = f"{size(sizes[0])} each" if sizes[0] == sizes[-1] else f"{size(sizes[0])} to {size(sizes[-1])} each"
        count = pluralize(self.counts.total(), "message")
        return f"{pluralize(len(sizes), 'client')} sent {count}, {size(self.up)} in all: {each}. Rows of tables stayed."

    def messages(self) -> PageTable:
        """Return what was in the messages of each phase, in the words the clients were asked with."""
        rows = []
        for phase, records in self.steps.items():
            asked = self.fitted.outcome.asked.get(phase, {"summed": False, "fields": {}})
            used = "each as it is"
            if asked["summed"]:
                used = "the sum only, masked" if self.fitted.privacy.get("secure_sum") else "the sum only"
            words = "; ".join(f"{name}: {text}" if text else name for name, text in asked["fields"].items())
            words = words or EMPTY
            sizes = [count for record in records for count in record["received"].values()] or [0]
            rows.append((phase, words, used, len(sizes), round(median(sizes)), sum(sizes)))
        header = ("phase", "what a client sends", "what the server uses", "messages", "bytes of one", "bytes in all")
        return PageTable(header, rows, "“Your” is the client's own; the bytes of one message are the median.")

    def attendance(self) -> str:
        """Return who took part, in one sentence."""
        absent = [name for name in self.fitted.names if not self.counts[name]]
        lost = len(self.fitted.failures)
        first = f"{len(self.fitted.names) - len(absent):,} of {pluralize(len(self.fitted.names), 'client')} answered"
        none = f"; never: {', '.join(absent[:5])}{f' and {len(absent) - 5:,} more' * (len(absent) > 5)}" * bool(absent)
        left = f"{pluralize(lost, 'answer')} {'was' if lost == 1 else 'were'}" if lost else "No answer was"
        return f"{first}{none}. {left} left out."

    def clients(self) -> PageTable:
        """Return each client's answers and bytes, those with most answers left out first."""
        lost = Counter(failure["client"] for failure in self.fitted.failures)
        rows = [
            (name, self.counts[name], lost[name], self.sent[name], self.got[name])
            for name in sorted({*self.fitted.names, *lost}, key=lambda name: (-lost[name], name))
        ]
        return PageTable(("client", "answers", "left out", "bytes sent", "bytes received"), rows)

    def phases(self) -> PageTable:
        """Return steps, time and bytes of each phase."""
        rows = []
        for phase, records in self.steps.items():
            up, down = (sum(sum(record[way].values()) for record in records) for way in ("received", "sent"))
            rows.append((phase, len(records), float(sum(record["seconds"] for record in records)), up, down))
        return PageTable(("phase", "steps", "seconds", "bytes from clients", "bytes to clients"), rows)


def failure_sentences(failures: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each client and reason, the most frequent first."""
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    for failure in failures:
        key = (failure["client"], failure["phase"], failure["kind"], failure["detail"])
        groups.setdefault(key, []).append(failure["step"])
    order = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    for (client, phase, kind, detail), steps in order[:MOST_FAILURES]:
        when = f"step {steps[0]}" if len(steps) == 1 else f"{len(steps)} steps from {min(steps)} to {max(steps)}"
        words = re.split(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", kind)
        why = " ".join(word if word.isupper() else word.lower() for word in words) + (f": {detail}" if detail else "")
        yield f"{client} was left out of {when} ({phase}): {why}."
    if len(order) > MOST_FAILURES:
        yield f"{len(order) - MOST_FAILURES:,} more reasons are in the log of the run."


def privacy_sentences(privacy: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is promised, to whom, and what an audit found."""
    if privacy.get("void"):
        yield "Void: the noise was drawn from the run's seed, for a test. What follows does not hold."
    if epsilon := privacy.get("epsilon"):
        yield (
            f"The run is differentially private for each single {privacy['unit']}, with epsilon {number(epsilon)} and "
            f"delta {number(privacy['delta'])}, by {privacy['mechanism']}."
        )
        yield (
            f"This holds towards {privacy['protects_from']}: what they see is at most {math.exp(epsilon):.3g} times "
            f"as likely with any one {privacy['unit']} as without it, but for a chance of delta."
        )
    else:
        yield "No noise was added: no differential privacy is promised."
    if privacy.get("secure_sum"):
        yield "Where only sums are used, clients masked their messages: the server saw the sum over clients alone."
    else:
        what = "each client's noisy message" if epsilon else "what each client sent"
        yield f"Messages were not masked: the server saw {what}."
    if (audit := privacy.get("audit")) is not None:
        yield f"Audit: {audit}"


def model_card(fitted: Fitted) -> PageTable:
    """Return what a reader must know before using the model."""
    schemas = list(fitted.outcome.schemas.values())
    columns = list(dict.fromkeys(name for schema in schemas for name in schema.columns))
    named = ", ".join(columns[:12]) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
    made, times = environment(), [record["time"] for record in fitted.history]
    packages = f"cotempo {made['packages']['cotempo']}, Python {made['python']}, {made['platform']}"
    rows = [
        ("Method", f"{type(fitted.method).__name__}: {about(fitted.method)}"),
        ("Learned from", f"tables of {fitted.method.kind} of {pluralize(len(fitted.names), 'client')}"),
        (KINDS[fitted.method.kind].columns_are.capitalize(), named or "none"),
        ("Learned", f"{times[0][:16].replace('T', ' ')} UTC" if times else "unknown"),
        ("Judged by", _judge(fitted)),
        ("Known limits", "; ".join(fitted.advice()) or "none that this run shows; see the method's documentation"),
        ("Made with", packages),
    ]
    return PageTable(("", "about the model"), rows)


def _judge(fitted: Fitted) -> str:
    """Return the metric of held-out data; between organisations only the mean over clients is known."""
    if fitted.benefit or fitted.joining.compared:
        return next((each.metric for each in fitted.benefit.values()), type(fitted.method).metric)
    return "not measured on held-out data"


def repeat_command(fitted: Fitted, run: Path | None) -> str:
    """Return the one command, or line of Python, that repeats the run."""
    if run is not None:
        experiment = read_experiment(run)
        if "data" in experiment or experiment.get("engine", {}).get("name") == "flower":
            again = shlex.quote(f"{run}-again")
            return f"cotempo run {shlex.quote(str(run / 'experiment.toml'))} --run {again}"
        seed = f", seed={experiment['seed']}"
    else:
        seed = ", seed=..."
    private = ", privacy=..." if fitted.privacy.get("epsilon") else ""
    return f"ct.{fitted.method!r}.fit(clients{seed}{private})"
