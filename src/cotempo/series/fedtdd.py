"""FedTDD: owners of misaligned series impute and generate together; the printed loop, from top to bottom.

`FedTDD.plan` has the lines of the paper's Algorithm 1. `Distiller.train` is lines 1 and 16; `receive`,
`impute`, `train_local_imputers` and `share` are the clients' lines 4 to 10, and `FedTDD.expand` is lines 12 to 15. Our
default has another `Distiller`, in `cotempo.series.fedtdd_conditional`.

In the paper's words, the global *distiller* D models the common features at the coordinator, and a *local imputer* U is
a client's diffusion model of all its features. Our default also has *correctors*, networks that correct a filling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from cotempo.data import Series, Table, make_series
from cotempo.errors import DataError, ParameterError, Problem
from cotempo.federation import (
    NOT_COMPARED,
    Answers,
    Ask,
    Expect,
    Joining,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Rng,
    Roster,
    Spec,
    expect_tally,
    register,
)
from cotempo.federation.reducers import Reducer
from cotempo.robust.reducer import SCREEN
from cotempo.series import fedmoments
from cotempo.series.fedmoments import SUMS, FedMoments, MomentsState, NamedRows, contribute
from cotempo.series.filling.calibration import Calibration, add_imputation_errors, calibrate, imputation_errors
from cotempo.series.filling.factor_models import FactorModels
from cotempo.series.filling.gaps import KINDS, interpolate_rows
from cotempo.series.filling.stages import Fills, TeacherWeights
from cotempo.series.fitted import FittedFedTDD
from cotempo.series.generators import DIFFUSION, Generator, find_generator, fit_generator, no_network
from cotempo.series.nn.parameters import NetworkState, ParameterSpecs, Schedule, resize
from cotempo.series.release import release
from cotempo.series.seriesmoments import MomentsStage, usual_window
from cotempo.series.settings import SeriesSettings
from cotempo.series.windows import Cover, Scale, SeriesRows, excerpt, need_many, need_rows, refuse_unseen, windows_of
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.privacy.settings import Privacy
    from cotempo.series.nn.training import TrainingWindows
    from cotempo.series.private.fedtdd import PrivateFedTDD

Reply = tuple[Message, "ClientMemory | None"]
Absorbed = tuple["FedTDDState", Metrics]
Calibrated = Sequence[tuple[Fills, SeriesRows]]
HELD_OUT, EVERY = 0.2, 3
MOST_RELEASED = 3  # times as many windows as the median client's may a client add to the bank
# Of a training step, and of a phase at one client, relative; measured on one CPU thread with 2,000 rows a client.
COSTS = {"distil": 1, "tokens": 4, "start": 1.5, "correct": 6.5, "train": 1.5, "sums": 30, "impute": 100, "score": 150}


@dataclass(frozen=True)
class FedTDDState:
    """The coordinator's state.

    `distiller` goes on learning and `best` is its best so far, which clients receive; `tokens` is the token imputer,
    and `start` the initial weights of local imputers. `bank` holds the synthetic windows that clients released, `place`
    is how much of the plan is done, and `informed` are the clients that received the present `best`; `windows` is how
    many a client has on average, and the rest is what clients reported.
    """

    scale: Scale
    factors: FactorModels
    distiller: NetworkState
    best: NetworkState
    tokens: NetworkState
    start: NetworkState
    bank: NDArray[Any]
    moments: MomentsState
    place: int = 0
    informed: tuple[str, ...] = ()
    clients: int = 0
    windows: float = 0.0
    withheld: Mapping[str, int] = field(default_factory=dict)
    membership: Mapping[str, float] = field(default_factory=dict)
    joining: Joining = field(default_factory=Joining)


@dataclass(frozen=True)
class ClientData:
    """A client's series, common features first: all rows, those to train on, those held out, and their own scale."""

    rows: SeriesRows
    trained: SeriesRows
    held: SeriesRows
    scale: Scale
    features: tuple[str, ...]


@dataclass(frozen=True)
class ClientMemory:
    """A client's memory.

    `teacher` is what the coordinator sent last; `scale` (for filling), `generator_scale` (for U), `factors` and
    `moments` (the process of all clients' window moments; none as published) follow from it. `corrector` corrects the
    filling of the distiller, `corrector_alone` does without it, to compare with, and `local_imputer` is U. `gates` are
    as of `Filler`, `filled` are the rows with gaps filled, and `errors` as `imputation_errors` returns them. `excerpt`
    has the times and values of some rows with gaps, for a figure.
    """

    teacher: TeacherWeights | None
    corrector: NetworkState
    corrector_alone: NetworkState
    local_imputer: NetworkState
    gates: Floats
    filled: Floats
    errors: Floats
    scale: Scale
    generator_scale: Scale
    factors: FactorModels
    calibration: Calibration
    moments: MomentsStage | None = None
    excerpt: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    compared: Floats = field(default_factory=lambda: NOT_COMPARED)

    @property
    def taught(self) -> TeacherWeights:
        """Return what the coordinator sent; every client receives it with its first question."""
        assert self.teacher is not None
        return self.teacher


@dataclass(frozen=True)
class Line:
    """One line of the algorithm: a phase, in which round, in how many steps, and whether on all windows."""

    phase: str
    round: int
    steps: int = 0
    all_windows: bool = False


