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

    @property
    def batched(self) -> bool:
        """Whether a cohort is answered for in one call."""
        refused = isinstance(self.settings, InProcessSettings) and self.settings.batched is False
        return self.method.batches and not refused

    def compute(self, questions: Sequence[Question]) -> Iterable[Reply]:
        """Ask each client in turn, or all at once."""
        if self.batched and len(questions) > 1:
            replies = self._answer_all(questions)
            if replies is not None:
                return replies
        return (self.sites[question.client].answer(question) for question in questions)

    def _answer_all(self, questions: Sequence[Question]) -> list[Reply] | None:
        """Answer in one batch; return `None` if that fails, so that the loop can find the failing client."""
        sites = [self.sites[question.client] for question in questions]
        try:
            answers = self.method.answer_all(
                questions,
                [site.prepared for site in sites],
                [site.memory(question.base) for site, question in zip(sites, questions, strict=True)],
                [site.rng(question.step) for site, question in zip(sites, questions, strict=True)],
            )
            _need_all(questions, answers)
            return [
                site.finish(question, *answer) for site, question, answer in zip(sites, questions, answers, strict=True)
            ]
        except Exception as error:
            name, detail = type(self.method).__name__, f": {error}" if isinstance(error, CotempoError) else ""
            warnings.warn(
                f"{name}.answer_all failed ({type(error).__name__}{detail}); clients are asked one by one", stacklevel=2
            )
            return None


def _need_all(questions: Sequence[Question], answers: Sequence[Any]) -> None:
    """Raise `MessageError` unless a batch holds a message and a memory for every client."""
    if len(answers) != len(questions):
        raise MessageError(f"answer_all must return {len(questions)} answers, one per client, got {len(answers)}")
    for question, answer in zip(questions, answers, strict=True):
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], Message)):
            raise MessageError(f"answer_all must return a Message and a memory for client {question.client}")
