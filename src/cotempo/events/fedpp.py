r"""FedPP: federated neural Cox processes as published (`SharedPrior`), and the class that makes it or our default.

Algorithm 1, round by round: the server sends the prior :math:`p_\theta(w) = N(\mu, \mathrm{diag}\,\sigma^2)` over
kernel weights to a cohort (`SharedPrior.ask`); each client starts its posterior :math:`q(w) = N(r, \mathrm{diag}\,
\delta^2)` there and climbs its bound for a few local epochs (`client_update`); the server takes the prior nearest to
the posteriors (`SharedPrior.absorb`). The rate m and the function f stay at the client. The closed forms are
in `cotempo.events.cox.updates`, the divergences in `cotempo.events.cox.aggregation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from cotempo.data import Events, Table, make_events
from cotempo.devices import Device, find_device
from cotempo.errors import DataError, ParameterError, Problem, warn
from cotempo.events import base_measure
from cotempo.events.base_measure import CANDIDATES, STAGES, BaseMeasure, design_fields, read_design, refuse_unused
from cotempo.events.cox.aggregation import SUMMANDS, Normal, aggregate, divergence, from_sums
from cotempo.events.curves.timeline import CELLS, LEAST_CELLS
from cotempo.events.records.design import FeatureDesign
from cotempo.events.records.encoder_inputs import HISTORY
from cotempo.events.records.record import Record, read_record
from cotempo.federation import (
    Answers,
    Ask,
    Expect,
    Message,
    Method,
    Metrics,
    Outcome,
    Question,
    Reducer,
    Rng,
    Roster,
    Spec,
    Staleness,
    register,
)
from cotempo.robust.reducer import SCREEN
from cotempo.typing import Floats

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.events.cox.updates import Belief, CoxPrior
    from cotempo.events.intensities.fitted import FittedFedPP
    from cotempo.events.private import PrivateCurve
    from cotempo.events.records.cohort import CohortData, KernelRows
    from cotempo.privacy.settings import Privacy

# Closed-form sweeps per local epoch, and the standard deviation of the first prior.
SWEEPS, FIRST_DEVIATION = 3, 0.1
# A period so many times shorter than the usual gap between events is doubtful.
SHORT_PERIOD = 10
# Phases of functions of history, which a curve of time does without.
OF_CURVE = ("count", "level", "recount", "relevel")
OF_HISTORY = ("base", "choose", "features", "learn", "rebase", "refit", "curvature")
# Weights of an encoder are point estimates: they take smaller steps, and their deviation means nothing.
ENCODER_STEP, ENCODER_DEVIATION = 0.05, 1e-3


@register("fed-pp")
class FedPP(Method):
    r"""When events happen, and how sure that is, learned together: a rate with a band at every time.

    By default (`SharedFunction`) clients share a *curve of time*, chosen and learned from sums of counts, or a
    *function of history* on a base measure, :math:`\lambda_0(t)\, m_c\, \sigma(f(t))` with one :math:`f` for all,
    whichever has the better held-out likelihood. With ``preset="paper"`` or ``share="kernel"`` (`SharedPrior`) they
    share a prior over kernel weights, as published. Each of the two has parameters of its own beside those below
    (``compare`` and ``refit_rounds``; ``marks``, ``aggregation``, ``epochs``, ``learning_rate`` and ``batch``); one
    that means nothing where it is given is refused. ``compare=False`` does not let clients learn alone as well: faster.

    References
    ----------
    Chen et al., Federated Neural Nonparametric Point Processes.

    Examples
    --------
    >>> clients, truth = make_events(clients=3, sequences=10)
    >>> fitted = FedPP(kernel="time", compare=False).fit(clients)
    >>> mean, lower, upper = fitted["client-0"].intensity([1.0, 2.0])
    >>> bool((lower < mean).all() and (mean < upper).all())
    True
    """

    reducer: ClassVar[Reducer] = SCREEN  # name a client that differs from all others
    kind: ClassVar[str] = "events"
    uses_public: ClassVar[bool] = False
    private_units: ClassVar[tuple[str, ...]] = ("row", "sequence")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cotempo": {},
        "paper": {"share": "kernel", "learning_rate": 0.001, "rounds": 100, "learn_mean": True},
    }

    share: Literal["function", "kernel"] = Field(
        default="function",
        description="what clients share: a function of time, or the weights of a kernel as in the paper",
    )
    kernel: str = Field(
        default="auto",
        description="what the intensity depends on: ``'auto'``, ``'time'`` or ``'history'``; with ``share='kernel'`` "
        "``'time'``, ``'deep'``, ``'history'``, ``'lstm'`` or ``'attention'``",
    )
    rounds: int = Field(default=30, ge=1, description="rounds of learning a function of history, or kernels")
    base: Literal["auto", "poisson", "curve", "hawkes", "renewal"] = Field(
        default="auto",
        description="base measure of functions of history: ``'auto'`` for the one with the best held-out likelihood, "
        "or its name, ``'curve'`` being the curve of time",
    )
    base_rounds: int = Field(
        default=25, ge=1, description="exchanges in which Hawkes and renewal processes are learned"
    )
    inducing: int = Field(default=50, ge=2, description="number of inducing points of a function")
    cells: int = Field(
        default=CELLS,
        ge=20,
        description="cells in which events are counted, of a period where there is one, else of the whole time: "
        "fewer are faster and hide more of the times of events, and no finer than they are can a curve be; some "
        "hundred are enough for a day or week",
    )
    period: float | None = Field(
        default=None,
        gt=0,
        description="period of time where there is one, in the unit of the tables (24 for a day in hours); "
        "days are those of the local clock where tables have a zone",
    )
    window: tuple[float, float] | None = Field(
        default=None,
        description="start and end of time at all clients; without it clients send theirs, rounded outwards",
    )

    def __new__(cls, **parameters: Any) -> FedPP:
        """Return `SharedFunction` or `SharedPrior`, by what is shared."""
        if cls is not FedPP:
            return super().__new__(cls)
        preset = cls.presets.get(parameters.get("preset", "cotempo"), {})
        share, ways = parameters.get("share", preset.get("share", "function")), _ways()
        if share not in ways:
            raise ParameterError(f"share must be one of {', '.join(ways)}, got {share!r}")
        return super().__new__(ways[share])

    def __init__(self, **parameters: Any):
        """Store the hyperparameters; those of the other way of sharing do not exist here."""
        for share, way in _ways().items():
            for name in parameters.keys() & way.model_fields.keys() - type(self).model_fields.keys():
                raise ParameterError(f"FedPP has no parameter {name!r} here; it belongs to share={share!r}")
        super().__init__(**parameters)

    def private(self, privacy: Privacy) -> PrivateCurve:
        """Return the form that learns a curve of time from noised counts."""
        from cotempo.events.private import PrivateCurve

        return PrivateCurve.of_method(self, privacy)

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Let both ways go by the name of the door in files, reports and errors."""
        super().__pydantic_init_subclass__(**options)
        cls.__name__ = "FedPP"

    @model_validator(mode="after")
    def _common_parameters_fit(self) -> FedPP:
        if self.window is not None and not self.window[0] < self.window[1]:
            raise ParameterError(f"window must end after its start, got {self.window}")
        if self.candidates and self.base in ("poisson", "curve"):
            words = "the base measure is learned at once (base='hawkes' or 'renewal' takes rounds)"
            refuse_unused(self, ["base_rounds"], words)
        if self.kernel in HISTORY and "curve" not in self.candidates:
            refuse_unused(self, ["cells"], "no curve of time is learned (pass base='auto' or 'curve')")
        curve = self.share == "function" or "curve" in self.candidates
        if curve and (self.cells < LEAST_CELLS or (self.cells > CELLS and self.cells % CELLS)):
            raise ParameterError(
                f"cells must lie between {LEAST_CELLS} and {CELLS} or be a multiple of {CELLS}, got {self.cells}"
            )
        return self

    @property
    def candidates(self) -> tuple[str, ...]:
        """The base measures to choose from."""
        if self.kernel not in ("auto", *HISTORY):
            return ()
        return CANDIDATES if self.base == "auto" else (self.base,)

    @property
    def most_questions(self) -> dict[str, int]:
        """By phase, how many questions a site answers: with more, windows of its choice would let a server bisect."""
        refit = max(getattr(self, "refit_rounds", 1), 1)
        often = {
            "count": base_measure.PASSES, "recount": base_measure.PASSES, "base": self.base_rounds,
            "rebase": base_measure.REFINED, "learn": self.rounds, "train": self.rounds, "refit": refit,
        }  # fmt: skip
        return {phase: often.get(phase, 1) if self._may_need(phase) else 0 for phase in self.phases}

    def _may_need(self, phase: str) -> bool:
        """Say whether these parameters allow a phase at all."""
        if phase == "span":
            return self.window is None
        if phase in OF_CURVE:
            return self.counts_cells
        return phase not in OF_HISTORY or self.share == "kernel" or self.kernel != "time"

    @property
    def counts_cells(self) -> bool:
        """Whether a curve of time is learned, from counts in cells."""
        return "curve" in (*self.candidates, *getattr(self, "models", ()))

    def reveals(self) -> str:
        """Tell how finely the times of events become known."""
        if not self.counts_cells:
            return ""
        width = "the period" if self.period else "the whole time"
        return (
            f"How many events all sites together have in each of {self.cells:,} cells of {width} becomes known: where "
            "cells are short, times of single events; whose they are stays hidden. Fewer cells hide more (at least "
            f"{LEAST_CELLS})."
        )

    def needs(self, state: Any, phase: str) -> bool:
        """Say whether a phase is part of this run."""
        curve = "curve" in self.candidates
        return {
            "count": curve, "level": curve, "base": any(name in base_measure.ITERATED for name in self.candidates),
            "choose": self.kernel in ("auto", *HISTORY) and self.candidates != ("poisson",),
        }.get(phase, True)  # fmt: skip

    @classmethod
    def example(cls) -> tuple[Method, dict[str, Table], None]:
        """Return a small instance for the contract."""
        clients, _ = make_events(clients=3, sequences=4, length=10.0, seed=0)
        return cls(rounds=2, base_rounds=2, inducing=6, cells=48, refit_rounds=1, compare=False), dict(clients), None

    def prepare(self, table: Table) -> Record:
        """Read events and windows as arrays."""
        record = read_record(table, marks=getattr(self, "marks", False))
        if self.window is not None and not (self.window[0] <= record.start.min() <= record.end.max() <= self.window[1]):
            raise DataError([Problem(f"all windows must lie in {self.window}, the window all clients agreed on")])
        if self.period and isinstance(table, Events):
            _doubt_short_period(self.period, table)
        # A period of what is shared is one of the local clock.
        return read_record(table, local=True) if self.period and self.share == "function" else record

    # Concrete, so that type checkers let people call FedPP(...), which always makes one of the two subclasses.
    def _of_a_subclass(self, *_: Any, **__: Any) -> Any:
        raise TypeError("FedPP(...) makes a `SharedFunction` or a `SharedPrior`, which define this verb")

    open = ask = answer = absorb = expects = _of_a_subclass  # type: ignore[pydantic-field]