def _table10(
    head: int, encoders: int, decoders: int, batch: int, alpha: float, noise: int, steps: int
) -> Mapping[str, Any]:
    """Return one column of the paper's Table 10 as parameters; all data sets have four heads."""
    return {
        "heads": 4, "width": 4 * head, "encoders": encoders, "decoders": decoders, "batch": batch, "alpha": alpha,
        "diffusion_steps": noise, "pretrain_steps": steps,
    }  # fmt: skip


@register("fed-tdd")
class FedTDD(SeriesSettings, Method):
    r"""Impute and generate series at many owners who share some features.

    The preset ``paper`` is the printed loop: a diffusion model of the common features (the distiller) imputes them by
    guided sampling, a client's diffusion model (its local imputer) imputes the others, and the distiller is fine-tuned
    on public data and on synthetic windows that clients release: in round :math:`r` of :math:`R`
    :math:`n_r = \lceil \tfrac{r}{R} \alpha L \rceil` of each client with :math:`L` windows. No gate holds any of them
    back: ask for it with ``gate=True``. The authors' released code differs from the paper: its losses are absolute
    errors under the root of the printed weight (``loss="absolute"`` here), each round's windows replace the last ones
    instead of adding to them, and clients send measured values too. We follow the paper. Its sizes (Table 10) differ by
    data set: the preset has those of Stocks, and ``FedTDD(preset="paper", **FedTDD.published["etth"])`` those of ETTh;
    there are ``mujoco``, ``energy`` and ``fmri`` too.

    The preset ``cotempo`` trains two imputers on public data, one of the common features and one of tokens that fills
    any feature. Clients use them frozen and correct them by a network of their own, each where that helps. Clients'
    diffusion models start from one of the public data and learn from filled windows. Nothing is released unless asked
    for (`alpha`); then some windows are set apart until the last release, so that what a released window reveals of
    those trained on can be measured.

    References
    ----------
    "Federated time series generation on feature and temporally misaligned data", the FedTDD paper.
    Yuan and Qiao, "Diffusion-TS: interpretable diffusion for general time series generation", ICLR 2024.

    Examples
    --------
    >>> method, clients, public = FedTDD.example()
    >>> fitted = method.fit(clients, public=public)
    >>> bool(np.isnan(fitted["client-0"].impute(clients["client-0"]).values).any())
    False
    """

    reducer: ClassVar[Reducer] = SCREEN  # name a client that differs from all others
    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("join", *SUMS, "distil", "correct", "impute", "train", "share", "score")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cotempo": {},
        "paper": {
            "distiller": "diffusion", "rounds": 5, "pretrain_steps": 10_000, "token_steps": 0, "start_steps": 0,
            "corrector_steps": 0, "first_steps": 7500, "later_steps": 5000, "last_steps": 0, "alpha": 1.0,
            "rough": False, "rate": 8e-4, "sampler": "ddpm", "warm_start": 1.0, "loss": "squared", "gate": False,
            "batch": 64,
        },
    }  # fmt: skip
    published: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "stocks": _table10(16, 2, 2, 64, 1.0, 500, 10_000), "etth": _table10(16, 3, 2, 128, 0.1, 500, 18_000),
        "mujoco": _table10(16, 3, 2, 128, 0.1, 1000, 14_000), "energy": _table10(24, 4, 3, 64, 0.5, 1000, 25_000),
        "fmri": _table10(24, 4, 4, 64, 0.1, 1000, 25_000),
    }  # fmt: skip
    State: ClassVar[type] = FedTDDState
    private_units: ClassVar[tuple[str, ...]] = ("row",)
    learns_alone: ClassVar[str] = "SeriesDiffusion().fit(table)"
    Memory: ClassVar[type | None] = ClientMemory
    metric: ClassVar[str] = fedmoments.METRIC
    higher_is_better: ClassVar[bool] = False

    common: tuple[str, ...] = Field(min_length=1, description="Features that all clients and the public series have.")
    distiller: Literal["diffusion", "conditional"] = Field(
        default="conditional", description="The paper's diffusion model, or imputers trained on hidden cells."
    )
    generator: str = Field(
        default=DIFFUSION,
        description="The model that D and U are with ``distiller='diffusion'``: a diffusion model, or the name of one "
        "with `fit`, `sample` and `impute` given to `register_generator`.",
    )
    rounds: int = Field(default=2, ge=1, description="Rounds :math:`R`.")
    pretrain_steps: int = Field(default=10_000, ge=1, description="Training steps of the distiller.")
    token_steps: int = Field(default=4000, ge=0, description="Those of the token imputer, at most as many; 0: none.")
    start_steps: int = Field(default=2000, ge=0, description="Those of the start of local imputers; 0: none.")
    corrector_steps: int = Field(default=600, ge=0, description="Training steps of a client's corrector.")
    first_steps: int = Field(default=1000, ge=1, description="Training steps of a local imputer in the first round.")
    later_steps: int = Field(default=500, ge=0, description="Those in each later round.")
    last_steps: int = Field(default=500, ge=0, description="Those on all windows, after the last release.")
    alpha: float = Field(
        default=0.0, ge=0, le=1, description="Share of windows released in the last round; with 0 D is not fine-tuned."
    )
    growth: Literal["linear", "constant", "none"] = Field(
        default="linear", description='Growth of that share over the rounds; with ``"none"`` nothing is released.'
    )
    gate: bool = Field(default=True, description="Withhold synthetic windows that are too near to real ones.")
    rough: bool = Field(default=True, description="Train local imputers on fillings with errors like those measured.")
    minimum_rows: int = Field(default=20, ge=1, description="As in `FedMoments`, for the rows trained on.")
    chunk: int = Field(default=250, ge=1, description="Training steps between checkpoints.")

    @model_validator(mode="after")
    def _check_steps(self) -> FedTDD:
        if self.distiller == "diffusion" and (self.corrector_steps or self.token_steps):
            must = "corrector_steps and token_steps must be 0 with distiller='diffusion'"
            raise ParameterError(f"{must}, got corrector_steps={self.corrector_steps}, token_steps={self.token_steps}")
        if self.plugged is not None and (self.distiller == "conditional" or self.start_steps):
            must = "distiller must be 'diffusion' and start_steps 0 with another generator, as in preset='paper'"
            raise ParameterError(f"{must}, got distiller={self.distiller!r}, start_steps={self.start_steps}")
        return self

    @property
    def plugged(self) -> Generator | None:
        """Return the generator in the place of diffusion models, if there is one."""
        return None if self.generator == DIFFUSION else find_generator(self.generator)

    def fresh(self, specs: ParameterSpecs, stream: np.random.Generator) -> NetworkState:
        """Draw the first weights of D or U; another generator has none."""
        return NetworkState.fresh(specs, stream, self.precision) if self.plugged is None else no_network()

    def sample_windows(self, weights: NDArray[Any], features: int, count: int, rng: Rng) -> Floats:
        """Draw new windows (line 9)."""
        if self.plugged is None:
            return super().sample_windows(weights, features, count, rng)
        return self.plugged.sample(weights, (count, self.window, features), rng)

    def impute_windows(
        self, weights: NDArray[Any], windows: Floats, seen: NDArray[np.bool_], draws: int, rng: Rng,
        *, guided: bool = False,
    ) -> Floats:  # fmt: skip
        """Draw the unseen cells of windows (lines 5 and 6)."""
        if self.plugged is None:
            return super().impute_windows(weights, windows, seen, draws, rng, guided=guided)
        return np.stack([self.plugged.impute(weights, windows, seen, Rng(*rng.key, draw)) for draw in range(draws)])

    def decompose_windows(self, weights: NDArray[Any], windows: Floats) -> tuple[Floats, Floats]:
        """Return trend and season of complete windows, which only diffusion models know."""
        if self.plugged is not None:
            raise ParameterError(f"generator must be {DIFFUSION!r} to decompose series, got {self.generator!r}")
        return super().decompose_windows(weights, windows)

    def plan(self) -> Iterator[Line]:
        """Yield the lines of Algorithm 1, training in chunks."""
        yield Line("join", 1)
        if self.strategy.sums_moments:
            yield Line("sums", 1)
        yield from self._chunks("distil", 1, self.pretrain_steps)  # line 1
        for number in range(1, self.rounds + 1):  # line 2
            if number == 1:
                yield from self._chunks("correct", 1, self.corrector_steps)
            yield Line("impute", number)  # lines 4 to 7
            steps = self.first_steps if number == 1 else self.later_steps
            yield from self._chunks("train", number, steps, all_windows=not (self.releases and self.gate))  # line 8
            if self.releases:
                yield Line("share", number)  # lines 9 to 15
            yield from self._chunks("distil", number, self.tuning_steps)  # line 16
        yield from self._chunks("train", self.rounds, self.last_steps, all_windows=True)
        yield Line("score", self.rounds)

    @property
    def equal_steps(self) -> Literal["", "advised", "required"]:
        """A window is a number of rows."""
        return "advised"

    @property
    def most_questions(self) -> dict[str, int]:
        """By phase, how many questions a site answers: as many as the plan has lines, and those of its sums."""
        return {
            **dict.fromkeys(self.phases, 1),
            **self.moments(1).most_questions,
            **Counter(line.phase for line in self.plan()),
        }

    def _chunks(self, phase: str, number: int, steps: int, *, all_windows: bool = False) -> Iterator[Line]:
        for first in range(0, steps, self.chunk):
            yield Line(phase, number, min(self.chunk, steps - first), all_windows)

    def work(self, state: FedTDDState) -> tuple[float, float]:
        """Return the training steps done and in all, in those of an imputer, and what else takes time."""
        done = total = distilled = 0.0
        for place, line in enumerate(self.plan()):
            if line.phase == "distil":
                limits = {"tokens": min(self.token_steps, self.pretrain_steps), "start": self.start_steps}
                more = {name: min(max(limit - distilled, 0), line.steps) for name, limit in limits.items()}
                size = line.steps + sum(COSTS[name] * steps for name, steps in more.items())
                distilled += line.steps
            else:
                size = COSTS.get(line.phase, 0) * (line.steps or 1) * max(state.clients, 1)
            total += size
            done += size * (place < state.place)
        return done, total

    def rehearsal(self) -> Self:
        """Return the method with one training step for each chunk: messages stay as many and as large."""
        trained = ("pretrain", "token", "start", "corrector", "first", "later", "last")
        steps = {f"{name}_steps": -(-getattr(self, f"{name}_steps") // self.chunk) for name in trained}
        return self.model_copy(update={**steps, "chunk": 1})

    @property
    def strategy(self) -> Distiller:
        """Return the distiller that was chosen."""
        from cotempo.series.fedtdd_conditional import ConditionalDistiller

        return {"diffusion": Distiller, "conditional": ConditionalDistiller}[self.distiller](self)

    @property
    def tuning_steps(self) -> int:
        """Return the steps of fine-tuning after each round, at a tenth of the rate."""
        return max(1, self.pretrain_steps // 10) if self.alpha else 0

    @property
    def releases(self) -> bool:
        """Return whether synthetic windows leave clients."""
        return self.alpha > 0 and self.growth != "none"

    def share_at(self, number: int) -> float:
        r"""Return the share :math:`\tfrac{r}{R} \alpha` of windows released in a round (line 13)."""
        return self.alpha * {"linear": number / self.rounds, "constant": 1.0, "none": 0.0}[self.growth]

    @property
    def local_steps(self) -> int:
        """Return the steps of a local imputer in all."""
        return self.first_steps + (self.rounds - 1) * self.later_steps + self.last_steps

    def moments(self, features: int) -> FedMoments:
        """Make the method that sums window moments, as a part of this one."""
        return FedMoments(window=usual_window(features, 4 * self.window))

    def inner_order(self, features: Sequence[str]) -> list[str]:
        """Return a client's features, the common ones first."""
        return [*self.common, *(name for name in features if name not in self.common)]

    @field_validator("common", mode="before")
    @classmethod
    def _refuse_text(cls, given: Any) -> Any:
        if isinstance(given, str):
            raise ValueError(f"common must be a list of features, got {given!r}; write [{given!r}]")
        return given

    # The coordinator.

    def private(self, privacy: Privacy) -> PrivateFedTDD:
        """Return the form of which nothing crosses but noised moments."""
        from cotempo.series.private.fedtdd import PrivateFedTDD

        return PrivateFedTDD.of(self, privacy)

    def check(self, roster: Roster) -> None:
        """Require all common features of every client, and the same unit of time; other features may differ."""
        fedmoments.check_series(roster, self.common)

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> FedTDDState:
        """Scale the common features by the public series, and draw initial weights."""
        rows = public_rows(self, public)
        scale = Scale.of(rows.values)
        distiller = self.fresh(self.strategy.specs(), rng("distiller"))
        factors = FactorModels.of(scale.rows(rows), scale)
        tokens = NetworkState.fresh(self.token_imputer().specs(0), rng("tokens"), self.precision)
        start = NetworkState.fresh(self.backbone().specs(len(self.common)), rng("start"), self.precision)
        bank = np.zeros((0, self.window, len(self.common)), self.precision)
        moments = self.moments(1).open(roster, public, rng)
        return FedTDDState(scale, factors, distiller, distiller, tokens, start, bank, moments)

    def ask(self, state: FedTDDState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask the next line of the plan; clients that lack the present distiller receive it, too."""
        line, *later = [*list(self.plan())[state.place :], None]
        if line is None:
            return None
        ends = later[0] is None or later[0].round > line.round
        if line.phase == "sums":
            asked = self.moments(len(state.moments.features)).ask(state.moments, cohort, rng)
            return None if asked is None else replace(asked, ends_round=False)
        if line.phase in ("join", "distil"):
            return Ask(line.phase, cohort if line.phase == "join" else (), ends_round=ends)
        common = {"steps": line.steps, "share": self.share_at(line.round), "all_windows": line.all_windows}
        lesson = self._lesson(state)
        new = {name: lesson for name in cohort if name not in state.informed}
        return Ask(line.phase, cohort, Message(common), new, ends_round=ends)

    def _lesson(self, state: FedTDDState) -> Message:
        """Return what clients receive in line 4: the distiller with its scale and factor models, and a start."""
        parts: dict[str, Any] = {
            "distiller": state.best.average, "low": state.scale.low, "high": state.scale.high,
            "centre": state.scale.centre, "spread": state.scale.spread, "left": state.factors.spread,
            "level_factors": state.factors.level_factors, "move_factors": state.factors.move_factors,
        }  # fmt: skip
        if self.start_steps:
            parts["start"] = state.start.average
        return Message(parts | self.strategy.lesson(state))

    def absorb(self, state: FedTDDState, answers: Answers, public: Table | None, rng: Rng) -> Absorbed:
        """Train the distiller, or take in what clients sent."""
        line = list(self.plan())[state.place]
        if line.phase == "sums":
            return self._sum_up(state, answers, public, rng)
        state = replace(state, place=state.place + 1)
        if line.phase == "distil":
            return self._distil(replace(state, informed=()), public_rows(self, public), line.steps, rng)
        if line.phase == "join":
            mean = answers.sum["windows"] / max(answers.sum["counted"], 1.0)
            clients = len(answers.names)
            return replace(state, clients=clients, windows=mean), {"clients": float(clients)}
        state = replace(state, informed=tuple(sorted({*state.informed, *answers.names})))
        if line.phase in ("correct", "train"):
            name = "corrector loss" if line.phase == "correct" else "local imputer loss"
            return state, {name: float(answers.mean("loss"))}
        if line.phase == "impute":
            return state, {"missing": float(answers.mean("missing"))}
        if line.phase == "share":
            return self.expand(state, {name: answers[name] for name in answers.names})
        joining = Joining(answers.sum["joining"])
        return replace(state, joining=joining), {"gain": joining.gain}

    def _sum_up(self, state: FedTDDState, answers: Answers, public: Table | None, rng: Rng) -> Absorbed:
        """Add the public series to the clients' sums of window moments, as one more owner."""
        inner, phase = self.moments(len(state.moments.features)), state.moments.phase
        asked = inner.ask(state.moments, answers.names, rng)
        assert asked is not None
        own = contribute(phase, asked.common, NamedRows(public_rows(self, public), self.common))
        total = answers.sum
        both = Message({name: total[name] + own[name] for name in own}, weight=total.weight + 1)
        moments, metrics = inner.absorb(state.moments, replace(answers, total=both), public, rng)
        return replace(state, moments=moments, place=state.place + (moments.phase not in SUMS)), metrics

    def _distil(self, state: FedTDDState, rows: SeriesRows, steps: int, rng: Rng) -> Absorbed:
        """Train the distiller (lines 1 and 16), and the model that local imputers start from."""
        from cotempo.series.nn.training import train_one

        state, metrics = self.strategy.train(state, rows, steps, rng)
        total = min(self.start_steps, self.pretrain_steps)
        steps = min(steps, total - state.start.steps)
        if steps > 0:
            dataset = _as_clients(self, state, rows)
            start, _ = train_one(self.denoising(), state.start, dataset, steps, self.schedule(total), rng)
            state = replace(state, start=start)
        return state, metrics

    def distiller_schedule(self, network: NetworkState, rate: float) -> Schedule:
        """Make the schedule of the distiller, a tenth of the rate for fine-tuning."""
        # Past its horizon a schedule stays at a twentieth of its rate: twice the rate makes the tenth.
        tuning = network.steps >= self.pretrain_steps
        return self.schedule(self.pretrain_steps, (2 if tuning else 1) * rate)

    def expand(self, state: FedTDDState, sent: Mapping[str, Message]) -> Absorbed:
        """Expand the public data by what clients released (lines 12 to 15), and count what they withheld.

        Nobody adds more than `MOST_RELEASED` times as many windows as the median client drew.
        """
        drawn = [len(reply["windows"]) + reply["withheld"] for reply in sent.values()]
        most = math.ceil(MOST_RELEASED * np.median(drawn or [0]))
        bank = np.concatenate([state.bank, *(reply["windows"][:most] for reply in sent.values())])
        withheld = {name: state.withheld.get(name, 0) + reply["withheld"] for name, reply in sent.items()}
        membership = {name: reply["membership"] for name, reply in sent.items() if self.gate}
        metrics = {
            "released": float(len(bank) - len(state.bank)),
            "withheld": float(sum(reply["withheld"] for reply in sent.values())),
        }
        if membership:
            metrics["membership"] = _mean(list(membership.values()))
        withheld, membership = {**state.withheld, **withheld}, {**state.membership, **membership}
        return replace(state, bank=bank, withheld=withheld, membership=membership), metrics

    # The clients.

    def reveals(self) -> str:
        """Tell what sums of moments do."""
        return fedmoments.ONE_OF_A_KIND if self.strategy.sums_moments else ""

    def prepare(self, table: Table) -> ClientData:
        """Cut a client's series into pieces, common features first, and refuse what cannot be learned from."""
        assert isinstance(table, Series)  # `check` saw the schema
        if np.isnan(table.values).all():
            raise DataError("at least one cell must be measured, all are missing; leave this client out")
        absent = [name for name in self.common if name not in table.features]
        if absent:
            raise DataError([Problem(fedmoments.COMMON_MUST, column=name) for name in absent])
        names, rows = self.inner_order(table.features), SeriesRows.of(table)
        rows = rows.with_values(rows.values[:, [table.features.index(name) for name in names]])
        must = "an exclusive feature must be measured at least once, all its cells are missing; leave the column out"
        refuse_unseen(names[len(self.common) :], rows.values[:, len(self.common) :], must)
        need_rows(rows)
        trained, held = rows.split(HELD_OUT, self.window)
        if self.strategy.sums_moments:
            need_many(trained, self.minimum_rows)
        return ClientData(rows, trained, held, Scale.of(rows.values), tuple(names))

    def begin(self, prepared: ClientData, rng: Rng) -> ClientMemory:
        """Draw initial weights."""
        features, scale = prepared.rows.values.shape[1], prepared.scale
        corrector = NetworkState.fresh(self.imputer().specs(features), rng("imputer"), self.precision)
        local = self.fresh(self.backbone().specs(features), rng("backbone"))
        empty, closed = np.zeros((0, features)), np.zeros((0, KINDS, 0))
        factors, calibration = FactorModels.none(features), Calibration.none(features)
        learned = (None, corrector, corrector, local)
        return ClientMemory(*learned, closed, empty, empty, scale, scale, factors, calibration)

    def answer(self, question: Question, prepared: ClientData, memory: ClientMemory, rng: Rng) -> Reply:
        """Answer as one of a cohort of one."""
        return self.answer_all([question], [prepared], [memory], [rng])[0]

    def answer_all(
        self,
        questions: Sequence[Question],
        prepared: Sequence[ClientData],
        memories: Sequence[ClientMemory],
        rngs: Sequence[Rng],
    ) -> list[Reply]:
        """Train in one stacked model; do the rest client by client."""
        phase = questions[0].phase
        if phase == "join":
            counts = [len(data.rows.starts(self.window)) for data in prepared]
            return [(Message({"windows": float(count), "counted": float(count > 0)}), None) for count in counts]
        if phase in SUMS:
            return [
                (contribute(phase, question.common, NamedRows(data.trained, data.features)), None)
                for question, data in zip(questions, prepared, strict=True)
            ]
        memories = [receive(self, *given) for given in zip(questions, prepared, memories, strict=True)]
        if phase == "train":
            return train_local_imputers(self, questions, prepared, memories, rngs)
        if phase == "correct":
            from cotempo.series.fedtdd_conditional import train_correctors

            return train_correctors(self, questions[0].common["steps"], prepared, memories, rngs)
        work = {"impute": impute, "share": share, "score": score}[phase]
        return [work(self, *given) for given in zip(questions, prepared, memories, rngs, strict=True)]

    def expects(self, state: FedTDDState, phase: str) -> Expect:
        """Expect counts, losses, sums of window moments, and synthetic windows of the common features."""
        if phase in SUMS:
            return self.moments(len(state.moments.features)).expects(state.moments, phase)
        if phase == "join":
            about, any_at_all = "how many windows your series have", "whether they have any"
            fields = {
                "windows": Spec((), "float", low=0, description=about),
                "counted": Spec((), "float", 0, 1, description=any_at_all),
            }
            return Expect(fields, sums=True)
        if phase == "impute":
            about = "share of your cells that are missing"
            return Expect({"missing": Spec((), "float", 0, 1, description=about)}, sums=True)
        if phase == "share":
            near = "none of them near to a real one" if self.gate else "however near they are to real ones"
            about = f"synthetic windows of the common features, {near}"
            fields = {
                "windows": Spec((None, *state.bank.shape[1:]), self.precision, -100, 100, description=about),
                "withheld": Spec((), "int", low=0, description="how many synthetic windows stay with you"),
            }
            if self.gate:
                score = "how well they tell who was trained on; 0.5: not at all"
                fields["membership"] = Spec((), "float", 0, 1, description=score)
            return Expect(fields, rows=lambda message: float(len(message["windows"])), alike=_moments_of)
        if phase == "score":
            return Expect({"joining": expect_tally()}, sums=True)
        return Expect({"loss": Spec((), "float", low=0, description="the training loss of your model")}, sums=True)

    def result(self, outcome: Outcome) -> FittedFedTDD:
        """Return one model per client."""
        return FittedFedTDD(outcome)

    @classmethod
    def example(cls) -> tuple[FedTDD, dict[str, Table], Table]:
        """Return a very small instance: three clients, one of them with a feature less."""
        made, _ = make_series(clients=4, length=40, features=3, missing=0.2, seed=0)
        *names, last = sorted(made)
        clients: dict[str, Table] = {name: made[name] for name in names}
        few = made[names[1]]
        clients[names[1]] = Series(few.features[:2], few.sequence, few.time, few.values[:, :2])
        method = cls(
            common=("x0", "x1"), rounds=1, window=4, context=6, width=4, heads=1, encoders=1, decoders=1,
            imputer_width=4, imputer_layers=1, diffusion_steps=4, sampler_steps=2, batch=4, pretrain_steps=2,
            token_steps=1, start_steps=1, corrector_steps=1, first_steps=1, last_steps=1, alpha=0.2,
            precision="float64",
        )  # fmt: skip
        return method, clients, made[last]


def public_rows(method: FedTDD, public: Table | None) -> SeriesRows:
    """Return the common features of the public series."""
    if not isinstance(public, Series):
        given = "none" if public is None else f"a table of {public.kind}"
        raise DataError(f"public must be a series with the common features, got {given}; pass public=")
    missing = [name for name in method.common if name not in public.features]
    if missing:
        raise DataError([Problem("the public series must have every common feature", column=name) for name in missing])
    rows = SeriesRows.of(public)
    rows = rows.with_values(rows.values[:, [public.features.index(name) for name in method.common]])
    need_rows(rows)
    must = "the public series must measure every common feature, this one is all missing"
    refuse_unseen(method.common, rows.values, must)
    return rows


def public_windows(state: FedTDDState, windows: Floats) -> TrainingWindows:
    """Return scaled windows of the common features to train on; missing cells do not count."""
    from cotempo.series.nn.training import TrainingWindows

    filled = np.where(np.isnan(windows), state.scale.centre, windows)
    return replace(TrainingWindows.plain(windows, state.factors), windows=filled)


def _as_clients(method: FedTDD, state: FedTDDState, rows: SeriesRows) -> TrainingWindows:
    """Return public windows as clients have theirs: dealt out in order of time, each part in a scale of its own."""
    windows = windows_of(rows, method.window)
    usual = state.windows or float(len(windows))
    parts = np.array_split(windows, min(max(1, round(len(windows) / usual)), len(windows)))
    scaled = [Scale.of(part.reshape(-1, part.shape[2])).apply(part) for part in parts]
    return public_windows(state, np.concatenate(scaled))


@dataclass(frozen=True)
class Distiller:
    """The paper's model D of the common features: a diffusion model that imputes them by guided sampling.

    Another one may differ in how it is trained and how clients impute with it. `sums_moments` says whether window
    moments of all clients are summed first, and `public_units` whether local imputers have the units of the public
    series.
    """

    method: FedTDD
    sums_moments: ClassVar[bool] = False
    public_units: ClassVar[bool] = True

    def specs(self) -> ParameterSpecs:
        """Return the parameters of the network."""
        return self.method.backbone().specs(len(self.method.common))

    def train(self, state: FedTDDState, rows: SeriesRows, steps: int, rng: Rng) -> Absorbed:
        """Train D on public and released windows by equations (1) to (3) (lines 1 and 16)."""
        from cotempo.series.nn.training import train_one

        method = self.method
        own = windows_of(state.scale.rows(rows), method.window)
        windows = public_windows(state, np.concatenate([own, state.bank]))
        schedule = method.distiller_schedule(state.distiller, method.rate)
        if method.plugged is not None:
            found, loss = fit_generator(method.plugged, state.distiller, windows, steps, rng)
        else:
            found, loss = train_one(method.denoising(), state.distiller, windows, steps, schedule, rng)
        return replace(state, distiller=found, best=found), {"distiller loss": loss}

    def lesson(self, state: FedTDDState) -> dict[str, Any]:
        """Return what clients receive besides the weights (line 4)."""
        return {}

    def receive(self, lesson: Message, data: ClientData, memory: ClientMemory) -> ClientMemory:
        """Remember what else was sent."""
        return memory

    def choose(self, data: ClientData, memory: ClientMemory, rng: Rng) -> ClientMemory:
        """Choose how far to trust each imputer, where there are several."""
        return memory

    def filler(self, memory: ClientMemory, rng: Rng) -> Fills:
        """Make what fills a client's gaps (lines 5 to 7): samples from D and, once it is trained, from U."""
        own = memory.local_imputer.average if memory.local_imputer.steps else None
        weights = memory.taught.weights
        return GuidedFiller(memory.scale, len(self.method.common), weights, own, rng)

    def counts(self, missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which cells the local imputer learns, the mask of equations (4) to (6): all but missing exclusive."""
        return ~missing | (np.arange(missing.shape[1]) < len(self.method.common))

    def compare(self, data: ClientData, memory: ClientMemory, rng: Rng) -> tuple[Floats, Floats, Calibrated]:
        """Return errors on hidden cells, alone and together, and fillers with the rows to calibrate them on.

        Alone is interpolation; a fifth of the held-out rows are hidden.
        """
        filler, rows, scale = self.filler(memory, rng), data.held, memory.scale
        hidden = (rng("owning").random((len(rows.values), 1)) < 0.2) & ~np.isnan(rows.values)
        if not hidden.any():
            return np.zeros(0), np.zeros(0), [(filler, rows)]
        left = rows.with_values(np.where(hidden, np.nan, rows.values))
        truth = scale.apply(rows.values)[hidden]
        lines = interpolate_rows(scale.rows(left), scale.centre)[hidden]
        filled = scale.apply(filler.rows(left, self.method))[hidden]
        return np.abs(lines - truth), np.abs(filled - truth), [(filler, rows)]


@dataclass(frozen=True)
class GuidedFiller(Fills):
    """Guided sampling from two diffusion models (lines 5 to 7; equation 23).

    `distiller` and `own` are weights of D over the common and of U over all features; without `own`, exclusive features
    are interpolated. Draws stem from `rng`, that of this owner, step and run.
    """

    scale: Scale
    common: int
    distiller: NDArray[Any]
    own: NDArray[Any] | None
    rng: Rng

    def seeded(self, seed: int) -> GuidedFiller:
        """Draw with another seed."""
        return replace(self, rng=Rng(*self.rng.key, seed))

    def rows(self, rows: SeriesRows, settings: SeriesSettings) -> Floats:
        """Fill rows, in the units of the data."""
        seen = ~np.isnan(rows.values)
        if seen.all() or not len(seen):
            return rows.values
        scaled = interpolate_rows(self.scale.rows(rows), self.scale.centre)
        cover = Cover(rows, settings.window, settings.window)
        windows, known = cover.take(scaled), cover.take(seen)
        known &= cover.inside[..., None]
        count, rngs = self.common, [Rng(*self.rng.key, part) for part in ("common", "exclusive")]
        windows[..., :count] = settings.impute_windows(  # line 5
            self.distiller, windows[..., :count], known[..., :count], 1, rngs[0], guided=True
        )[0]
        known[..., :count] = True
        if self.own is not None and not known.all():  # line 6
            windows = settings.impute_windows(self.own, windows, known, 1, rngs[1], guided=True)[0]
        return np.where(seen, rows.values, self.scale.undo(cover.blend(windows)))  # line 7


def receive(method: FedTDD, question: Question, data: ClientData, memory: ClientMemory) -> ClientMemory:
    """Receive the global distiller, if the question brings it, and what follows from it (line 4)."""
    lesson = question.own
    if "distiller" not in lesson:
        return memory
    public = Scale(lesson["low"], lesson["high"], lesson["centre"], lesson["spread"])
    factors = FactorModels(lesson["centre"], lesson["left"], lesson["level_factors"], lesson["move_factors"])
    # Common features in public units, so that the distiller's are the client's; the others in its own.
    scale = data.scale.replace(np.arange(len(public.low)), public)
    unseen = np.isnan(data.rows.values[:, : len(public.low)]).all(axis=0)
    columns = np.flatnonzero(unseen | method.strategy.public_units)
    # Without rows held out to prove factor models of all features there are none.
    proven = len(data.held.values) > 0
    memory = replace(
        memory,
        teacher=TeacherWeights(lesson["distiller"], public, factors, lesson.get("tokens")),
        local_imputer=warm_started(method, data, memory.local_imputer, lesson.get("start")),
        scale=scale,
        generator_scale=data.scale.replace(columns, public.take(columns)),
        factors=FactorModels.of(scale.rows(data.trained), scale) if proven else FactorModels.none(len(scale.low)),
    )
    return method.strategy.receive(lesson, data, memory)


def warm_started(method: FedTDD, data: ClientData, network: NetworkState, start: NDArray[Any] | None) -> NetworkState:
    """Put the coordinator's weights into an untrained local imputer where those know the features."""
    if start is None or network.steps:
        return network
    own, common = (method.backbone().specs(count) for count in (data.rows.values.shape[1], len(method.common)))
    known = resize(np.ones_like(start), common, own) > 0
    weights = np.where(known, resize(start, common, own), network.weights).astype(method.precision)
    return replace(network, weights=weights, average=weights)


def impute(method: FedTDD, question: Question, data: ClientData, memory: ClientMemory, rng: Rng) -> Reply:
    """Impute common features with D (line 5) and exclusive ones with U (line 6), and combine them (line 7)."""
    memory = method.strategy.choose(data, memory, rng)
    filler = method.strategy.filler(memory, rng)
    errors = imputation_errors(filler, data.rows, method, rng("errors")) if method.rough else memory.errors
    memory = replace(memory, filled=filler.rows(data.rows, method), errors=errors, excerpt=excerpt(data.rows))
    return Message({"missing": float(np.isnan(data.rows.values).mean())}), memory


def _filled(method: FedTDD, data: ClientData, memory: ClientMemory, rng: Rng) -> SeriesRows:
    """Return the rows as last imputed; impute them if that was lost on the way."""
    filled = memory.filled if len(memory.filled) else method.strategy.filler(memory, rng).rows(data.rows, method)
    return SeriesRows(filled, data.rows.lengths)


def set_apart(method: FedTDD, rows: SeriesRows) -> tuple[SeriesRows, SeriesRows]:
    """Split rows: what U learns from while its windows are released, and the end of every third piece."""
    return rows.split(HELD_OUT, method.window, EVERY)


def train_local_imputers(
    method: FedTDD, questions: Sequence[Question], owners: Sequence[ClientData], memories: Sequence[ClientMemory],
    rngs: Sequence[Rng],
) -> list[Reply]:  # fmt: skip
    """Train the local imputers U by equations (4) to (6), stacked (line 8)."""
    from cotempo.series.nn.training import train

    given = zip(questions, owners, memories, rngs, strict=True)
    datasets = [_filled_windows(method, *each) for each in given]
    steps, schedule = questions[0].common["steps"], method.schedule(method.local_steps)
    networks = [memory.local_imputer for memory in memories]
    if method.plugged is not None:
        fits = zip(networks, datasets, rngs, strict=True)
        found = [fit_generator(method.plugged, *given[:2], steps, given[2]) for given in fits]
        trained, losses = [network for network, _ in found], np.array([loss for _, loss in found])
    else:
        trained, losses = train(method.denoising(), networks, datasets, steps, schedule, rngs)
    return [
        (Message({"loss": float(losses[k])}), replace(memory, local_imputer=trained[k]))
        for k, memory in enumerate(memories)
    ]


def _filled_windows(
    method: FedTDD, question: Question, data: ClientData, memory: ClientMemory, rng: Rng
) -> TrainingWindows:
    """Return filled windows, and which of their cells count."""
    from cotempo.series.nn.training import TrainingWindows

    missing = np.isnan(data.rows.values)
    filled = _filled(method, data, memory, rng)
    counts = SeriesRows(method.strategy.counts(missing).astype(np.float64), data.rows.lengths)
    if method.rough:
        rough = add_imputation_errors(filled.values, missing, memory.errors, rng("roughness"))
        filled = replace(filled, values=rough)
    if not question.common["all_windows"]:
        filled, counts = (set_apart(method, part)[0] for part in (filled, counts))
    windows = memory.generator_scale.apply(windows_of(filled, method.window))
    mask = windows_of(counts, method.window) > 0
    return replace(TrainingWindows.plain(windows, common=len(method.common)), mask=mask)


def share(method: FedTDD, question: Question, data: ClientData, memory: ClientMemory, rng: Rng) -> Reply:
    """Generate windows (line 9) and send their common features (line 10); a gate withholds those near to real ones."""
    count = math.ceil(question.common["share"] * len(data.rows.starts(method.window)))
    common, public = len(method.common), memory.taught.scale
    empty = np.zeros((0, method.window, common), method.precision)
    if count == 0:
        return Message({"windows": empty, "withheld": 0, **({"membership": 0.5} if method.gate else {})}), memory
    scaled = method.sample_windows(memory.local_imputer.average, len(memory.scale.low), count, rng)
    drawn = memory.generator_scale.undo(scaled)
    told: dict[str, float] = {"withheld": 0}
    if method.gate:
        real = (part.windows(method.window) for part in set_apart(method, _filled(method, data, memory, rng)))
        # In the client's own units: in those that the coordinator sent, one feature could count for everything.
        gate = release(*(data.scale.apply(part)[..., :common] for part in (drawn, *real)))
        drawn, told = drawn[gate.kept], {"withheld": gate.withheld, "membership": gate.membership}
    sent = public.apply(drawn[..., :common]).clip(-100, 100).astype(method.precision)
    return Message({"windows": sent, **told}), memory


def score(method: FedTDD, question: Question, data: ClientData, memory: ClientMemory, rng: Rng) -> Reply:
    """Compare how well hidden cells are filled, alone and together, and calibrate intervals on held-out rows."""
    own, shared, parts = method.strategy.compare(data, memory, rng)
    compared = NOT_COMPARED
    if len(own):
        compared = np.array([own.mean(), shared.mean(), fedmoments.block_error(own - shared, len(own))])
    calibration = calibrate(method, parts, rng("calibration"))
    return Message({"joining": method.tally(compared)}), replace(memory, calibration=calibration, compared=compared)


def _moments_of(message: Message) -> dict[str, Floats]:
    """Return by feature the released windows' mean, spread and roughness, for which no two clients must be alike."""
    windows = np.asarray(message["windows"], np.float64)
    flat = windows.reshape(-1, windows.shape[-1])
    rough = np.diff(windows, axis=1).reshape(-1, windows.shape[-1]).std(axis=0)
    return {"windows": np.concatenate([flat.mean(axis=0), flat.std(axis=0), rough])}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
