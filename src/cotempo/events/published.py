r"""FedPP as it was published: a prior over kernel weights is shared, everything else stays at home.

Round by round: the server sends :math:`p_\theta(w) = N(\mu, \mathrm{diag}\,\sigma^2)` to a cohort; each client starts
its :math:`q(w) = N(r, \mathrm{diag}\,\delta^2)` there and climbs its bound for a few local epochs; the server takes the
prior nearest to the clients' posteriors. (Chen et al., Federated Neural Nonparametric Point Processes.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cotempo.devices import find_device
from cotempo.events.cox.aggregation import SUMMANDS, Normal, aggregate, divergence, from_sums
from cotempo.events.records.design import Design
from cotempo.events.records.encoder_inputs import HISTORY
from cotempo.events.records.record import Floats, Record
from cotempo.events.shared_function.state import FunctionState
from cotempo.federation import Answers, Ask, Expect, Message, Question, Rng, Spec

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.events.cox import updates as cox
    from cotempo.events.cox.updates import Belief
    from cotempo.events.fedpp import FedPP
    from cotempo.events.records.cohort import Rows, Work

SWEEPS = 3
# Weights of an encoder are plain numbers: they take smaller steps, and their deviation means nothing.
SLOW, FIXED = 0.05, 1e-3


@dataclass(frozen=True)
class KernelState:
    """What the server keeps: the span of time, how histories are read, and the prior over kernel weights."""

    step: int
    span: Floats
    design: Design
    mean: Floats
    deviation: Floats


@dataclass(frozen=True)
class KernelMemory:
    """What a client keeps: its posteriors of w, and for each type of events of u and m, the root of their joint
    information, and events and exposure, ``(types, ...)``."""

    span: Floats
    mean: Floats
    deviation: Floats
    values: Floats
    root: Floats
    shape: Floats
    rate: Floats
    information: Floats
    seen: Floats


def first_state(method: FedPP, known: FunctionState, types: int, rng: Rng) -> KernelState:
    """The first prior."""
    from cotempo.events.cox import encoders
    from cotempo.events.cox import history_kernels as history_encoders

    if method.kernel in HISTORY:
        weights = history_encoders.first_weights(method.kernel, types, method.inducing, rng("prior"))
    else:
        weights = encoders.first_weights(method.kernel, rng("prior"))
    return KernelState(0, known.span, known.design, weights, np.full(len(weights), method.prior_deviation))


def first_memory(record: Record) -> KernelMemory:
    """Nothing learned yet."""
    nothing = np.zeros(0)
    types = record.types * (record.count / record.size)[:, None]
    seen = np.array([record.events, record.exposure, *types.sum(axis=0)])
    return KernelMemory(nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing, seen)


def ask(method: FedPP, state: KernelState, cohort: Sequence[str]) -> Ask | None:
    """Round after round."""
    if state.step == method.rounds:
        return None
    design = state.design
    common = {"span": state.span, "summary": design.summary, "base": design.base, "parameters": design.parameters}
    return Ask("train", cohort, Message({**common, "mean": state.mean, "deviation": state.deviation}))


def answer(
    method: FedPP,
    questions: Sequence[Question],
    records: Sequence[Record],
    memories: Sequence[KernelMemory],
    rngs: Sequence[Rng],
) -> list[tuple[Message, KernelMemory]]:
    """At clients, as one batch."""
    import torch

    from cotempo.events.records.cohort import make_work
    from cotempo.events.shared_function.client import heard_design

    common = questions[0].common
    device = find_device(method.device)
    work = make_work(method, common["span"], heard_design(method, common), records, rngs, device)
    prior = Normal(common["mean"], common["deviation"])
    noise = np.stack([rng("weights").standard_normal((method.epochs, len(prior.mean))) for rng in rngs])
    trained = train(method, prior, work, torch.from_numpy(noise).to(device), memories)
    return [_reply(method, common["span"], memory, *parts) for memory, *parts in zip(memories, *trained, strict=True)]


def train(
    method: FedPP, prior: Normal, work: Work, noise: Tensor, memories: Sequence[KernelMemory]
) -> tuple[Floats, Floats, list[Belief], Floats]:
    """Local epochs of a whole cohort: draw w once, update u and m in closed form, climb the bound in (r, log delta)."""
    import torch

    from cotempo.events.cox import updates as cox

    clients, device = len(memories), noise.device
    rates = rate_priors(*work.totals())
    belief = _recall(memories, rates, method.inducing)
    plain = work.plain
    free, r = (
        torch.tensor(np.array(part), device=device).repeat(clients, 1).requires_grad_()
        for part in (prior.mean[:plain], prior.mean[plain:])
    )
    near = Normal(prior.mean[plain:], prior.deviation[plain:])
    log_delta = torch.tensor(np.log(near.deviation), device=device).repeat(clients, 1).requires_grad_()
    groups: list[dict[str, Any]] = [
        {"params": [r, log_delta], "lr": method.learning_rate}, {"params": [free], "lr": SLOW * method.learning_rate}
    ]  # fmt: skip
    optimiser = torch.optim.Adam(groups)
    for epoch in range(method.epochs):
        rows = work.rows(epoch, torch.cat([free, r + log_delta.exp() * noise[:, epoch, plain:]], dim=-1))
        with torch.no_grad():
            for _ in range(SWEEPS):
                belief = cox.update(*rows, belief, rates)
        bound = cox.evidence_bound(*rows, belief, rates).sum(-1)
        cost = divergence(method.divergence, r, log_delta.exp(), near) - bound
        optimiser.zero_grad()
        cost.sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        weights = torch.cat([free, r], dim=-1)
        rows = work.rows(-1, weights)
        for _ in range(2 * SWEEPS):
            belief = cox.update(*rows, belief, rates)
        roots = _joint_root(rows, belief, rates)
    kept = cox.Belief(*(part.cpu() for part in belief))
    beliefs = [cox.Belief(*(part[i] for part in kept)) for i in range(clients)]
    delta = torch.cat([torch.full_like(free, FIXED), log_delta.exp()], dim=-1).detach()
    return weights.cpu().numpy(), delta.cpu().numpy(), beliefs, roots.cpu().numpy()


def rate_priors(events: Tensor, exposure: Tensor) -> cox.Prior:
    """Weak Gamma priors with mean 2 (N + 1) / exposure, ``(clients, types)``."""
    import torch

    from cotempo.events.cox.updates import Prior

    one = torch.ones_like(events)
    return Prior(one, exposure / (2 * (events + 1)), 0 * one)


def _recall(memories: Sequence[KernelMemory], rates: cox.Prior, inducing: int) -> Belief:
    """What clients believed of u and m in their last round; those who come first start at the prior."""
    import torch

    from cotempo.events.cox import updates as cox

    fresh = cox.start(rates, inducing)
    # Start at twice the mean rate's prior: a rate that starts low climbs slowly.
    watch = 1e3 * rates.rate
    first = cox.Belief(fresh.mean.clone(), fresh.root.clone(), 2 * rates.shape / rates.rate * watch, watch)
    for i, memory in enumerate(memories):
        if len(memory.values):
            values = (memory.values, memory.root, memory.shape, memory.rate)
            for part, value in zip(first, values, strict=True):
                part[i] = torch.tensor(value, dtype=torch.float64, device=part.device)
    return first


def _joint_root(rows: Rows, belief: Belief, rates: cox.Prior) -> Tensor:
    import torch

    from cotempo.events.cox import updates as cox

    rate = belief.shape / belief.rate
    centre = cox.project(rows.basis, rows.residual, belief, rates).centre
    information = cox.information(rows.basis, rows.cells, centre, rate)
    own = torch.cat([torch.ones_like(belief.mean), (rates.rate * rate)[..., None]], dim=-1)
    root: Tensor = torch.linalg.cholesky(information + torch.diag_embed(own))
    return root


def _reply(
    method: FedPP, span: Floats, memory: KernelMemory, r: Floats, delta: Floats, belief: Belief, root: Floats
) -> tuple[Message, KernelMemory]:
    kept = replace(
        memory, span=span, mean=r, deviation=delta, values=belief.mean.numpy(), root=belief.root.numpy(),
        shape=belief.shape.numpy(), rate=belief.rate.numpy(), information=root,
    )  # fmt: skip
    if method.divergence == "mmd":
        return Message({"mean": r, "deviation": delta}), kept
    return Message(SUMMANDS[method.divergence](r, delta)), kept


def absorb(method: FedPP, state: KernelState, answers: Answers) -> tuple[KernelState, dict[str, float]]:
    """At the server: the prior nearest to the posteriors."""
    if method.divergence == "mmd":
        means, deviations = (np.stack([answers[n][field] for n in answers.names]) for field in ("mean", "deviation"))
        prior = aggregate(means, deviations, "mmd")
    else:
        prior = from_sums(method.divergence, answers.sum, answers.sum.weight)
    moved = float(np.abs(prior.mean - state.mean).max())
    return replace(state, step=state.step + 1, mean=prior.mean, deviation=prior.deviation), {"prior moved": moved}


def expects(method: FedPP, state: KernelState, phase: str) -> Expect:
    """Two sums over clients, but for `mmd`, which needs every posterior."""
    size = (len(state.mean),)
    about = "the posterior of your kernel weights"
    if method.divergence == "mmd":
        return Expect({"mean": Spec(size, description=about), "deviation": Spec(size, low=1e-9, description=about)})
    return Expect(
        {"first": Spec(size, description=about), "second": Spec(size, low=0, description=about)},
        sums=True,
        weight=(1, 1),
    )
