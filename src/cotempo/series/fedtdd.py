"""FedTDD: owners of misaligned series fill and generate together; sums and, if asked for, synthetic windows leave them.

`FedTDD.plan` is the paper's Algorithm 1, line by line; `absorb` is the coordinator's part of it and
`cotempo.series.client` the clients'.

References
----------
"Federated time series generation on feature and temporally misaligned data", the FedTDD paper.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from cotempo.data import Series, Table, make_series
from cotempo.errors import ParameterError
from cotempo.federation import (
    Answers,
    Ask,
    Benefit,
    Expect,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    register,
)
from cotempo.series import client, crossing, distiller, owned
from cotempo.series.fedmoments import SUMS, FedMoments, MomentsState, Prepared, contribute
from cotempo.series.fitted import FittedFedTDD
from cotempo.series.nn.state import Learned
from cotempo.series.owned import ClientMemory, Owned
from cotempo.series.scale import Scale
from cotempo.series.settings import Sizes
from cotempo.series.filling.factor_models import Ties
from cotempo.series.moments.windowed import usual_window
from cotempo.series.windows import Rows


@dataclass(frozen=True)
class FedTDDState:
    """What the coordinator keeps.

    `distiller` goes on learning, `best` is its best so far, which clients are told, `tokens` the imputer that knows no
    feature by name, and `start` where clients' diffusion models start. `bank` holds the synthetic windows that clients
    released, `place` is how much of the plan is done, and `informed` are the clients that were told what `best` is now;
    the rest is what clients said of themselves.
    """

    scale: Scale
    ties: Ties
    distiller: Learned
    best: Learned
    tokens: Learned
    start: Learned
    bank: NDArray[Any]
    moments: MomentsState
    place: int = 0
    informed: tuple[str, ...] = ()
    windows: Mapping[str, int] = field(default_factory=dict)
    withheld: Mapping[str, int] = field(default_factory=dict)
    membership: Mapping[str, float] = field(default_factory=dict)
    errors: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One line of the algorithm: what is done, in which round, in how many steps, and whether on all windows."""

    phase: str
    round: int
    steps: int = 0
    whole: bool = False


