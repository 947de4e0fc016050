r"""FedPP as it was published: a prior over kernel weights is shared, everything else stays at home.

Round by round: the server sends :math:`p_\theta(w) = N(\mu, \mathrm{diag}\,\sigma^2)` to a cohort; each client starts
its :math:`q(w) = N(r, \mathrm{diag}\,\delta^2)` there and climbs its bound for a few local epochs; the server takes the
prior nearest to the clients' posteriors. (Chen et al., Federated Neural Nonparametric Point Processes.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cotempo.events.aggregation import SUMMANDS, Normal, aggregate, divergence, from_sums
from cotempo.events.grid import Grid
from cotempo.events.record import Floats, Record
from cotempo.events.summary import rounded_span
from cotempo.federation.exchange import Answers, Ask, Expect, Question, Spec
from cotempo.federation.message import Message
from cotempo.federation.rng import Rng

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from cotempo.events import cox
    from cotempo.events.cox import Belief
    from cotempo.events.fedpp import FedPP

SWEEPS = 3


@dataclass(frozen=True)
class KernelState:
    """What the server keeps: the prior over kernel weights, and the span of time."""

    step: int
    span: Floats
    mean: Floats
    deviation: Floats


@dataclass(frozen=True)
class KernelMemory:
    """What a client keeps: its posteriors of w, u and m, the root of their joint information, events and exposure."""

    span: Floats
    mean: Floats
    deviation: Floats
    values: Floats
    root: Floats
    shape: float
    rate: float
    information: Floats
    seen: Floats


def first_state(method: FedPP, rng: Rng) -> KernelState:
    """The first prior."""
    from cotempo.events.encoders import first_weights

    weights = first_weights(method.kernel, rng("prior"))
    span = np.array(method.window) if method.window else np.zeros(0)
    return KernelState(0, span, weights, np.full(len(weights), method.prior_deviation))


def first_memory(record: Record) -> KernelMemory:
    """Nothing learned yet."""
    nothing, seen = np.zeros(0), np.array([record.events, record.exposure])
    return KernelMemory(nothing, nothing, nothing, nothing, np.zeros((0, 0)), 0.0, 0.0, np.zeros((0, 0)), seen)


def ask(method: FedPP, state: KernelState, cohort: Sequence[str]) -> Ask | None:
    """First the span of time, then rounds."""
    if not len(state.span):
        return Ask("span", cohort, ends_round=False)
    if state.step == method.rounds:
        return None
    return Ask("train", cohort, Message({"span": state.span, "mean": state.mean, "deviation": state.deviation}))


def answer(
    method: FedPP,
    questions: Sequence[Question],
    records: Sequence[Record],
    memories: Sequence[KernelMemory],
    rngs: Sequence[Rng],
) -> list[tuple[Message, KernelMemory | None]]:
    """At clients, as one batch."""
    if questions[0].phase == "span":
        spans = [rounded_span(record) for record in records]
        return [(Message({"start": first, "end": last}), None) for first, last in spans]
    common = questions[0].common
    prior = Normal(common["mean"], common["deviation"])
    first, last = common["span"].tolist()
    grid = Grid(first, last, method.cells)
    batches = [_epochs(method, grid, record, rng) for record, rng in zip(records, rngs, strict=True)]
    noise = [rng("weights").standard_normal((method.epochs, len(prior.mean))) for rng in rngs]
    trained = train(method, prior, Work.of(batches, noise, records), memories)
    return [_reply(method, common["span"], memory, *parts) for memory, *parts in zip(memories, *trained, strict=True)]


def _epochs(method: FedPP, grid: Grid, record: Record, rng: Rng) -> Floats:
    """Events and exposure for each local epoch, of all sequences or of a few drawn ones, then of all of them,
    ``(epochs + 1, 2, cells)``."""
    whole = np.stack([grid.count(record), grid.expose(record)])
    sequences = len(record.start)
    if method.batch is None or method.batch >= sequences:
        return np.repeat(whole[None], method.epochs + 1, axis=0)
    stream, drawn = rng("sequences"), []
    for _ in range(method.epochs):
        chosen = np.isin(np.arange(sequences), stream.choice(sequences, method.batch, replace=False))
        part = replace(
            record, count=np.where(chosen[record.sequence], record.count, 0.0),
            start=record.start[chosen], end=record.end[chosen],
        )  # fmt: skip
        drawn.append(np.stack([grid.count(part), grid.expose(part)]) * (sequences / method.batch))
    return np.stack([*drawn, whole])


class Work(NamedTuple):
    """A cohort's data as tensors: events and exposure ``(clients, epochs + 1, cells)``, noise and totals."""

    events: Tensor
    exposure: Tensor
    noise: Tensor
    totals: Tensor

    @classmethod
    def of(cls, batches: Sequence[Floats], noise: Sequence[Floats], records: Sequence[Record]) -> Work:
        """Stack clients."""
        import torch

        data = torch.from_numpy(np.stack(batches))
        totals = torch.tensor([[record.events, record.exposure] for record in records], dtype=torch.float64)
        return cls(data[:, :, 0], data[:, :, 1], torch.from_numpy(np.stack(noise)), totals)

    def to(self, device: torch.device) -> Work:
        """Move to a device."""
        return Work(*(part.to(device) for part in self))