@dataclass(frozen=True)
class PriorState:
    """What the server keeps: the prior over kernel weights, the span of time and how histories are read; `measure`
    while the base measure is being learned, and the types of events."""

    measure: BaseMeasure | None
    step: int
    span: Floats
    design: FeatureDesign
    mean: Floats
    deviation: Floats
    marks: tuple[str, ...]


@dataclass(frozen=True)
class PriorMemory:
    """What a client keeps: its posteriors of w, and for each type of events of u and m, the mean of the Gaussian
    process, the root of their joint information, and events and exposure, ``(types, ...)``."""

    span: Floats
    mean: Floats
    deviation: Floats
    values: Floats
    root: Floats
    shape: Floats
    rate: Floats
    centre: Floats
    information: Floats
    seen: Floats


PriorAnswer = tuple[Message, PriorMemory | None]


class SharedPrior(FedPP):
    r"""When events happen, learned together as published: clients share a prior over kernel weights.

    Client c has :math:`\lambda_c(t) = m_c\,\sigma(f_c(t))` with :math:`f_c \sim GP(\nu_c, k_{w_c})` (4), a kernel on a
    neural embedding of time or of the events before (5), and :math:`w_c \sim p_\theta` (6), sparse at inducing points
    (7) to (9). The reference is that of `FedPP`.

    The preset ``paper`` has the numbers of the paper's section 5.1 and appendix I: Adam's step .001, 100 rounds, 5
    local epochs, a mean :math:`\nu_c` that is learned (16), and histories on no base measure but the rate m. The
    released code differs from the paper: it minimises the bound (22) instead of climbing it, takes log(1 + x) for
    log x, puts all inducing points into the first hundredth of the window and ignores exposure. We follow the paper.
    Cohorts are the run's: the paper's are ``fit(cohort=10)`` of 20 clients. A client that was never asked has the prior
    over kernel weights: see `FittedFedPP.adapt`.
    """

    phases: ClassVar[tuple[str, ...]] = (*STAGES, "train")
    State: ClassVar[type] = PriorState
    Memory: ClassVar[type | None] = PriorMemory

    share: Literal["kernel"] = Field(default="kernel", description="a prior over kernel weights")
    kernel: Literal["time", "deep", "history", "lstm", "attention"] = Field(
        default="deep",
        description="what the intensity depends on: ``'time'``, ``'deep'`` (a small Bayesian network of time), or the "
        "events before, by ``'history'`` (time since the last event, decayed counts and time), ``'lstm'`` or "
        "``'attention'`` (two layers of width 32)",
    )
    rounds: int = Field(default=40, ge=1, description="rounds of learning")
    base: Literal["auto", "poisson", "curve", "hawkes", "renewal"] = Field(
        default="poisson", description="base measure of functions of history; the paper has none but a constant rate"
    )
    learn_mean: bool = Field(
        default=False, description="whether clients learn the mean of their Gaussian process; else it is 0"
    )
    cells: int = Field(default=400, ge=20, description="cells of time in which events are counted")
    marks: bool = Field(
        default=False,
        description="whether each type of events has its own intensity, and encoders see types; for histories",
    )
    aggregation: Literal["kl", "wasserstein", "fedavg", "mmd"] = Field(default="kl", description="the divergence")
    epochs: int = Field(default=5, ge=1, description="local epochs a round")
    learning_rate: float = Field(default=0.05, gt=0, description="Adam's step")
    batch: int | None = Field(default=None, ge=1, description="sequences per local epoch; all by default")
    device: Device = Field(default="cpu", description="where clients train: ``'cpu'``, or ``'cuda'`` for a GPU")

    @model_validator(mode="after")
    def _parameters_fit(self) -> SharedPrior:
        if self.marks and self.kernel not in HISTORY:
            raise ParameterError(
                f"marks need kernel={' or '.join(HISTORY)}, got kernel={self.kernel!r}; without a history, learn each "
                "type of events by itself"
            )
        if self.kernel not in HISTORY:
            words = "the intensity depends on time alone (kernel='history', 'lstm' or 'attention' have a base measure)"
            refuse_unused(self, ["base", "base_rounds", "period"], words)
        return self

    def needs(self, state: Any, phase: str) -> bool:
        """Say whether a phase is part of this run; only histories have a base measure."""
        return super().needs(state, phase) if self.kernel in HISTORY else phase in ("span", "train")

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """Rounds of learning, unless the divergence needs every posterior by itself."""
        return {} if self.aggregation == "mmd" else {"train": "weighted"}

    def prepare(self, table: Table) -> Record:
        """Read events and windows as arrays, with types where they matter."""
        if self.marks and isinstance(table, Events) and not table.marks:
            raise DataError([Problem("events must have marks where marks=True, these have none; leave marks out")])
        return super().prepare(table)

    # Algorithm 1, the server: initialise mu and sigma, send them, aggregate.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> PriorState:
        """Begin with the base measure, of which kernels of time need the span alone."""
        measure, nothing = base_measure.open_measure(self), np.zeros(0)
        measure = measure if self.needs(measure, measure.stage) else base_measure.advance(self, measure)
        state = PriorState(measure, 0, nothing, measure.design, nothing, nothing, tuple(roster.schema.columns))
        return self._initialise(state, rng)

    def _initialise(self, state: PriorState, rng: Rng) -> PriorState:
        """Make the first prior (6), once what comes before the rounds is known."""
        from cotempo.events.cox.kernels import first_weights

        measure = state.measure
        if measure is None or measure.stage != "train":
            return state
        types = len(state.marks) if self.marks else 0
        mean = first_weights(self.kernel, types, self.inducing, rng("prior"))
        deviation = np.full(len(mean), FIRST_DEVIATION)
        return replace(state, measure=None, span=measure.span, design=measure.design, mean=mean, deviation=deviation)

    def ask(self, state: PriorState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Send the prior to the cohort, round after round."""
        if state.measure is not None:
            return Ask(state.measure.stage, cohort, base_measure.measure_message(state.measure), ends_round=False)
        if state.step == self.rounds:
            return None
        prior = {"span": state.span, "mean": state.mean, "deviation": state.deviation}
        return Ask("train", cohort, Message({**design_fields(state.design), **prior}))

    def absorb(self, state: PriorState, answers: Answers, public: Table | None, rng: Rng) -> tuple[PriorState, Metrics]:
        """Take the prior nearest to the clients' posteriors, eq. (10), by (12), (14) or numerically."""
        if state.measure is not None:
            measure, metrics = base_measure.absorb_measure(self, state.measure, answers)
            return self._initialise(replace(state, measure=measure), rng), metrics
        if self.aggregation == "mmd":
            means, deviations = (np.stack([answers[n][part] for n in answers.names]) for part in ("mean", "deviation"))
            prior = aggregate(means, deviations, "mmd")
        else:
            prior = from_sums(self.aggregation, answers.sum, answers.sum.weight)
        moved = float(np.abs(prior.mean - state.mean).max())
        return replace(state, step=state.step + 1, mean=prior.mean, deviation=prior.deviation), {"prior moved": moved}

    def expects(self, state: PriorState, phase: str) -> Expect:
        """Expect two sums over clients; for `mmd` every posterior."""
        if state.measure is not None:
            return base_measure.expect_measure(self, state.measure, phase)
        size, words = (len(state.mean),), "the posterior of your kernel weights"
        if self.aggregation == "mmd":
            return Expect({"mean": Spec(size, description=words), "deviation": Spec(size, low=1e-9, description=words)})
        fields = {"first": Spec(size, description=words), "second": Spec(size, low=0, description=words)}
        return Expect(fields, sums=True, weight=(1, 1))

    # Algorithm 1, the clients: `ClientUpdate` for a cohort at once.

    def begin(self, prepared: Record, rng: Rng) -> PriorMemory:
        """Begin with nothing learned."""
        types = prepared.types * (prepared.count / prepared.size)[:, None]
        seen = np.array([prepared.events, prepared.exposure, *types.sum(axis=0)])
        no = np.zeros(0)
        return PriorMemory(no, no, no, no, no, no, no, no, no, seen)

    def answer(self, question: Question, prepared: Record, memory: PriorMemory, rng: Rng) -> PriorAnswer:
        """Answer for the base measure, or train."""
        if question.phase != "train":
            return base_measure.answer_measure(self, question, prepared), None
        return self.answer_all([question], [prepared], [memory], [rng])[0]

    def answer_all(
        self,
        questions: Sequence[Question],
        prepared: Sequence[Record],
        memories: Sequence[PriorMemory],
        rngs: Sequence[Rng],
    ) -> list[PriorAnswer]:
        """Train the cohort as one batch; send each posterior, or what is summed of it."""
        import torch

        from cotempo.events.records.cohort import make_cohort

        if questions[0].phase != "train":
            return super().answer_all(questions, prepared, memories, rngs)
        common, device = questions[0].common, find_device(self.device)
        prior = Normal(common["mean"], common["deviation"])
        data = make_cohort(self, common["span"], read_design(self, common), prepared, rngs, device)
        noise = np.stack([rng("weights").standard_normal((self.epochs, len(prior.mean))) for rng in rngs])
        trained = client_update(self, prior, data, torch.from_numpy(noise).to(device), memories)
        answers: list[PriorAnswer] = []
        for memory in (replace(memory, span=common["span"]) for memory in trained):
            posterior = {"mean": memory.mean, "deviation": memory.deviation}
            summed = posterior if self.aggregation == "mmd" else SUMMANDS[self.aggregation](*posterior.values())
            answers.append((Message(summed), memory))
        return answers

    def adapt(self, state: PriorState, record: Record) -> PriorMemory:
        """Return what a client has that was never asked: w as in the prior, u, m and the mean by its own events."""
        import torch

        from cotempo.events.records.cohort import make_cohort

        still, rng = self.model_copy(update={"epochs": 0}), Rng("adapt")
        data = make_cohort(still, state.span, state.design, [record], [rng])
        noise, start = torch.zeros(1, 0, len(state.mean)), [replace(self.begin(record, rng), span=state.span)]
        return client_update(still, Normal(state.mean, state.deviation), data, noise, start)[0]

    def result(self, outcome: Outcome) -> FittedFedPP:
        """Return each client's intensity."""
        from cotempo.events.intensities.fitted import FittedFedPP

        return FittedFedPP(outcome)


def client_update(
    method: SharedPrior, prior: Normal, data: CohortData, noise: Tensor, memories: Sequence[PriorMemory]
) -> list[PriorMemory]:
    """Run the local epochs of a cohort (Algorithm 1, ClientUpdate): eq. (21), then a step of (23) on the bound (22).

    Each epoch draws w once by the reparameterisation trick, updates u, the Polya-Gamma variables and the latent process
    in closed form (`updates.update`), with `learn_mean` the mean too, and climbs the collapsed bound less the
    divergence from the prior in :math:`(r, \\log \\delta)`, with q(u) and q(m) held fixed.
    """
    import torch

    from cotempo.events.cox import updates

    clients, device, plain = len(memories), noise.device, data.plain
    rates = rate_priors(*data.totals)
    belief = _recall(memories, rates, method.inducing)

    def sweep(rows: KernelRows, times: int) -> None:
        nonlocal belief, rates
        for _ in range(times):
            belief = updates.update(*rows, belief, rates)
            if method.learn_mean:
                rates = rates._replace(mean=updates.best_mean(*rows, belief, rates))

    for i, memory in enumerate(memories):
        if len(memory.centre):
            rates.mean[i] = torch.from_numpy(np.array(memory.centre)).to(device)
    free, r = (
        torch.tensor(np.array(part), device=device).repeat(clients, 1).requires_grad_()
        for part in (prior.mean[:plain], prior.mean[plain:])
    )
    near = Normal(prior.mean[plain:], prior.deviation[plain:])
    log_delta = torch.tensor(np.log(near.deviation), device=device).repeat(clients, 1).requires_grad_()
    groups: list[dict[str, Any]] = [
        {"params": [r, log_delta], "lr": method.learning_rate},
        {"params": [free], "lr": ENCODER_STEP * method.learning_rate},
    ]
    optimiser = torch.optim.Adam(groups)
    for epoch in range(method.epochs):
        rows = data.rows(epoch, torch.cat([free, r + log_delta.exp() * noise[:, epoch, plain:]], dim=-1))
        with torch.no_grad():
            sweep(rows, SWEEPS)
        bound = updates.evidence_bound(*rows, belief, rates).sum(-1)
        cost = divergence(method.aggregation, r, log_delta.exp(), near) - bound
        optimiser.zero_grad()
        cost.sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        weights = torch.cat([free, r], dim=-1)
        rows = data.rows(-1, weights)
        sweep(rows, 2 * SWEEPS)
        delta = torch.cat([torch.full_like(free, ENCODER_DEVIATION), log_delta.exp()], dim=-1)
        parts = (weights, delta, *belief, rates.mean, _joint_root(rows, belief, rates))
    names = ("mean", "deviation", "values", "root", "shape", "rate", "centre", "information")
    kept = dict(zip(names, (part.cpu().numpy() for part in parts), strict=True))
    return [replace(memory, **{name: part[i] for name, part in kept.items()}) for i, memory in enumerate(memories)]


def rate_priors(events: Tensor, exposure: Tensor) -> CoxPrior:
    """Return weak Gamma priors with mean 2 (N + 1) / exposure, ``(clients, types)``."""
    import torch

    from cotempo.events.cox.updates import CoxPrior

    one = torch.ones_like(events)
    return CoxPrior(one, exposure / (2 * (events + 1)), 0 * one)


def _recall(memories: Sequence[PriorMemory], rates: CoxPrior, inducing: int) -> Belief:
    """Return what clients believed of u and m in their last round; those who come first start at the prior."""
    import torch

    from cotempo.events.cox import updates

    fresh = updates.start(rates, inducing)
    # Start at twice the mean rate's prior: a rate that starts low climbs slowly.
    watch = 1e3 * rates.rate
    first = updates.Belief(fresh.mean.clone(), fresh.root.clone(), 2 * rates.shape / rates.rate * watch, watch)
    for i, memory in enumerate(memories):
        if len(memory.values):
            values = (memory.values, memory.root, memory.shape, memory.rate)
            for part, value in zip(first, values, strict=True):
                part[i] = torch.tensor(value, dtype=torch.float64, device=part.device)
    return first


def _joint_root(rows: KernelRows, belief: Belief, rates: CoxPrior) -> Tensor:
    """Return the root of the joint precision of (v, log m), for bands."""
    import torch

    from cotempo.events.cox import updates

    rate = belief.shape / belief.rate
    centre = updates.project(rows.basis, rows.residual, belief, rates).centre
    information = updates.information(rows.basis, rows.cells, centre, rate)
    own = torch.cat([torch.ones_like(belief.mean), (rates.rate * rate)[..., None]], dim=-1)
    root: Tensor = torch.linalg.cholesky(information + torch.diag_embed(own))
    return root


def _ways() -> dict[str, type[FedPP]]:
    """Return the two methods behind the door, by what is shared."""
    from cotempo.events.shared_function.method import SharedFunction

    return {"function": SharedFunction, "kernel": SharedPrior}


def _doubt_short_period(period: float, table: Events) -> None:
    """Warn of a period in which hardly any event falls: most often it is meant in another unit."""
    gaps = np.concatenate([np.zeros(0), *(np.diff(times) for _, times, *_ in table.sequences())])
    if (gaps > 0).any() and SHORT_PERIOD * period < (usual := float(np.median(gaps[gaps > 0]))):
        short = f"period {period:g} {table.unit}".rstrip() + " is far shorter than the usual gap between events"
        warn(f"{short}, {usual:.3g}: is it in the unit of the times? read dates with unit='h' for a period in hours")
