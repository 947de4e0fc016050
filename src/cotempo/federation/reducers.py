"""`Reducer`: how the replies of a step become answers: listed, added up in name order, or region by region."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cotempo.errors import MessageError, ParameterError
from cotempo.federation.exchange import Answers, Expect, Failure, Question, Reply
from cotempo.federation.message import Message


class Exchange(Protocol):
    """Asks clients and yields one checked reply per question, a valid message or a failure, in any order."""

    def __call__(self, questions: Sequence[Question], expect: Expect, account: str = "") -> Iterable[Reply]:
        """Ask; bytes are counted under a client's own name, or all under that of an account."""


class Reducer(Protocol):
    """Turns the questions of a step into answers: a list, a sum, a robust rule, a secure sum."""

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Ask the questions and gather the replies.

        Parameters
        ----------
        exchange
            Call it once; or more often, with questions of a shield's phases, for a protocol of several exchanges.
        questions
            One per asked client, in name order; empty if the step is the server's own work.
        expect
            What a valid answer looks like; with `expect.sums`, return a total, otherwise every answer.
        """


@runtime_checkable
class Holding(Protocol):
    """A reducer that holds something between two steps, which a checkpoint must hold as well."""

    def held(self) -> Mapping[str, Any]:
        """Return what is held, as a tree."""

    def restore(self, held: Mapping[str, Any]) -> None:
        """Take back what `held` returned, in a run that is resumed."""


SUSPICION = "Suspect"  # the kind of failure of a client that was left out because it differs from all others
MOST_WEIGHT = 1e6  # times the median weight: nobody has a million times as many rows as the others
MOST_SIZE = 2.0**40  # times the median size, or 1: a sum keeps at most a dozen bits of the others


class PlainReducer:
    """A list of answers, or their weighted sum."""

    sees_single = True  # so that an answer with which a step fails can be found and left out

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Ask once, and list or add up what comes.

        An answer that would drown all others in a sum is left out. That is known once all have come, and none is kept:
        the others are asked again, and tell the same.
        """
        if not expect.sums:
            return gather_each(exchange(questions, expect))
        left_out: list[Failure] = []
        while True:
            sizes: dict[str, tuple[float, float]] = {}
            names = [question.client for question in questions]
            answers = gather_sum(_measure(exchange(questions, expect), sizes), names)
            if not (drowning := find_drowning(sizes)):
                return replace(answers, failures=(*left_out, *answers.failures))
            for question in questions:
                if detail := drowning.get(question.client):
                    left_out.append(Failure(question.client, question.step, question.phase, "MessageError", detail))
            questions = [question for question in questions if question.client not in drowning]