def train(
    method: FedPP, prior: Normal, work: Work, memories: Sequence[KernelMemory]
) -> tuple[Floats, Floats, list[Belief], Floats]:
    """Local epochs of a whole cohort: draw w once, update u and m in closed form, climb the bound in (r, log delta)."""
    import torch

    from cotempo.events import cox

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    work = work.to(device)
    clients = len(memories)
    at = torch.linspace(-1, 1, 2 * method.cells + 1, dtype=torch.float64, device=device)[1::2, None]
    at = at.expand(clients, -1, -1)
    inducing = torch.linspace(-1, 1, method.inducing, dtype=torch.float64, device=device)[:, None]
    inducing = inducing.expand(clients, -1, -1)
    rates = rate_priors(work.totals)
    belief = _recall(memories, rates, method.inducing)
    r = torch.tensor(np.array(prior.mean), device=device).repeat(clients, 1).requires_grad_()
    log_delta = torch.tensor(np.log(prior.deviation), device=device).repeat(clients, 1).requires_grad_()
    optimiser = torch.optim.Adam([r, log_delta], lr=method.learning_rate)
    for epoch in range(method.epochs):
        cells = cox.Cells(work.events[:, epoch], work.exposure[:, epoch])
        rows = _rows(method, r + log_delta.exp() * work.noise[:, epoch], at, inducing)
        with torch.no_grad():
            for _ in range(SWEEPS):
                belief = cox.update(*rows, cells, belief, rates)
        bound = cox.evidence_bound(*rows, cells, belief, rates)
        cost = divergence(method.aggregation, r, log_delta.exp(), prior) - bound
        optimiser.zero_grad()
        cost.sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        rows, cells = _rows(method, r, at, inducing), cox.Cells(work.events[:, -1], work.exposure[:, -1])
        for _ in range(2 * SWEEPS):
            belief = cox.update(*rows, cells, belief, rates)
        roots = _joint_root(rows, cells, belief, rates)
    kept = cox.Belief(*(part.cpu() for part in belief))
    beliefs = [cox.Belief(*(part[i] for part in kept)) for i in range(clients)]
    return r.detach().cpu().numpy(), log_delta.detach().exp().cpu().numpy(), beliefs, roots.cpu().numpy()


def _rows(method: FedPP, weights: Tensor, at: Tensor, inducing: Tensor) -> tuple[Tensor, Tensor]:
    from cotempo.events.encoders import make_kernel
    from cotempo.events.kernels import basis

    kernel = make_kernel(method.kernel, weights, at, inducing)
    return basis(kernel.features, kernel.inducing, kernel.amplitude, kernel.length)


