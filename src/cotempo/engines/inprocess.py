"""`InProcess`, the default engine: clients are called directly, or as one batch if the method can answer so."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from cotempo.engines.local import LocalEngine
from cotempo.engines.settings import InProcessSettings
from cotempo.errors import CotempoError, MessageError
from cotempo.federation.exchange import Question, Reply
from cotempo.federation.message import Message


class InProcess(LocalEngine):
    """All clients in this process.

    Unless `settings.batched` is false, a method that offers `answer_all` answers for the complete cohort at once. An
    exception in a batch falls back to the loop, which names the client.
    """

    settings: InProcessSettings | None

    @property
    def batched(self) -> bool:
        """Whether a cohort is answered for in one call."""
        return self.method.batches and (self.settings is None or self.settings.batched is not False)

    def compute(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Ask all at once or each client in turn."""
        if self.batched and len(questions) > 1:
            try:
                return self._answer_all(questions)
            except Exception as error:
                name, detail = type(self.method).__name__, f": {error}" if isinstance(error, CotempoError) else ""
                warnings.warn(
                    f"{name}.answer_all failed ({type(error).__name__}{detail}); clients are asked one by one",
                    stacklevel=2,
                )
        return (self.sites[question.client].answer(question) for question in questions)

    def _answer_all(self, questions: Sequence[Question]) -> list[Reply]:
        pairs = [(self.sites[question.client], question) for question in questions]
        answers = self.method.answer_all(
            questions,
            [site.prepared for site, _ in pairs],
            [site.memory(question.base) for site, question in pairs],
            [site.rng(question.step) for site, question in pairs],
        )
        _need_all(questions, answers)
        return [site.finish(question, *answer) for (site, question), answer in zip(pairs, answers, strict=True)]


def _need_all(questions: Sequence[Question], answers: Sequence[Any]) -> None:
    """Raise `MessageError` unless a batch holds a message and a memory for every client."""
    if len(answers) != len(questions):
        raise MessageError(f"answer_all must return {len(questions)} answers, one per client, got {len(answers)}")
    for question, answer in zip(questions, answers, strict=True):
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], Message)):
            raise MessageError(f"answer_all must return a Message and a memory for client {question.client}")