class TreeReducer(PlainReducer):
    """Sums that are made region by region, as regional servers would, and then added up.

    Clients are dealt to regions in the order of their names, and a region is asked once the one before it is done: the
    server holds the sum of one region beside that of all, and an engine that answers for a cohort at once holds one
    region's rows. Additions are made in another order than without regions, always the same one: results agree within
    rounding, and repeat bit for bit. Phases that gather single answers have no sums, and are gathered as ever.
    Bytes are counted by region: the server keeps no more of a client than its name, and the version of its memory.

    Parameters
    ----------
    regions
        How many regions there are; with as many clients or fewer, each client is one.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, truth = ct.make_networks(variables=4, clients=6, samples=600, seed=0)
    >>> flat, tree = (ct.FedMean().fit(clients, reducer=how) for how in (None, ct.TreeReducer(regions=2)))
    >>> bool(np.allclose(flat.mean, tree.mean, rtol=1e-12))
    True
    """

    def __init__(self, regions: int = 100):
        if regions < 1:
            raise ParameterError(f"regions must be at least 1, got {regions}")
        self.regions = regions

    def gather(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Ask region by region, and add up their sums."""
        if not expect.sums:
            return super().gather(exchange, questions, expect)
        totals: dict[str, Any] = {}
        weight, names, versions, failures = 0.0, list[str](), dict[str, int](), list[Failure]()
        for number, part in enumerate(deal(questions, self.regions), 1):
            region = self.gather_region(partial(exchange, account=f"region-{number}"), part, expect)
            for name, value in region.sum.items():  # none if nobody answered
                totals[name] = totals[name] + value if name in totals else value
            weight += region.sum.weight
            names += region.names
            versions |= {name: version for name, version in region.versions.items() if version}
            failures += region.failures
        return Answers(tuple(names), Message(totals, weight=weight), versions=versions, failures=tuple(failures))

    def gather_region(self, exchange: Exchange, questions: Sequence[Question], expect: Expect) -> Answers:
        """Return the sum of one region: all that a regional server would send on."""
        return super().gather(exchange, questions, expect)


def deal(questions: Sequence[Question], regions: int) -> Iterator[Sequence[Question]]:
    """Yield the questions in as many consecutive parts, whose sizes differ by at most one."""
    size, more = divmod(len(questions), regions)
    start = 0
    for region in range(min(regions, len(questions))):
        end = start + size + (region < more)
        yield questions[start:end]
        start = end


#: What the loop takes unless it is told otherwise.
DEFAULT_REDUCER = PlainReducer()


def find_drowning(sizes: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """Return the clients whose weight or size would drown the others in a sum, each with what must hold.

    Examples
    --------
    >>> find_drowning({"a": (40, 1.5), "b": (50, 2.0), "c": (1e12, 1.0)})
    {'c': 'its weight must be at most 1e+06 times the median of all, got 1e+12'}
    """
    if len(sizes) < 3:
        return {}
    weights, largest = (max(1.0, float(np.median(values))) for values in zip(*sizes.values(), strict=True))
    found = {}
    for name, (weight, size) in sizes.items():
        if weight > MOST_WEIGHT * weights:
            found[name] = f"its weight must be at most {MOST_WEIGHT:g} times the median of all, got {weight:g}"
        elif size > MOST_SIZE * largest:
            found[name] = f"its values must be at most {MOST_SIZE:.0e} times the median of all, got {size:g}"
    return found


def _measure(replies: Iterable[Reply], sizes: dict[str, tuple[float, float]]) -> Iterator[Reply]:
    """Pass replies on, and note each one's size."""
    for reply in replies:
        if reply.message is not None:
            sizes[reply.client] = measure_size(reply.message)
        yield reply


def measure_size(message: Message) -> tuple[float, float]:
    """Return a message's weight, and the norm of its largest field times it."""
    values = [np.asarray(value, np.float64) for value in message.values() if not isinstance(value, str)]
    norm = max((math.sqrt(np.vdot(value, value)) for value in values), default=0.0)
    return message.weight, norm * message.weight


def gather_each(replies: Iterable[Reply]) -> Answers:
    """Keep every answer, in client-name order."""
    replies = sorted(replies, key=lambda reply: reply.client)
    each = {reply.client: reply.message for reply in replies if reply.message is not None}
    versions = {reply.client: reply.version for reply in replies if reply.message is not None}
    failures = tuple(reply.failure for reply in replies if reply.failure is not None)
    return Answers(tuple(each), each=each, versions=versions, failures=failures)


def gather_sum(replies: Iterable[Reply], names: Sequence[str]) -> Answers:
    """Add answers up as they come, each field times its sender's weight.

    Replies are added in the order of `names`, whatever order they come in: floating-point sums then do not depend on
    who answered first. Only replies that come before their turn are held, so memory stays at about one message.
    """
    totals: dict[str, Any] = {}
    weight = 0.0
    versions: dict[str, int] = {}
    failures: list[Failure] = []
    for reply in in_order(replies, names):
        message = reply.message
        if message is None:
            assert reply.failure is not None  # a reply holds a message or a failure
            failures.append(reply.failure)
            continue
        for name, value in message.items():
            if isinstance(value, np.ndarray):
                # Half-precision sums overflow at 65504: they are held in single precision.
                share = (value.astype(np.float32) if value.dtype == np.float16 else value) * message.weight
                if name in totals:
                    totals[name] += share
                else:
                    totals[name] = np.asarray(share)
            elif isinstance(value, int | float):
                totals[name] = totals.get(name, 0.0) + value * message.weight
            else:
                raise MessageError(f"field {name!r} is {type(value).__name__}, which cannot be summed")
        weight += message.weight
        versions[reply.client] = reply.version
    return Answers(tuple(versions), Message(totals, weight=weight), versions=versions, failures=tuple(failures))


def in_order(replies: Iterable[Reply], names: Sequence[str]) -> Iterator[Reply]:
    """Yield replies in the order of `names`, holding back those that come before their turn."""
    waiting: dict[str, Reply] = {}
    turn = iter(names)
    awaited = next(turn, None)
    for reply in replies:
        if reply.client != awaited:
            waiting[reply.client] = reply
            continue
        yield reply
        awaited = next(turn, None)
        while awaited in waiting:
            yield waiting.pop(awaited)
            awaited = next(turn, None)
    for name in sorted(waiting):
        yield waiting[name]
