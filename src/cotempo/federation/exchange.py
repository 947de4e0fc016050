"""`Ask`, `Question`, `Reply`, `Answers`: the stations of one exchange, and `Expect`, what a valid answer is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cotempo.errors import MessageError
from cotempo.federation.message import EMPTY, Message
from cotempo.typing import Array


@dataclass(frozen=True)
class Ask:
    """What the server wants next.

    Parameters
    ----------
    phase
        Which kind of work the clients do; one of the method's `phases`.
    to
        The clients asked. Nobody is fine: then the step is work of the server alone, checkpointed like any other.
    common, each
        What every client is sent, and what single clients are sent besides.
    ends_round
        Whether this step is the last of its round. A new cohort is drawn after it.
    """

    phase: str
    to: Sequence[str]
    common: Message = EMPTY
    each: Mapping[str, Message] = field(default_factory=dict)
    ends_round: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """One client's part of an ask.

    `base` names the version of its memory the client starts from (0: its first memory), `keep` the oldest version
    that a kept checkpoint still needs. `then` is a shield's question about the answer: the client answers it at once,
    and only that answer leaves. It saves an exchange.
    """

    run: str
    step: int
    round: int
    phase: str
    client: str
    base: int
    keep: int
    common: Message
    own: Message
    then: Question | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of what the client is sent, without names and headers."""
        return self.common.nbytes + self.own.nbytes + (self.then.nbytes if self.then else 0)

    def reply(self, message: Message, version: int | None = None) -> Reply:
        """Return the reply that carries a message; `version` of the memory behind it is `base` if unchanged."""
        return Reply(self.client, self.step, self.base if version is None else version, message)

    def fail(self, kind: str, detail: str = "", cause: BaseException | None = None) -> Reply:
        """Return the reply that says why no answer counts; see `Failure` for what may cross."""
        failure = Failure(self.client, self.step, self.phase, kind, detail)
        return Reply(self.client, self.step, self.base, None, failure, cause)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an answer was not counted.

    `kind` is the class name of the error. `detail` is text the server wrote: texts of a client's errors stay at the
    client, because they can quote its data.
    """

    client: str
    step: int
    phase: str
    kind: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.client}, step {self.step}, phase {self.phase!r}: {self.kind}{self.detail and ': ' + self.detail}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for one question: a message and the version of the memory behind it, or a failure.

    `cause` is the client's own exception where client and server share a process; it never crosses a wire.
    """

    client: str
    step: int
    version: int
    message: Message | None
    failure: Failure | None = None
    cause: BaseException | None = None


Rule = Callable[[Array], str | None]


@dataclass(frozen=True)
class Spec:
    """What one field of a valid answer looks like.

    Parameters
    ----------
    shape
        The array's shape, `None` for a length that may vary; `()` for a scalar.
    dtype
        The exact dtype of an array, or `"float"`, `"int"`, `"bool"`, `"str"` for a scalar.
    low, high
        Inclusive bounds.
    rules
        Further rules on the array; each returns an error message if the array violates it, else `None`.
    packed
        Whether the last axis is the upper triangle of a symmetric matrix of moments, row by row.
    reported
        Whether the field decides no more than what is reported, or when to stop; robust reducers add it up as it is.
    votes
        Whether the last axis is of alternatives, of which the sum chooses one, and values say how well each does.
    most
        How many numbers there may be in other runs of the same method, if others' tables decide; requests say so.
    grid
        Values are multiples of two to the power of this; a secure sum then needs to agree on no scale.
    description
        The field in plain words, for the people whose data it is made from.
    """

    shape: tuple[int | None, ...] = ()
    dtype: str = "float64"
    low: float = -math.inf
    high: float = math.inf
    rules: tuple[Rule, ...] = ()
    packed: bool = False
    reported: bool = False
    votes: bool = False
    most: int | None = None
    grid: int | None = None
    description: str = ""


@dataclass(frozen=True)
class Expect:
    """What a valid answer looks like, and whether only the sum over clients is needed.

    With `sums=True` the server is given nothing but the weighted sum, so a secure sum can stand in for the plain one.
    With `is_opaque=True` the answer is masked or sealed, and records of it hold sizes only.

    `rows` says how many rows of the client's table an answer sums over, if its fields grow with them; over twice as
    many as the client declared are refused. Answers of large and small clients can then be compared row by row: that is
    how robust reducers find a client that differs from all others. `alike` returns by name what honest clients are
    alike in whatever their size and scale, which is compared more strictly. `scatter` returns by name of a field, or
    ``"alike NAME"``, how much it varies by chance at a client of this size: few events scatter more; of a single
    logarithm in which clients are alike it is how far honest ones of equal size may be apart. `seen` returns by name of
    a field how many rows each of its values sums over, where clients may lack some: what a client has no rows of is not
    compared, and must be zero.
    """

    fields: Mapping[str, Spec]
    sums: bool = False
    weight: tuple[float, float] = (0.0, 1e12)
    is_opaque: bool = False
    rows: Callable[[Message], float] | None = None
    alike: Callable[[Message], Mapping[str, Array]] | None = None
    scatter: Callable[[Message], Mapping[str, Array]] | None = None
    seen: Callable[[Message], Mapping[str, Array]] | None = None

    def size_of(self, message: Message) -> float:
        """Return how many rows an answer stands for: its weight, times the rows it sums over where that is known.

        Where answers are not summed their weights say nothing of them.
        """
        rows = 1.0 if self.rows is None else float(self.rows(message))
        return self.weight_of(message) * rows if math.isfinite(rows) else 0.0

    def weight_of(self, message: Message) -> float:
        """Return what an answer is multiplied by in a sum; 1 where answers are not summed."""
        return message.weight if self.sums else 1.0


@dataclass(frozen=True)
class Answers:
    """What was gathered in one step: `names` of the clients that count, in order, and `failures` of the others.

    A phase that needs only a sum has a `total`: each field times its sender's weight, added up; its weight is the sum
    of weights. Any other phase has `each` answer by client. `versions` are those of the counted clients' memories.
    """

    names: tuple[str, ...]
    total: Message | None = None
    each: Mapping[str, Message] | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()

    @property
    def sum(self) -> Message:
        """The weighted sum; raise `MessageError` in a phase that did not declare itself a sum."""
        if self.total is None:
            raise MessageError("this phase gathers single answers; declare Expect(sums=True) to be given a sum")
        return self.total

    def mean(self, name: str) -> Any:
        """Return the weighted mean of a field over the clients that count."""
        if not self.sum.weight > 0:
            raise MessageError(f"weights must add up to more than zero for a mean, got {self.sum.weight:g}")
        return self.sum[name] / self.sum.weight

    def __getitem__(self, client: str) -> Message:
        if self.each is None:
            raise MessageError("this phase is given only a sum; declare Expect(sums=False) to see single answers")
        return self.each[client]
