"""`Attack`: which clients lie and how; `Lying`, the shield they answer through."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from cotempo.attacks.messages import LIES, Situation
from cotempo.attacks.tables import POISONS
from cotempo.data import Table
from cotempo.data.argument_checks import check_choice
from cotempo.federation.engine import Engine
from cotempo.federation.exchange import Ask, Expect, Question, Reply
from cotempo.federation.message import Message
from cotempo.federation.rng import Rng
from cotempo.federation.shields import Shield
from cotempo.settings import Settings

AttackName = Literal[
    "sign_flip", "scaling", "gaussian", "inner_product", "alie", "mimic", "label_flip", "backdoor", "free_rider",
    "inflated_weight", "forged_edge", "lying_duals", "inflated_precision", "flooded_counts", "flooding",
    "trigger_motif", "replay", "poisoned_vocabulary",
]  # fmt: skip


class Attack(Settings):
    """Let some clients lie, to see what that does to a result.

    Clients that poison their tables answer honestly from them; all others change what they send. ``alie``,
    ``inner_product`` and ``mimic`` see the honest answers of the step first, as their papers have it. Where clients run
    on this machine; a site of a deployment lies by itself or not at all.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_series(clients=5, seed=0)
    >>> honest = ct.FedMean().fit(clients).mean
    >>> lied = ct.FedMean().fit(clients, attack=ct.Attack("scaling", share=0.2)).mean
    >>> bool(abs(lied - honest).max() > 0.01)
    True
    """

    kind: AttackName = Field(description="What liars do; see `cotempo.attacks` for each.")
    share: float = Field(
        default=0.2, ge=0, lt=1, description="The share of clients that lie, drawn from the run's seed."
    )
    clients: tuple[str, ...] | None = Field(default=None, description="Who lies, in place of a share.")
    strength: float | None = Field(
        default=None,
        description="How strongly: a factor, or multiples of a spread; by default as in the attack's table.",
    )

    def __init__(self, kind: AttackName, **values: object):
        super().__init__(kind=kind, **values)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def liars(self, names: Iterable[str], seed: int) -> tuple[str, ...]:
        """Return who lies among these clients."""
        names = sorted(names)
        if self.clients is not None:
            for name in self.clients:
                check_choice("attack clients", name, names)
            return tuple(sorted(self.clients))
        count = round(self.share * len(names))
        return tuple(sorted(Rng(seed, "attack")("liars").choice(names, count, replace=False).tolist()))

    def poison(self, tables: Mapping[str, Table], seed: int) -> dict[str, Table]:
        """Return the tables clients learn from: liars' own are poisoned, if that is how they lie."""
        found = dict(tables)
        if self.kind in POISONS:
            change, strength = POISONS[self.kind]
            strength = strength if self.strength is None else self.strength
            for name in self.liars(tables, seed):
                found[name] = change(tables[name], strength, Rng(seed, "attack", name)("poison"))
        return found

    def shield(self, names: Iterable[str], seed: int) -> Lying:
        """Return the shield through which all clients answer; it changes what liars send."""
        return Lying(self, self.liars(names, seed))


class Lying(Shield):
    """Changes what liars send; knows what honest clients of the same step have sent."""

    def __init__(self, attack: Attack, liars: Sequence[str]):
        self.attack = attack
        self.names = frozenset(liars)
        self.expect = Expect({})
        self.honest: dict[int, dict[str, Message]] = defaultdict(dict)

    def before(self, ask: Ask, expect: Expect) -> Expect:
        """Note what a valid answer is: a liar stays inside of what is checked."""
        self.expect = expect
        self.honest.clear()
        return expect

    def protect(self, message: Message, question: Question, rng: Rng) -> Message:
        """Return what leaves the client: a lie if it is one of the liars."""
        if question.client not in self.names:
            self.honest[question.step][question.client] = message
            return message
        if self.attack.kind not in LIES:
            return message
        lie, strength = LIES[self.attack.kind]
        strength = strength if self.attack.strength is None else self.attack.strength
        others = [one for _, one in sorted(self.honest[question.step].items())]
        return lie(Situation(message, others, question, self.expect, strength, rng("attack")))

    def among(self, engine: Engine) -> Engine:
        """Return the engine with liars asked last, so that they know what the others have sent."""
        return LiarsLast(engine, self.names)


class LiarsLast:
    """An engine that asks honest clients first."""

    def __init__(self, engine: Engine, liars: frozenset[str]):
        self.engine = engine
        self.liars = liars

    def exchange(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Ask honest clients, then the liars."""
        for is_liar in (False, True):
            asked = [question for question in questions if (question.client in self.liars) is is_liar]
            if asked:
                yield from self.engine.exchange(asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)
