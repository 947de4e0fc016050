"""`RequestWords`: a request to a site in plain words, for the person who decides."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from cotempo.data import Schema
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.federation.exchange import Expect, Spec
from cotempo.federation.method import Method, Roster
from cotempo.federation.registry import find_method
from cotempo.federation.rng import Rng
from cotempo.privacy.approval import Request
from cotempo.privacy.contract import Contract
from cotempo.privacy.ledger import FEWEST, Entry, Ledger
from cotempo.privacy.settings import Privacy

QUESTIONS = {
    "events": "When does it happen, and how often?",
    "series": "What belongs into the gaps, and what do data like these look like?",
    "social": "Which posts tell of the same event?",
    "networks": "What drives what, at once and some steps later?",
}
STRONG, USUAL = 1.0, 3.0  # the largest epsilon of noise that is called so
NOTHING = ("no numbers", "nothing leaves: you are told what was learned")
OWN = " (your site's own rule)"
LONGEST = 120  # letters of a value that a coordinator chose


class AskedSetting(NamedTuple):
    """A parameter of the method: what is asked for, what is usual, and what it means."""

    name: str
    asked: str
    usual: str
    meaning: str


class Leaving(NamedTuple):
    """What would leave in a phase: how often at most, who could read it, and every field with its size in words."""

    phase: str
    most: int
    is_summed: bool
    fields: Sequence[tuple[str, str]]


class Companion(NamedTuple):
    """Another participant, and in how many earlier runs this site met it."""

    name: str
    met: int


@dataclass(frozen=True)
class RequestWords:
    """A request in words: what is asked, what would leave, who takes part, what to look at."""

    request: Request
    settings: SiteSettings
    ledger: Ledger

    @cached_property
    def method(self) -> Method:
        """The method, as it would run here."""
        return self.settings.privacy.guard(find_method(self.request.agreed.method)(**self.request.agreed.parameters))

    @property
    def run(self) -> str:
        """The run's identity."""
        return self.request.agreed.run

    @property
    def title(self) -> str:
        """The method, and on what."""
        return f"{self.request.agreed.method} on your {self.request.kind}"

    @property
    def purpose(self) -> str:
        """What the coordinator says it is for."""
        return read_purpose(self.request.agreed)

    @property
    def about(self) -> str:
        """What the method does: the first sentence of its description."""
        return inspect.cleandoc(type(self.method).__doc__ or "").partition("\n")[0]

    @property
    def question(self) -> str:
        """The question that the method's family answers; empty for a method of the site's own."""
        return QUESTIONS.get(type(self.method).__module__.removeprefix("cotempo.").partition(".")[0], "")

    @property
    def rows(self) -> str:
        """The rows of the table; hidden if they are few."""
        return count_rows(self.request.rows, self.settings.privacy.minimum_rows)

    @cached_property
    def parameters(self) -> list[AskedSetting]:
        """Every parameter."""
        method = self.method
        fields = type(method).model_fields
        defaults = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
        agreed = type(method)(**self.request.agreed.parameters)
        return [
            AskedSetting(
                name,
                _short(getattr(method, name)) + (OWN if getattr(method, name) != getattr(agreed, name) else ""),
                _short(defaults[name]),
                _plain(fields[name].description),
            )
            for name in fields
        ]

    @property
    def unusual(self) -> list[AskedSetting]:
        """The parameters that the run sets to other values than their defaults; not what this site makes stricter."""
        agreed = type(self.method)(**self.request.agreed.parameters)
        changed = {name for name in type(agreed).model_fields if getattr(agreed, name) != getattr(self.method, name)}
        return [one for one in self.parameters if one.asked != one.usual and one.name not in changed]

    @property
    def numbers(self) -> dict[str, float]:
        """The parameters that are numbers, for which a standing approval may have a range."""
        found = self.request.agreed.parameters.items()
        return {name: value for name, value in found if isinstance(value, int | float) and not isinstance(value, bool)}

    @cached_property
    def privacy(self) -> Privacy:
        """What protects the run's messages."""
        return Privacy.read(self.request.agreed.privacy, "privacy")

    @cached_property
    def leaving(self) -> list[Leaving] | None:
        """What would leave, phase by phase; `None` if only the coordinator can tell, who has a public table."""
        method = self.method if self.privacy.epsilon is None else self.method.private(self.privacy)
        found = expectations(method, self.request.table)
        if found is None:
            return None
        later = Spec((0,), description="sums decided by what was learned before; “Try it here” lists them")
        unknown = Expect({"": later}, sums=True)
        return [
            Leaving(
                phase,
                method.most_questions.get(phase, 1),
                expect.sums,
                [(_size(spec), spec.description or name) for name, spec in expect.fields.items()] or [NOTHING],
            )
            for phase, expect in ((phase, each or unknown) for phase, each in found.items())
            if method.most_questions.get(phase, 1)
        ]

    @cached_property
    def earlier(self) -> list[Entry]:
        """The earlier runs, the newest first."""
        runs = [entry for entry in self.ledger.kept if entry["kind"] == "run" and entry["run"] != self.run]
        return runs[::-1]

    @property
    def same(self) -> list[Entry]:
        """The earlier runs on this kind of table, the newest first."""
        return [entry for entry in self.earlier if entry["data"] == self.request.kind]

    @property
    def together(self) -> float:
        """The epsilon of this run and of the earlier ones on this kind of table."""
        is_new = self.ledger.find_run(self.run) is None
        return self.ledger.spent(self.request.kind) + (self.privacy.epsilon or 0.0) * is_new

    @property
    def others(self) -> list[str]:
        """The other participants."""
        return sorted({*self.request.agreed.participants} - {self.settings.name})

    @property
    def companions(self) -> list[Companion]:
        """The other participants, and in how many runs on any table this site met them."""
        return [Companion(name, sum(name in entry["participants"] for entry in self.earlier)) for name in self.others]

    @property
    def most_epsilon(self) -> str:
        """What noise a run has that is like this one."""
        asked = self.privacy.epsilon
        return "no noise" if asked is None else f"an epsilon of at most {asked:g} each"

    @property
    def compared(self) -> str:
        """The participants against those of the last run on this kind of table."""
        same = self.same
        if not same:
            return f"No run has used your {self.request.kind} before."
        last, now = {*same[0]["participants"]}, {*self.request.agreed.participants}
        when = f"your last run on {self.request.kind}, {same[0]['method']} of {same[0]['time'][:10]}"
        changes = [
            f"{word}: {', '.join(sorted(names))}"
            for word, names in (("new", now - last), ("missing", last - now))
            if names
        ]
        if not changes:
            return f"The same sites as in {when}."
        told = "" if self.privacy.epsilon is None else " The noise is what hides them."
        few = f" Two sums that differ by few sites tell about these.{told}" if len(now ^ last) < FEWEST else ""
        return f"Compared with {when}: {'; '.join(changes)}.{few}"

    @property
    def noise(self) -> str:
        """What of the budget is asked for, and what would be left."""
        asked, budget = self.privacy.epsilon, self.settings.privacy.budget
        spent = self.ledger.spent(self.request.kind)
        if asked is None:
            said = "No noise is added: sums over all sites become known exactly."
        else:
            unit = self.privacy.unit
            said = f"{grade(asked)} noise (epsilon {asked:g}, delta {self.privacy.delta:g}) hides single {unit}s. "
            said += explain_epsilon(asked, self.privacy.delta, unit)
            said += "" if unit == "client" else f" A person in several {unit}s is hidden less."
        together = self.together - spent
        if asked is not None and spent:
            said += f" Together with earlier runs, epsilon {self.together:g} is revealed: at most "
            said += f"{_percent(self.together)} sure."
        if asked is not None and any(entry["privacy"].get("epsilon") is None for entry in self.same):
            said += " An earlier run had no noise: none of this holds for what that one revealed."
        if budget is None:
            return f"{said} You have set no budget" + (": each run adds to that." if asked else ".")
        left = max(budget - spent - together, 0.0)
        return f"{said} Of your budget of {budget:g}, {spent:g} is spent; after this run {left:g} is left."

    @property
    def attention(self) -> list[str]:
        """What a person should look at, each in a sentence."""
        clear = [one.phase for one in self.leaving or [] if not one.is_summed]
        new = [one.name for one in self.companions if not one.met]
        masked, epsilon = self.privacy.secure_sum, self.privacy.epsilon
        found = {
            "Sums are not masked: the coordinator can read what you send.": not masked,
            f"In {_list(clear)} the coordinator reads your answer by itself, not a sum.": masked and clear,
            "What would leave cannot be shown here: this method needs a table that only the coordinator has. Ask for a "
            "dry run.": self.leaving is None,
            self.method.reveals(): epsilon is None and self.method.reveals(),
            "No noise is added: what is learned can tell a little about single rows.": epsilon is None,
            f"Noise is added, but with earlier runs it is weak: in the worst case somebody becomes "
            f"{_percent(self.together)} sure that a certain {self.privacy.unit} is in your table.": (
                epsilon is not None and self.together > USUAL
            ),
            f"New to you: {_list(new)}. Do you know them?": new,
            f"Settings differ from what is usual: {_list([one.name for one in self.unusual])}.": self.unusual,
            "The coordinator says nothing about what it is for. Ask.": not self.purpose,
        }
        return [words for words, holds in found.items() if holds]


