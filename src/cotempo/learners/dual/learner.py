"""`DualLearner`: mix a client's model with one made for it from clients like itself, for any torch model.

References
----------
Yu et al., DAMe: Personalized Federated Social Event Detection with Dual Aggregation Mechanism, CIKM 2024.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from cotempo.data import Table
from cotempo.federation import EMPTY, Answers, Message, Rng, Spec
from cotempo.federation.method import Roster
from cotempo.learners.dual.bola import search_weight
from cotempo.learners.dual.sega import cosines, group_clients, group_weights
from cotempo.learners.learner import Learner
from cotempo.learners.state import LearnerState
from cotempo.learners.training import Penalty, Trained, from_vector, to_vector, train_epochs
from cotempo.typing import Floats, Singles


@dataclass(frozen=True)
class RoundRecord:
    """Decisions of a round: local weights and groups by client, and similarities, ``(clients, clients)``."""

    weights: Mapping[str, float]
    groups: Mapping[str, int]
    similarities: Floats


@dataclass(frozen=True)
class DualState(LearnerState):
    """A learner's state with the record of rounds."""

    record: tuple[RoundRecord, ...] = ()


class DualLearner(Learner):
    """A round, at client k: mix ``theta = lambda theta_k + (1 - lambda) theta_server`` by BOLA, and train on.

    At the server SEGA groups the clients and mixes models in each group. A family may say how alike models are
    (`likeness`), and what is added to its loss (`constraint`).
    """

    State: ClassVar[type] = DualState
    sums: ClassVar[bool] = False
    private_units: ClassVar[tuple[str, ...]] = ()
    personal: ClassVar[bool] = True
    extra: ClassVar[Mapping[str, Spec]] = {
        "local_weight": Spec((), "float", low=0, high=1, description="how much of your own model you kept")
    }

    alpha: float = Field(default=0.6, ge=0, lt=1, description="Least local weight BOLA may choose.")
    probes: int = Field(default=10, ge=1, description="Weights BOLA tries.")
    cautious: bool = Field(
        default=True,
        description="Keep the own model unless a mixture is better by more than the search's deviation; otherwise "
        "take the weight with the highest score, as published.",
    )
    similarity: Literal["paper", "centred"] = Field(
        default="centred",
        description="``centred`` subtracts the median, which isolates a client unlike the others; ``paper`` does not.",
    )
    bola: bool = Field(default=True, description="Search the local weight; otherwise it is `alpha`.")
    sega: bool = Field(default=True, description="Group the clients; otherwise all are one group, weighted by rows.")

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> Any:
        """Draw the first model; nothing is recorded yet."""
        opened = super().open(roster, public, rng)
        return DualState(opened.weights, opened.first, opened.inputs)

    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """Aggregate locally, then optimise locally: one round at a client."""
        start, weight = self.aggregate_locally(received, data, memory)
        model = self.new_model(received["inputs"], start)
        loss = train_epochs(self, model, data, rng("batches"), self.constraint(received))
        own = to_vector(model)
        kept = replace(memory, personal=own, mixing=np.array([weight], np.float32))
        return Trained(own, own, loss, kept, Message({"local_weight": float(kept.mixing[0])}))

    def constraint(self, received: Message) -> Penalty | None:
        """Return what is added to the loss of a batch: nothing."""
        return None

    # Section 4.2: local aggregation by Bayesian optimisation (BOLA).

    def aggregate_locally(self, received: Message, data: Any, memory: Any) -> tuple[Singles, float]:
        """Return the mixture of own and server's model, and the local weight (equations 2 and 3)."""
        server = received["weights"]
        if not memory.personal.size:
            return server, 0.0
        own = memory.personal

        def mixture(weight: float) -> Singles:
            return np.asarray(weight * own + (1 - weight) * server, dtype=np.float32)

        probe = self.new_model(received["inputs"])

        def score(weight: float) -> float:
            from_vector(probe, mixture(weight))
            return self.score(probe, data, "validation") or 0.0

        if not self.bola:
            return mixture(self.alpha), self.alpha
        weight = search_weight(score, self.alpha, self.probes, cautious=self.cautious).weight
        return mixture(weight), weight

    # Section 4.3: global aggregation by two-dimensional structural entropy (SEGA).

    def likeness(self, state: Any, models: Singles) -> Floats:
        """Return how alike models are, ``(clients, clients)``: the cosines of their ways from the first model."""
        return cosines(models.astype(np.float64) - state.first)

    def combine(self, state: Any, answers: Answers) -> Any:
        """Compare the models, group the clients, and mix a model for each (equation 12)."""
        names = answers.names
        received = np.stack([answers[name]["weights"] for name in names])
        rows = np.array([answers[name].weight for name in names])
        share = np.tile(rows / max(rows.sum(), 1e-12), (len(names), 1))
        likeness, groups = np.ones((len(names), len(names))), np.zeros(len(names), dtype=np.intp)
        if self.sega:
            likeness = self.likeness(state, received)
            groups = group_clients(likeness, self.similarity)
            share = group_weights(likeness, groups)
        mixtures = (share @ received.astype(np.float64)).astype(np.float32)
        record = RoundRecord(
            weights={name: float(answers[name]["local_weight"]) for name in names},
            groups={name: int(group) for name, group in zip(names, groups, strict=True)},
            similarities=likeness,
        )
        return replace(
            state,
            weights=received.mean(axis=0, dtype=np.float64).astype(np.float32),
            models=dict(zip(names, mixtures, strict=True)),
            record=(*state.record, record),
        )

    def own_message(self, state: Any, client: str) -> Message:
        """Send the model made for the client; a newcomer receives the mean."""
        return Message({"weights": state.models[client]}) if client in state.models else EMPTY
