"""`GroupedSum`: a robust rule over secure sums of groups, because a secure sum hides what the rule must see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cotempo.errors import ParameterError, QuorumError
from cotempo.federation.exchange import Answers, Expect, Failure, Question
from cotempo.federation.message import Message
from cotempo.federation.reducers import SUSPICION, Exchange, PlainReducer
from cotempo.robust.reducer import Robust

if TYPE_CHECKING:
    from cotempo.privacy.secure_sum.reducer import SecureSum

SMALLEST_GROUP = 3
FEWEST_GROUPS = 3


class GroupedSum:
    """Sums securely inside groups of at least three clients, and takes a robust rule across the groups.

    Groups are the same in every step of the same clients: sums over other groups would tell single clients apart. A
    liar spoils the sum of its group, so that fewer liars are withstood than in the clear, and suspects are groups.
    """

    def __init__(self, robust: Robust, folder: Path | None = None):
        self.robust = robust
        self.folder = folder
        self.sums: dict[tuple[str, ...], SecureSum] = {}

    def groups(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the groups: clients in name order are dealt out in turn."""
        count = len(names) // SMALLEST_GROUP
        if count < FEWEST_GROUPS:
            raise ParameterError(
                f"at least {SMALLEST_GROUP * FEWEST_GROUPS} clients must take part for a robust rule over secure sums "
                f"of groups, got {len(names)}; pass Privacy(secure_sum=False), or leave the rule out"
            )
        names = sorted(names)
        return [tuple(names[first::count]) for first in range(count)]

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Sum each group, then take the rule over the groups' sums."""
        if not expect.sums or not questions:
            return PlainReducer().gather(exchange, questions, expect)
        asked = {question.client: question for question in questions}
        found: dict[str, Answers] = {}
        failures: list[Failure] = []
        for number, group in enumerate(self.groups([*asked])):
            wanted = [asked[name] for name in group]
            try:
                found[str(number)] = self._secure_sum(number, group).gather(exchange, wanted, expect)
            except QuorumError as error:  # too few of this group stayed; the others' sums still count
                detail = f"the sum of its group failed: {type(error).__name__}"
                failures += [Failure(one.client, one.step, one.phase, "Lost", detail) for one in wanted]
        total, left_out = self.robust.combine({key: _mean_of(one.sum) for key, one in found.items()}, expect)
        for key, detail in left_out.items():
            group = found.pop(key).names
            words = f"of its group ({', '.join(group)}) the sum: {detail}"
            failures += [Failure(name, asked[name].step, asked[name].phase, SUSPICION, words) for name in group]
        failures += [failure for one in found.values() for failure in one.failures]
        versions = {name: version for one in found.values() for name, version in one.versions.items()}
        counted = tuple(sorted(versions))
        return Answers(counted, total, versions={name: versions[name] for name in counted}, failures=tuple(failures))

    def _secure_sum(self, number: int, group: tuple[str, ...]) -> SecureSum:
        """Return the reducer of a group, which keeps the group's keys and scales."""
        from cotempo.privacy.secure_sum.reducer import SecureSum

        if group not in self.sums:
            self.sums[group] = SecureSum(scales=self.folder and self.folder / f"scales-{number}.jsonl")
        return self.sums[group]


def _mean_of(total: Message) -> Message:
    """Return a sum as one answer that weighs as much as all in it."""
    weight = total.weight or 1.0
    return Message({name: np.asarray(value) / weight for name, value in total.items()}, weight=total.weight)
