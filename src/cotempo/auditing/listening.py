"""`Listener`: a reducer that writes down what the coordinator sees of each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cotempo.federation import Answers, Expect, Message, Question
from cotempo.federation.exchange import Reply
from cotempo.federation.reducers import Exchange, Reducer


@dataclass
class Heard:
    """One step as the coordinator sees it: a question, messages that can be read one by one, and their total.

    `singles` is empty where messages were masked; `total` is None where each was wanted by itself.
    """

    question: Question
    singles: dict[str, Message] = field(default_factory=dict)
    total: Message | None = None

    def seen_of(self, client: str) -> Message | None:
        """Return a client's message, each field times its weight; the total where only that can be read."""
        if (message := self.singles.get(client)) is None:
            return self.total
        return Message({name: message.weight * value for name, value in message.items()}, weight=message.weight)


class Listener:
    """A reducer that also writes down what the coordinator sees.

    Examples
    --------
    >>> import cotempo as ct
    >>> from cotempo.federation.reducers import PlainReducer
    >>> clients, _ = ct.make_networks(variables=3, clients=3, samples=60)
    >>> listener = Listener(PlainReducer())
    >>> fitted = ct.FedMean().fit(clients, reducer=listener)
    >>> sorted(listener.last("mean").singles)
    ['client-0', 'client-1', 'client-2']
    """

    def __init__(self, reducer: Reducer):
        self.reducer = reducer
        self.steps: dict[int, Heard] = {}

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Gather as the reducer does."""
        if not questions:
            return self.reducer.gather(exchange, questions, expect)
        heard = self.steps[questions[0].step] = Heard(questions[0])

        def listen(questions: Sequence[Question], expect: Expect, account: str = "") -> Iterator[Reply]:
            readable = bool(questions) and questions[0].phase == heard.question.phase and not expect.is_opaque
            for reply in exchange(questions, expect, account):
                if readable and reply.message is not None:
                    heard.singles[reply.client] = reply.message
                yield reply

        answers = self.reducer.gather(listen, questions, expect)
        heard.total = answers.total
        return answers

    def phase(self, name: str) -> list[Heard]:
        """Return the steps of a phase, in order."""
        return [heard for heard in self.steps.values() if heard.question.phase == name]

    def last(self, *names: str) -> Heard | None:
        """Return the last step of the first of these phases that the run had; None if it had none of them."""
        return next((heard[-1] for name in names if (heard := self.phase(name))), None)