def read_purpose(contract: Contract) -> str:
    """Return what a coordinator says a run is for, on one line that reads as it is written; empty if nothing."""
    said = " ".join(contract.purpose.split())
    return "".join(letter if letter.isprintable() else "?" for letter in said)


def grade(epsilon: float) -> str:
    """Return how strong noise is, in a word.

    Examples
    --------
    >>> grade(0.5), grade(3.0), grade(8.0)
    ('Strong', 'Usual', 'Weak')
    """
    return "Strong" if epsilon <= STRONG else "Usual" if epsilon <= USUAL else "Weak"


def _percent(epsilon: float) -> str:
    sure = 100 / (1 + math.exp(-epsilon))
    return f"{math.ceil(sure) if sure < 99 else 99.9 if sure < 99.9 else 100:g} %"


def explain_epsilon(epsilon: float, delta: float, unit: str) -> str:
    """Return what an epsilon promises, in a sentence: how sure somebody can become who thought it as likely as not.

    By Bayes' rule the odds grow by a factor of at most exp(epsilon), but for a chance of delta.

    Examples
    --------
    >>> explain_epsilon(1.0, 1e-5, "row")
    'Somebody who thinks it as likely as not that a certain row is in your table can become at most 74 % sure by all that this run reveals (with a chance of 1 in 100,000, surer).'
    """  # noqa: E501
    how = f"{_percent(epsilon)} sure"
    chance = f"with a chance of 1 in {1 / delta:,.0f}, surer"
    what = "your table is the one that was used" if unit == "client" else f"a certain {unit} is in your table"
    return (
        f"Somebody who thinks it as likely as not that {what} can become at most {how} by all that this run reveals "
        f"({chance})."
    )


