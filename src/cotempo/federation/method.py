"""`Method`: the contract of a federated algorithm, frozen hyperparameters and five verbs.

Read `cotempo.federation.mean` for the smallest complete method, and `cotempo.federation.rounds` for the loop that
drives it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import model_validator

from cotempo.data import Schema, Table
from cotempo.errors import ParameterError, Problem, SchemaError
from cotempo.federation.benefit import Joining, tally
from cotempo.federation.exchange import Answers, Ask, Expect, Question
from cotempo.federation.message import Message
from cotempo.federation.reducers import DEFAULT_REDUCER, Reducer
from cotempo.federation.rng import Rng
from cotempo.settings import Settings
from cotempo.typing import Floats

if TYPE_CHECKING:
    from pathlib import Path

    from cotempo.attacks.attack import Attack
    from cotempo.engines.settings import EngineSettings
    from cotempo.federation.fitted import Fitted, Outcome
    from cotempo.federation.rounds import Buffer, Participation
    from cotempo.federation.shields import Shield
    from cotempo.privacy.settings import Privacy

Metrics = Mapping[str, float]
Staleness = Literal["weighted", "replace", "accumulate"]
State = Any
Memory = Any


@dataclass(frozen=True)
class Roster:
    """Who takes part, and what their tables look like."""

    schemas: Mapping[str, Schema]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The clients' names, in order."""
        return tuple(sorted(self.schemas))

    @cached_property
    def schema(self) -> Schema:
        """The schema all clients agreed on."""
        return self.schemas[self.names[0]]


