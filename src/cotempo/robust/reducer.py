"""`Robust`: the reducer whose sums a minority of liars can neither stop nor own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from cotempo.federation.exchange import Answers, Expect, Failure, Question, Reply
from cotempo.federation.message import Message
from cotempo.federation.reducers import (
    SUSPICION,
    Exchange,
    PlainReducer,
    find_drowning,
    gather_sum,
    measure_size,
)
from cotempo.robust.per_row import PerRow, decides
from cotempo.robust.rules import RULES, mix_neighbours
from cotempo.robust.screening import find_suspects
from cotempo.robust.votes import count_votes
from cotempo.settings import Settings
from cotempo.typing import Floats

#: Screening holds all answers of a step; of more numbers than this it would take gigabytes, and is left out.
MOST_VALUES = 100_000_000

RuleName = Literal[
    "screen", "median", "trimmed_mean", "multi_krum", "geometric_median", "centred_clipping", "norm_bound", "mean"
]


class Robust(Settings):
    """Take sums by a rule that a minority of lying clients cannot move far.

    Sums are taken row by row: the rule's centre of what a row contributes at each client, times all rows. Phases that
    need single answers are screened by ``screen`` and else left to the method. Under the secure sum the rule goes over
    sums of groups of three or more.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=5, clients=8, samples=2000, seed=0)
    >>> attack = ct.Attack("forged_edge", clients=("client-3",), strength=5.0)
    >>> fitted = ct.OneRound().fit(clients, attack=attack, reducer=ct.Robust("trimmed_mean"))
    >>> ct.score_network(fitted.network, truth)["within_shd"]
    0.0
    """

    sees_single: ClassVar[bool] = True

    rule: RuleName = Field(
        default="screen",
        description="``screen`` leaves out and names clients that differ far more from all others than these among "
        "each other, and changes nothing otherwise; the others are rules of the literature.",
    )
    mixing: bool = Field(
        default=False, description="Replace each answer by the mean of its nearest first, for clients that differ."
    )
    share: float = Field(default=0.2, ge=0, lt=0.5, description="The share of clients that may lie.")
    cap: float | None = Field(
        default=3.0, ge=1, description="The most a client may count, in times the median client; `None` for no limit."
    )

    def __init__(self, rule: RuleName = "screen", **values: object):
        super().__init__(rule=rule, **values)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Ask once, and sum what comes by the rule."""
        if not self._has_work(questions, expect):
            return PlainReducer().gather(exchange, questions, expect)
        replies = sorted(exchange(questions, expect), key=lambda reply: reply.client)
        messages = {reply.client: reply.message for reply in replies if reply.message is not None}
        total: Message | None = None
        if expect.sums:
            total, left_out = self.combine(messages, expect)
        else:
            left_out = find_suspects(messages, expect)
        failures = [reply.failure for reply in replies if reply.failure is not None]
        for question in questions:
            if detail := left_out.get(question.client):
                failures.append(Failure(question.client, question.step, question.phase, SUSPICION, detail))
        versions = {reply.client: reply.version for reply in replies if reply.client in {*messages} - {*left_out}}
        each = None if expect.sums else {name: messages[name] for name in versions}
        return Answers(tuple(versions), total, each, versions=versions, failures=tuple(failures))

    def _has_work(self, questions: Sequence[Question], expect: Expect) -> bool:
        """Return whether answers must be held and compared; a plain sum holds one at a time."""
        if self.rule != "screen":
            return bool(questions) and expect.sums
        compares = expect.rows is not None or any(spec.votes for spec in expect.fields.values())
        values = sum(math.prod(length or 1 for length in spec.shape) for spec in expect.fields.values())
        is_small = len(questions) * values <= MOST_VALUES
        return bool(questions) and ((is_small and compares) or (expect.sums and self.cap is not None))

    def combine(self, messages: Mapping[str, Message], expect: Expect) -> tuple[Message, dict[str, str]]:
        """Return the sum of answers by the rule, and who was left out of it, each with the reason."""
        left_out = find_drowning({name: measure_size(message) for name, message in messages.items()})
        messages = {name: message for name, message in messages.items() if name not in left_out}
        if self.rule == "screen":
            left_out |= find_suspects(messages, expect)
            messages = {name: message for name, message in messages.items() if name not in left_out}
        replies = [Reply(name, 0, 0, message) for name, message in self.limit(messages, expect).items()]
        plain = gather_sum(replies, [*messages]).sum
        plain = self.choose(messages, expect, plain)
        is_done = self.rule == "screen" or len(messages) < 3
        return (plain if is_done else self.center(messages, expect, plain)), left_out

    def choose(self, messages: Mapping[str, Message], expect: Expect, plain: Message) -> Message:
        """Return the sum with votes counted so that a few cannot force their choice on the others."""
        names = [name for name, spec in expect.fields.items() if spec.votes] if self.rule != "mean" else []
        if not names or not messages:
            return plain
        votes = {name: np.stack([one.weight * one[name] for one in messages.values()]) for name in names}
        counted = {name: count_votes(votes[name], plain[name]) for name in names}
        return Message({**plain, **counted}, weight=plain.weight)

    def limit(self, messages: Mapping[str, Message], expect: Expect) -> dict[str, Message]:
        """Return answers whose weights are lowered so that nobody counts more than `cap` times the median client."""
        sizes = {name: expect.size_of(message) for name, message in messages.items()}
        if self.cap is None or len(sizes) < 3:
            return dict(messages)
        most = self.cap * float(np.median([*sizes.values()]))
        return {
            name: Message(message, weight=message.weight * most / sizes[name]) if sizes[name] > most > 0 else message
            for name, message in messages.items()
        }

    def center(self, messages: Mapping[str, Message], expect: Expect, plain: Message) -> Message:
        """Return the sum by the rule; fields that decide nothing are as in the plain sum."""
        answers = PerRow.of(messages, expect)
        if len(answers.names) < 3:
            return plain
        sizes = answers.sizes
        if self.cap is not None:
            sizes = np.minimum(sizes, self.cap * np.median(sizes))
        centre = self._apply(answers.vectors, sizes)
        fields, weight = answers.total(centre, sizes)
        whole = {name: fields[name] if decides(spec) else plain[name] for name, spec in expect.fields.items()}
        return Message(whole, weight=weight)

    def _apply(self, vectors: Floats, sizes: Floats) -> Floats:
        count = len(vectors)
        liars = min(int(np.ceil(self.share * count - 1e-9)), (count - 1) // 2)
        if self.mixing:
            vectors = mix_neighbours(vectors, sizes, liars)
        return RULES[self.rule](vectors, sizes, liars)


#: Changes nothing unless somebody stands out, and then names who.
SCREEN = Robust("screen", cap=None)