def count_rows(rows: int, least: int) -> str:
    """Return a number of rows, unless it is so small that it would tell about single ones.

    Examples
    --------
    >>> count_rows(1234, 50), count_rows(7, 50)
    ('1,234 rows', 'not shown: fewer than 50 rows')
    """
    return f"{rows:,} rows" if rows >= least else f"not shown: fewer than {least} rows"


def expectations(method: Method, schema: Schema) -> dict[str, Expect | None] | None:
    """Return what a method expects in each phase, as a site can tell; `None` if it cannot open the method.

    A phase whose answer depends on a later state, which only sums do, has `None`.
    """
    try:
        state = method.open(Roster({"site": schema}), None, Rng(0, "server", 0, "open"))
    except Exception:  # the method needs a public table, which only the server has
        return None

    def expect(phase: str) -> Expect | None:
        try:
            return method.expects(state, phase)
        except Exception:
            return None

    return {phase: expect(phase) for phase in method.phases}


def clear_phases(method: Method, schema: Schema) -> list[str] | None:
    """Return the phases that are no sums by the site's own code, or `None` if a site cannot tell.

    A server that asked another phase singly would read what the contract says is a sum.
    """
    found = expectations(method, schema)
    return None if found is None else [phase for phase, expect in found.items() if expect and not expect.sums]


def _size(spec: Spec) -> str:
    if not spec.shape:
        return "one number"
    if not all(spec.shape):
        return "numbers, how many is decided later"
    known = math.prod(length or 0 for length in spec.shape)
    more = f", at most {spec.most:,}" if spec.most and spec.most > known else ""
    return f"{known:,} numbers{more}" if known > 1 else f"one number{more}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _plain(description: str | None) -> str:
    """Return a description without the marks of code, which a page does not set as such."""
    return (description or "").replace("`", "")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