class Method(Settings, ABC):
    """A federated algorithm.

    A subclass declares its hyperparameters as annotated fields, its `State` and `Memory` as frozen dataclasses, and
    writes `open`, `ask`, `answer`, `absorb` and `expects`. Verbs are pure: they change nothing they are given, keep
    nothing between calls, and draw random numbers only from the `rng` they receive.
    """

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ()
    metric: ClassVar[str] = ""  # what `benefit` measures, in words; none where nothing is compared
    higher_is_better: ClassVar[bool] = True  # whether more of it is better
    learns_alone: ClassVar[str] = ""  # what learns from one client's table, as code; by default this method
    compares: ClassVar[str] = ""  # which clients `benefit` compares, in words
    uses_public: ClassVar[bool] = True  # whether a public table means anything to it
    for_other_columns: ClassVar[str] = ""  # which method takes clients whose columns differ, in words
    private_units: ClassVar[tuple[str, ...]] = ()  # what noise can hide: "row", "sequence" or "client"
    reducer: ClassVar[Reducer] = DEFAULT_REDUCER  # how replies become answers, unless the caller or privacy decides
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"cotempo": {}, "paper": {}}
    State: ClassVar[type]
    Memory: ClassVar[type | None] = None

    preset: Literal["cotempo", "paper"] = "cotempo"

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, given: Any) -> Any:
        """Values of the preset stand where the caller gave none."""
        if isinstance(given, dict):
            return {**cls.presets.get(given.get("preset", "cotempo"), {}), **given}
        return given

    # What the author of a method writes.

    @abstractmethod
    def open(self, roster: Roster, public: Table | None, rng: Rng) -> Any:
        """At the server: return the state before the first step.

        Parameters
        ----------
        roster
            The clients and the schemas of their tables, at least one, which `check` has accepted.
        public
            A table the server may see; `None` if the caller gave none.
        rng
            Random streams by purpose, ``rng("weights")``; the only source of random numbers.

        Returns
        -------
        State
            An instance of the class's `State`. Keep it cheap: long server work belongs in steps that ask nobody.
        """

    @abstractmethod
    def ask(self, state: Any, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """At the server: say what it wants next.

        Parameters
        ----------
        state
            As `open` or `absorb` returned it.
        cohort
            The clients of this round, in name order; may hold names `open` never saw, and be empty if all have left.
        rng
            Random streams of this step.

        Returns
        -------
        Ask or None
            The phase, the clients asked and what they are sent; an ask to nobody is work of the server alone. `None`
            ends the run. Asked again, for instance after a resume, return the same.
        """

    @abstractmethod
    def answer(self, question: Question, prepared: Any, memory: Any, rng: Rng) -> tuple[Message, Any]:
        """At a client: answer a question.

        Parameters
        ----------
        question
            `question.common` is what every client was sent, `question.own` what this one was sent besides; either may
            be empty.
        prepared
            What `prepare` returned: by default, the client's table.
        memory
            The memory after this client's last counted answer; before that, what `begin` returned.
        rng
            Random streams of this client and step.

        Returns
        -------
        message : Message
            What leaves the client: the fields `expects` names, and a weight.
        memory : Memory or None
            The new memory, an instance of the class's `Memory`; `None` if it is unchanged.
        """

    @abstractmethod
    def absorb(self, state: Any, answers: Answers, public: Table | None, rng: Rng) -> tuple[Any, Metrics]:
        """At the server: return the next state.

        Parameters
        ----------
        state
            The state the questions were asked from.
        answers
            Those that are valid, at least a quorum; none if nobody was asked. In a phase that needs only the sum,
            ``answers.sum`` and ``answers.mean(field)``; otherwise ``answers[client]`` for every name in
            ``answers.names``.
        public, rng
            As in `open`; the streams are those of this step.

        Returns
        -------
        state : State
            The next state.
        metrics : mapping of str to float
            Numbers worth watching, for the progress bar, the log and the report; may be empty.
        """

    @abstractmethod
    def expects(self, state: Any, phase: str) -> Expect:
        """At the server: say what a valid answer looks like.

        Parameters
        ----------
        state
            The state the questions are asked from.
        phase
            One of the class's `phases`.

        Returns
        -------
        Expect
            A `Spec` per field, the range of weights, and whether only the sum over clients is needed. Answers that
            differ are left out before `absorb` sees them.
        """

    # What an author may write as well.

    def check(self, roster: Roster) -> None:
        """At the server: raise `SchemaError` if clients' tables do not fit together; by default all must be equal."""
        agree(roster, self.kind, self.for_other_columns)

    def prepare(self, table: Table) -> Any:
        """At a client: preprocess the table once per process; the result is cached and passed to every `answer`."""
        return table

    def begin(self, prepared: Any, rng: Rng) -> Any:
        """At a client: return its first memory; it must be the same whenever it is made."""
        return None

    def joining(self, state: Any) -> Joining:
        """Return what joining was worth, summed over clients: the state's `joining`; empty where it has none."""
        found: Joining = getattr(state, "joining", None) or Joining()
        return found

    def tally(self, compared: Floats, *choices: int) -> Floats:
        """At a client: return what it adds to the sums of `joining`, of what it keeps in its memory as `compared`."""
        return tally(compared, *choices, higher_is_better=self.higher_is_better)

    def work(self, state: Any) -> tuple[float, float] | None:
        """Return how much is done and how much there is in all, in units that take about equally long.

        `None` where the total is not known, as in a method that stops when it has converged: the progress bar then
        counts rounds and promises nothing.
        """
        return None

    def rehearsal(self) -> Self:
        """Return the method with less of what takes time and changes no message, such as training steps.

        A dry run uses it.
        """
        return self

    @property
    def equal_steps(self) -> Literal["", "advised", "required"]:
        """Whether rows must be equally far apart in time at all clients: `fit` then warns where not, or refuses."""
        return ""

    def misled_by(self, table: Table) -> list[str]:
        """Return in words what in a client's table misleads the method; `fit` and `cotempo check` warn of it."""
        return []

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """By phase, what an answer to an older state is worth; in other phases the method waits for everyone asked.

        ``"weighted"``: it counts less the older it is. ``"replace"``: each client's last answer stays in the sum until
        its next one replaces it. ``"accumulate"``: the question does not depend on the state, so that answers never
        become stale; the sum is complete once all have come. `absorb` must work with weighted sums in each.
        """
        return {}

    @property
    def most_stale(self) -> Mapping[str, int]:
        """By phase declared ``"replace"``, in how many steps the server may go on without a client's next answer.

        Then it waits for that client, as it does for everyone's first answer. Without a number it never waits.
        """
        return {}

    def reveals(self) -> str:
        """Return in a sentence what of all clients together becomes known, for those who own the data.

        Empty where sums tell no more of single events and rows than their descriptions say.
        """
        return ""

    @property
    def most_questions(self) -> Mapping[str, int]:
        """By phase, how many questions a site answers in one run; by default one, or `rounds` if the method has them.

        A server that asks more often, with contents of its choice, could find out row by row what sums hide.
        """
        return dict.fromkeys(self.phases, getattr(self, "rounds", 1))

    @property
    def silent_phases(self) -> frozenset[str]:
        """Phases in which an error is not told either, as it could tell of values; none unless noise is promised."""
        return frozenset()

    @property
    def memory_types(self) -> tuple[type, ...]:
        """The dataclasses a memory is decoded into; none if clients keep no memory."""
        return () if self.Memory is None else (self.Memory,)

    @property
    def batches(self) -> bool:
        """Whether the method answers for a complete cohort at once by `answer_all`."""
        return type(self).answer_all is not Method.answer_all

    def answer_all(
        self, questions: Sequence[Question], prepared: Sequence[Any], memories: Sequence[Any], rngs: Sequence[Rng]
    ) -> list[tuple[Message, Any]]:
        """Answer for a complete cohort at once, equal to `answer` within rounding; takes lists of its arguments."""
        return [
            self.answer(question, data, memory, rng)
            for question, data, memory, rng in zip(questions, prepared, memories, rngs, strict=True)
        ]

    def private(self, privacy: Privacy) -> Method:
        """Return the differentially private form of the method; raise `ParameterError` if it has none."""
        from cotempo.federation.registry import methods

        known = [name for name, cls in methods().items() if cls.private_units]
        raise ParameterError(
            f"epsilon must be left out with {type(self).__name__}, which has no differentially private form; "
            f"those that have one are {', '.join(known)}"
        )

    def result(self, outcome: Outcome) -> Fitted:
        """Return what was learned; override to return a `Fitted` with the method's own verbs."""
        from cotempo.federation.fitted import Fitted

        return Fitted(outcome)

    # What everybody calls.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyperparameters by name, as scikit-learn does."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def set_params(self, **parameters: Any) -> Self:
        """Return the method with other hyperparameters; this one stays as it is."""
        return type(self)(**{**{name: getattr(self, name) for name in self.model_fields_set}, **parameters})

    def clone(self) -> Self:
        """Return a method with the same hyperparameters."""
        return self.set_params()

    __sklearn_clone__ = clone

    def fit(
        self,
        clients: Mapping[str, Any] | None = None,
        *,
        public: Any = None,
        engine: str | EngineSettings = "inprocess",
        seed: int = 0,
        run: str | Path | None = None,
        cohort: int | Participation | None = None,
        quorum: float = 0.5,
        buffer: Buffer | None = None,
        progress: bool | None = None,
        privacy: Privacy | None = None,
        shields: Sequence[Shield] = (),
        reducer: Reducer | None = None,
        attack: Attack | None = None,
        workers: int | None = None,
        batched: bool | None = None,
        deadline: float | None = None,
        threads: int | None = None,
        server: str | Path | None = None,
        participants: Sequence[str] | None = None,
        share_result: bool | None = None,
    ) -> Any:
        """Learn from the clients and return a new fitted object; the method stays as it is.

        Parameters
        ----------
        clients
            A table, or any dataframe, per client name, or all that a reader takes (a dataframe with a column
            ``client``, a folder); none on the engine `flower`, where sites hold theirs. Dates are counted in seconds:
            read them with ``unit="h"`` for rates per hour.
        public
            A table the server may see, for methods that use one.
        engine
            Where clients run: `inprocess`, `flower-simulation`, `flower`, or an engine's settings.
        seed
            Decides every random number: the same seed gives the same bits.
        run
            A new folder to keep the run in, so that it can be inspected and resumed; without it nothing is written.
        cohort
            How many clients take part in a round, or a `Participation`; everyone by default.
        quorum
            The share of the asked clients whose answers must count; below it the run pauses with `QuorumError`.
        buffer
            On the engine `flower`, go on as soon as this many answers are there, for methods that allow it; ``"auto"``
            waits for sites whose last answer took at most twice the median. `None` waits for everyone asked.
        progress
            Show a progress bar, or where there is no terminal a line now and then; `False` shows nothing.
        privacy
            What is done so that messages tell less about single clients; see `Privacy` for the defaults.
        shields
            Applied to every message between client and server, in this order; the validator always is.
        reducer
            How replies become answers; by default a list or a weighted sum, as the method expects. `Robust` withstands
            lying clients.
        attack
            Clients that lie, to see what that does; see `Attack`.
        workers, batched, deadline, threads
            Options of the engines on this machine; see `InProcessSettings` and `SimulationSettings`.
        server, participants, share_result
            Options of the engine `flower`; see `FlowerSettings`.
        """
        from cotempo.engines.settings import engine_settings
        from cotempo.federation.rounds import EVERYONE, LoopOptions, Participation
        from cotempo.runs.run import Run

        settings = engine_settings(
            engine, workers=workers, batched=batched, deadline=deadline, threads=threads,
            server=None if server is None else str(server), participants=participants, share_result=share_result,
        )  # fmt: skip
        options = LoopOptions(
            seed=seed,
            participation=Participation(cohort) if isinstance(cohort, int) else cohort or EVERYONE,
            quorum=quorum,
            buffer=buffer,
            shields=tuple(shields),
            reducer=reducer or DEFAULT_REDUCER,
        )
        started = Run.of(self, clients, settings, options, public=public, attack=attack).guarded(privacy)
        return started.start(run, progress=progress)


fit = Method.fit  # called as `cotempo.fit(method, clients)`


def agree(roster: Roster, kind: str, for_other_columns: str = "") -> None:
    """Raise `SchemaError` unless kind, columns and unit agree, and dates have a zone everywhere or nowhere."""
    problems = []
    first, wanted = roster.names[0], roster.schema
    for name in roster.names:
        found = roster.schemas[name]
        if found.kind != kind:
            problems.append(Problem(f"the table must hold {kind}, it holds {found.kind}", client=name))
            continue
        for column in sorted(set(wanted.columns) ^ set(found.columns)):
            has, lacks = (first, name) if column in wanted.columns else (name, first)
            problems.append(
                Problem(f"client {has} has this column, client {lacks} has not", client=name, column=column)
            )
        if set(found.columns) == set(wanted.columns) and found.columns != wanted.columns:
            problems.append(Problem(f"columns must come in the order {', '.join(wanted.columns)}", client=name))
        if found.unit != wanted.unit:
            problems.append(
                Problem(f"the unit of time must be {wanted.unit!r} as at {first}, it is {found.unit!r}", client=name)
            )
        elif bool(found.zone) != bool(wanted.zone):
            aware, naive = (first, name) if wanted.zone else (name, first)
            must = f"dates must have a time zone at all clients or at none; {aware} has one, {naive} has none"
            problems.append(Problem(f"{must}; read the latter with zone=", client=name))
    kinds = [set(columns) for columns in {schema.columns for schema in roster.schemas.values()}]
    shared = set.intersection(*kinds)
    differ = any(columns != shared for columns in kinds)
    if for_other_columns and differ:
        held = [column for column in wanted.columns if column in shared]
        chosen = f": table.select(features={held})" if held else ""
        problems.append(Problem(f"{for_other_columns}; this method needs the {len(held)} that all hold{chosen}"))
    if kind == "events" and differ:
        problems.append(
            Problem(
                "read all tables in one call, so that marks agree; where some have none, all without the column mark"
            )
        )
    if problems:
        raise SchemaError(problems)
