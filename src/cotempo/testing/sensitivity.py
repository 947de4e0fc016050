"""`sensitivity_used`: how far neighbouring tables move a private form's message, against what the form claims."""

from typing import Any

import numpy as np

from cotempo.data import Table
from cotempo.federation import EMPTY, Message, Question, Rng
from cotempo.privacy.private_form import PrivateForm


def question_of(phase: str, common: Message = EMPTY, *, step: int = 1, client: str = "client") -> Question:
    """Return a question as a client is asked it."""
    return Question("run", step, 1, phase, client, 0, 0, common, EMPTY)


def sensitivity_used(
    form: PrivateForm, phase: str, tables: tuple[Table, Table], common: Message = EMPTY, memory: Any = None
) -> float:
    """Return the change between the messages of two tables that differ in one unit, in units of the claimed scales.

    The claim holds for these two if the result is at most 1.
    """
    first, second = (
        form.answer(question_of(phase, common), form.prepare(table), memory, Rng(0, "client", 1))[0] for table in tables
    )
    scales = form.scales(phase, first)
    assert dict(scales) == dict(form.scales(phase, second)), "scales must not depend on the data"
    assert {*scales} == {*first} == {*second}, "every field must have a scale"
    assert first.weight == second.weight == 1, "a weight would tell about the data"
    changes = {name: float(np.linalg.norm(np.asarray(first[name]) - second[name])) for name in scales}
    assert not any(change for name, change in changes.items() if not scales[name]), "a field without noise changed"
    return float(np.sqrt(sum((changes[name] / scale) ** 2 for name, scale in scales.items() if scale)))