def rate_priors(totals: Tensor) -> cox.Prior:
    """Weak Gamma priors with mean 2 (N + 1) / exposure, ``(clients,)``."""
    import torch

    from cotempo.events.cox import Prior

    one = torch.ones_like(totals[:, 0])
    return Prior(one, totals[:, 1] / (2 * (totals[:, 0] + 1)), 0 * one)


def _recall(memories: Sequence[KernelMemory], rates: cox.Prior, inducing: int) -> Belief:
    """What clients believed of u and m in their last round; those who come first start at the prior."""
    import torch

    from cotempo.events import cox

    fresh = cox.start(rates, inducing)
    # Start at twice the mean rate's prior: a rate that starts low climbs slowly.
    watch = 1e3 * rates.rate
    first = cox.Belief(fresh.mean.clone(), fresh.root.clone(), 2 * rates.shape / rates.rate * watch, watch)
    for i, memory in enumerate(memories):
        if memory.shape:
            values = (memory.values, memory.root, memory.shape, memory.rate)
            for part, value in zip(first, values, strict=True):
                part[i] = torch.tensor(value, dtype=torch.float64, device=part.device)
    return first


def _joint_root(rows: tuple[Tensor, Tensor], cells: cox.Cells, belief: Belief, rates: cox.Prior) -> Tensor:
    import torch

    from cotempo.events import cox

    rate = belief.shape / belief.rate
    information = cox.information(rows[0], cells, cox.project(*rows, belief, rates).centre, rate)
    own = torch.cat([torch.ones_like(belief.mean), (rates.rate * rate)[:, None]], dim=-1)
    root: Tensor = torch.linalg.cholesky(information + torch.diag_embed(own))
    return root


def _reply(
    method: FedPP, span: Floats, memory: KernelMemory, r: Floats, delta: Floats, belief: Belief, root: Floats
) -> tuple[Message, KernelMemory]:
    kept = replace(
        memory, span=span, mean=r, deviation=delta, values=belief.mean.numpy(), root=belief.root.numpy(),
        shape=float(belief.shape), rate=float(belief.rate), information=root,
    )  # fmt: skip
    if method.aggregation == "mmd":
        return Message({"mean": r, "deviation": delta}), kept
    return Message(SUMMANDS[method.aggregation](r, delta)), kept


def absorb(method: FedPP, state: KernelState, answers: Answers) -> tuple[KernelState, dict[str, float]]:
    """At the server: the span, then the prior nearest to the posteriors."""
    if not len(state.span):
        first = min(answers[name]["start"] for name in answers.names)
        last = max(answers[name]["end"] for name in answers.names)
        return replace(state, span=np.array([first, last])), {}
    if method.aggregation == "mmd":
        means, deviations = (np.stack([answers[n][field] for n in answers.names]) for field in ("mean", "deviation"))
        prior = aggregate(means, deviations, "mmd")
    else:
        prior = from_sums(method.aggregation, answers.sum, answers.sum.weight)
    moved = float(np.abs(prior.mean - state.mean).max())
    return replace(state, step=state.step + 1, mean=prior.mean, deviation=prior.deviation), {"prior moved": moved}


def expects(method: FedPP, state: KernelState, phase: str) -> Expect:
    """Two sums over clients, but for `mmd`, which needs every posterior."""
    if phase == "span":
        about = "first start and last end of your windows, rounded outwards"
        return Expect({"start": Spec((), "float", about=about), "end": Spec((), "float", about=about)})
    size = (len(state.mean),)
    about = "the posterior of your kernel weights"
    if method.aggregation == "mmd":
        return Expect({"mean": Spec(size, about=about), "deviation": Spec(size, low=1e-9, about=about)})
    return Expect(
        {"first": Spec(size, about=about), "second": Spec(size, low=0, about=about)}, sums=True, weight=(1, 1)
    )