@register("fed-tdd")
class FedTDD(Sizes, Method):
    r"""Fill gaps and generate series at many owners who share some features.

    The preset ``cotempo`` trains two imputers on public data, one of the common features and one of tokens that fills
    any feature. Clients use them frozen and correct them by an imputer of their own, each where that helps. Clients'
    diffusion models start from one of the public data and learn from filled windows. Nothing is released unless asked
    for (`alpha`); then some windows are set apart until the last release, so that what a released window tells of those
    trained on can be measured.
    The preset ``paper`` is the printed loop: a diffusion model of the common features (the distiller) fills them by
    guided sampling, and is fine-tuned on public data and what clients release.

    In round :math:`r` of :math:`R` every client releases :math:`n_r = \lceil \alpha \tfrac{r}{R} L \rceil` synthetic
    windows of the common features, for its :math:`L` windows; those too near to real ones are withheld.

    Parameters
    ----------
    common
        Names of the features all clients and the public series have.
    rounds
        :math:`R`.
    pretrain_steps, token_steps, start_steps
        Training steps of the distiller, and of the imputer of tokens and of the model that clients' diffusion models
        start from (at most as many; 0: none).
    imputer_steps, first_steps, later_steps, last_steps
        Training steps of a client's imputer, and of its diffusion model in the first round, in each later one, and at
        last, when nothing of it will leave any more, on all windows.
    alpha
        Share of synthetic windows that clients release in the last round; with 0, the default, none are ever made for
        release and the distiller is never fine-tuned. The preset ``paper`` has 1.
    growth
        How that share comes about: ``"linear"`` with the rounds, ``"constant"`` from the first round on, or ``"none"``,
        where nothing is released and the distiller is fine-tuned on public windows only.
    rough
        Whether diffusion models learn from fillings with errors added, drawn from those of measurements hidden for the
        purpose: a filling by itself is smoother than what it stands for.
    guidance
        Size of the steps of guided sampling (preset ``paper``).
    minimum_rows
        As in `FedMoments`, for the rows that imputers are trained on; the preset ``paper`` sums nothing.
    chunk
        Training steps between checkpoints.

    Other parameters are those of `Sizes`.

    Examples
    --------
    >>> method, clients, public = FedTDD.example()
    >>> fitted = method.fit(clients, public=public)
    >>> bool(np.isnan(fitted["client-0"].impute(clients["client-0"]).values).any())
    False
    """

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("join", *SUMS, "distil", "imputer", "fill", "learn", "share", "score")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cotempo": {},
        "paper": {
            "rounds": 5, "pretrain_steps": 10_000, "token_steps": 0, "start_steps": 0, "imputer_steps": 0,
            "first_steps": 7500, "later_steps": 5000, "last_steps": 0, "alpha": 1.0, "rough": False, "rate": 8e-4,
            "sampler": "ddpm", "warm_start": 1.0,
        },
    }  # fmt: skip
    State: ClassVar[type] = FedTDDState
    Memory: ClassVar[type | None] = ClientMemory

    common: tuple[str, ...] = Field(min_length=1)
    rounds: int = Field(2, ge=1)
    pretrain_steps: int = Field(10_000, ge=1)
    token_steps: int = Field(4000, ge=0)
    start_steps: int = Field(2000, ge=0)
    imputer_steps: int = Field(600, ge=0)
    first_steps: int = Field(1000, ge=1)
    later_steps: int = Field(500, ge=0)
    last_steps: int = Field(500, ge=0)
    alpha: float = Field(0.0, ge=0, le=1)
    growth: Literal["linear", "constant", "none"] = "linear"
    rough: bool = True
    guidance: float = Field(0.05, ge=0)
    minimum_rows: int = Field(20, ge=1)
    chunk: int = Field(250, ge=1)

    @model_validator(mode="after")
    def _steps_fit(self) -> FedTDD:
        given = {name: getattr(self, name) for name in ("imputer_steps", "token_steps") if getattr(self, name)}
        if self.preset == "paper" and given:
            text = ", ".join(f"{name}={value}" for name, value in given.items())
            raise ParameterError(f"imputers are not part of preset='paper', got {text}; leave that out or give 0")
        return self

    def plan(self) -> Iterator[Line]:
        """Algorithm 1."""
        yield Line("join", 1)
        if self.has_moments:
            yield Line("sums", 1)
        yield from self._chunks("distil", 1, self.pretrain_steps)
        for number in range(1, self.rounds + 1):
            if number == 1:
                yield from self._chunks("imputer", 1, self.imputer_steps)
            yield Line("fill", number)
            steps = self.first_steps if number == 1 else self.later_steps
            yield from self._chunks("learn", number, steps, whole=not self.releases)
            if self.releases:
                yield Line("share", number)
            yield from self._chunks("distil", number, self.tuning_steps)
        yield from self._chunks("learn", self.rounds, self.last_steps, whole=True)
        yield Line("score", self.rounds)

    @property
    def tuning_steps(self) -> int:
        """Steps of fine-tuning after each round, at a tenth of the rate."""
        return max(1, self.pretrain_steps // 10) if self.alpha else 0

    @property
    def releases(self) -> bool:
        """Whether synthetic windows leave clients."""
        return self.alpha > 0 and self.growth != "none"

    @property
    def has_moments(self) -> bool:
        """Whether window moments of all clients are summed first."""
        return self.preset == "cotempo"

    def moments(self, features: int) -> FedMoments:
        """The method that sums window moments, as a part of this one."""
        return FedMoments(window=usual_window(features, 4 * self.window))

    @property
    def has_tokens(self) -> bool:
        """Whether the imputer of tokens is used."""
        return self.preset == "cotempo" and self.token_steps > 0

    def share_at(self, number: int) -> float:
        """Share of synthetic windows released in a round."""
        return self.alpha * {"linear": number / self.rounds, "constant": 1.0, "none": 0.0}[self.growth]

    @property
    def backbone_steps(self) -> int:
        """Steps of a client's diffusion model in all."""
        return self.first_steps + (self.rounds - 1) * self.later_steps + self.last_steps

    def _chunks(self, phase: str, number: int, steps: int, *, whole: bool = False) -> Iterator[Line]:
        for first in range(0, steps, self.chunk):
            yield Line(phase, number, min(self.chunk, steps - first), whole)

    # The coordinator.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> FedTDDState:
        """Scale the common features by the public series."""
        rows = distiller.public_rows(self, public)
        scale = Scale.of(rows.values)
        learned = Learned.fresh(distiller.leaves(self), rng("distiller"), self.precision)
        ties = Ties.of(Rows(scale.apply(rows.values), rows.lengths), scale)
        tokens = Learned.fresh(self.token_imputer().leaves(0), rng("tokens"), self.precision)
        start = Learned.fresh(self.backbone().leaves(len(self.common)), rng("start"), self.precision)
        bank = np.zeros((0, self.window, len(self.common)), self.precision)
        moments = self.moments(1).open(roster, public, rng)
        return FedTDDState(scale, ties, learned, learned, tokens, start, bank, moments)

    def ask(self, state: FedTDDState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """The next line of the plan; whoever does not know the distiller yet is told it, too."""
        line, *later = [*list(self.plan())[state.place :], None]
        if line is None:
            return None
        ends = later[0] is None or later[0].round > line.round
        if line.phase == "sums":
            asked = self.moments(len(state.moments.features)).ask(state.moments, cohort, rng)
            return None if asked is None else replace(asked, ends_round=False)
        if line.phase in ("join", "distil"):
            return Ask(line.phase, cohort if line.phase == "join" else (), ends_round=ends)
        told = {"steps": line.steps, "share": self.share_at(line.round), "whole": line.whole}
        lesson = self._lesson(state)
        new = {name: lesson for name in cohort if name not in state.informed}
        return Ask(line.phase, cohort, Message(told), new, ends_round=ends)

    def _lesson(self, state: FedTDDState) -> Message:
        """What stems from public data: the distiller with its scale and ties, the tokens, and where to start."""
        told: dict[str, Any] = {
            "distiller": state.best.average, "low": state.scale.low, "high": state.scale.high,
            "centre": state.scale.centre, "spread": state.scale.spread, "left": state.ties.spread,
            "levels": state.ties.levels, "moves": state.ties.moves,
        }  # fmt: skip
        if self.has_tokens:
            told["tokens"] = state.tokens.average
        if self.start_steps:
            told["start"] = state.start.average
        if self.has_moments:
            told |= {"features": json.dumps(state.moments.features), "prior": state.moments.prior}
            told |= {"products": state.moments.products[1], "counts": state.moments.counts[1]}
            told |= {"middle": state.moments.units.centre, "step": state.moments.units.step}
        return Message(told)

    def absorb(
        self, state: FedTDDState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[FedTDDState, Metrics]:
        """Train the distiller, or take in what clients sent."""
        line = list(self.plan())[state.place]
        if line.phase == "sums":
            return self._sum_up(state, answers, public, rng)
        state = replace(state, place=state.place + 1)
        told = {name: answers[name] for name in answers.names}
        if line.phase == "distil":
            return distiller.train(self, replace(state, informed=()), public, line.steps, rng)
        if line.phase == "join":
            return replace(state, windows={name: told[name]["windows"] for name in told}), {"clients": float(len(told))}
        state = replace(state, informed=tuple(sorted({*state.informed, *told})))
        if line.phase in ("imputer", "learn"):
            return state, {f"{line.phase} loss": _mean([told[name]["loss"] for name in told])}
        if line.phase == "fill":
            return state, {"missing": _mean([told[name]["missing"] for name in told])}
        if line.phase == "share":
            return self._expand(state, told)
        errors = {name: (told[name]["alone"], told[name]["together"]) for name in told if told[name]["cells"]}
        gain = _mean([alone - together for alone, together in errors.values()])
        return replace(state, errors={**state.errors, **errors}), {"gain": gain}

    def _sum_up(
        self, state: FedTDDState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[FedTDDState, Metrics]:
        """Add the public series to the clients' sums, as one owner more."""
        inner, phase = self.moments(len(state.moments.features)), state.moments.phase
        asked = inner.ask(state.moments, answers.names, rng)
        assert asked is not None
        rows = distiller.public_rows(self, public)
        own, total = contribute(phase, asked.common, Prepared(rows, self.common)), answers.sum
        both = Message({name: total[name] + own[name] for name in own}, weight=total.weight + 1)
        moments, metrics = inner.absorb(state.moments, replace(answers, total=both), public, rng)
        return replace(state, moments=moments, place=state.place + (moments.phase not in SUMS)), metrics

    def _expand(self, state: FedTDDState, told: Mapping[str, Message]) -> tuple[FedTDDState, Metrics]:
        """Expand the public data by what clients released, and count what they withheld."""
        bank = np.concatenate([state.bank, *(told[name]["windows"] for name in told)])
        withheld = {**state.withheld, **{name: state.withheld.get(name, 0) + told[name]["withheld"] for name in told}}
        membership = {**state.membership, **{name: told[name]["membership"] for name in told}}
        metrics = {
            "released": float(len(bank) - len(state.bank)),
            "withheld": float(sum(told[name]["withheld"] for name in told)),
            "membership": _mean([told[name]["membership"] for name in told]),
        }
        return replace(state, bank=bank, withheld=withheld, membership=membership), metrics

    # The clients.

    def prepare(self, table: Table) -> Owned:
        """Cut a client's series into pieces, common features first."""
        assert isinstance(table, Series)  # `check` saw the schema
        return owned.prepare(self, table)

    def begin(self, prepared: Owned, rng: Rng) -> ClientMemory:
        """Untrained networks."""
        return owned.begin(self, prepared, rng)

    def answer(
        self, question: Question, prepared: Owned, memory: ClientMemory, rng: Rng
    ) -> tuple[Message, ClientMemory | None]:
        """As one of a cohort of one."""
        return self.answer_all([question], [prepared], [memory], [rng])[0]

    def answer_all(
        self,
        questions: Sequence[Question],
        prepared: Sequence[Owned],
        memories: Sequence[ClientMemory],
        rngs: Sequence[Rng],
    ) -> list[tuple[Message, ClientMemory | None]]:
        """Training runs as one stacked model; the rest client by client."""
        phase = questions[0].phase
        if phase in SUMS:
            return [
                (contribute(phase, q.common, Prepared(owner.trained, owner.features)), None)
                for q, owner in zip(questions, prepared, strict=True)
            ]
        if phase in ("imputer", "learn"):
            work = client.train_imputers if phase == "imputer" else client.train_backbones
            return work(self, questions, prepared, memories, rngs)
        each = {"join": client.join, "fill": client.fill, "share": client.share, "score": client.score}[phase]
        return [each(self, *given) for given in zip(questions, prepared, memories, rngs, strict=True)]

    def expects(self, state: FedTDDState, phase: str) -> Expect:
        """Counts, losses, sums of window moments, and synthetic windows of the common features."""
        if phase in SUMS:
            return self.moments(len(state.moments.features)).expects(state.moments, phase)
        return crossing.expects(self, phase)

    def check(self, roster: Roster) -> None:
        """Clients may have different features, but all of the common ones, and the same unit of time."""
        crossing.check(self, roster)

    def benefit(self, state: FedTDDState) -> Mapping[str, Benefit]:
        """Error of filling hidden cells, alone and together."""
        return {
            name: Benefit("error of filling hidden cells", alone, together, higher_is_better=False)
            for name, (alone, together) in state.errors.items()
        }

    def result(self, outcome: Outcome) -> FittedFedTDD:
        """One model per client."""
        return FittedFedTDD(outcome)

    @classmethod
    def example(cls) -> tuple[FedTDD, dict[str, Table], Table]:
        """A very small instance for trying things out: three clients, one of them with a feature less."""
        made, _ = make_series(clients=4, length=40, features=3, missing=0.2, seed=0)
        *names, last = sorted(made)
        clients: dict[str, Table] = {name: made[name] for name in names}
        few = made[names[1]]
        clients[names[1]] = Series(few.features[:2], few.sequence, few.time, few.values[:, :2])
        public = made[last]
        method = cls(
            common=("x0", "x1"), rounds=1, window=4, context=6, width=4, heads=1, encoders=1, decoders=1,
            imputer_width=4, imputer_layers=1, diffusion_steps=4, sampler_steps=2, batch=4, pretrain_steps=2,
            token_steps=1, start_steps=1, imputer_steps=1, first_steps=1, last_steps=1, alpha=0.2,
            precision="float64",
        )  # fmt: skip
        return method, clients, public


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
