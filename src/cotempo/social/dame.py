"""`DAMe`: personalised federated event detection with two aggregations, top to bottom in the paper's order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from cotempo.data import Table
from cotempo.federation import EMPTY, Answers, Message, Rng, Spec, register
from cotempo.learners.training import Penalty, Trained, from_vector, to_vector, train_epochs
from cotempo.social.bola import search_weight
from cotempo.social.graph_model.data import Dataset, EventMemory, EventState, PostBatch, RoundRecord
from cotempo.social.graph_model.learner import PAPER, EventLearner
from cotempo.social.sega import group_clients, group_weights, similarities
from cotempo.typing import Singles


@register()
class DAMe(EventLearner):
    """Mix each client's model with one made for it from clients like itself, and train on.

    A round, at client k: BOLA mixes ``theta = lambda theta_k + (1 - lambda) theta_server`` with the lambda whose
    model clusters the validation posts best; training minimises the triplet loss plus GLECC, the distance of event
    centres from those of the server's model. At the server: SEGA groups the clients and mixes models in each group.

    The preset ``paper`` has the published sizes, takes the weight with the highest score (equation 3), the plain
    similarities and GLECC, and reads texts by the pretrained encoder ``multilingual``, whose extra must be installed;
    ``encoder="sentence:MODEL"`` names a Sentence-BERT. The authors' released code differs from the paper: uploads are
    matched to the wrong clients, and the weight that was tried is not the one applied. We follow the paper.

    References
    ----------
    Yu et al., DAMe: Personalized Federated Social Event Detection with Dual Aggregation Mechanism, CIKM 2024.

    Examples
    --------
    >>> from cotempo.data import make_posts
    >>> clients, _ = make_posts(clients=2, posts=40, events=4)
    >>> fitted = DAMe(rounds=1, probes=3, dimension=8, buckets=64).fit(clients)
    >>> len(set(fitted["client-0"].detect(clients["client-0"], events=2).event))
    2
    """

    presets: ClassVar[Any] = {
        "cotempo": {},
        "paper": {**PAPER, "similarity": "paper", "glecc": True, "cautious": False},
    }
    sums: ClassVar[bool] = False
    private_units: ClassVar[tuple[str, ...]] = ()
    personal: ClassVar[bool] = True
    extra: ClassVar[Any] = {
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
    sega: bool = Field(default=True, description="Group the clients; otherwise all are one group, weighted by posts.")
    glecc: bool = Field(
        default=False,
        description="Add the constraint, as published. On real posts it cost a little NMI and half as much time again.",
    )

    def train_client(self, received: Message, data: Dataset, memory: EventMemory, rng: Rng) -> Trained:
        """Aggregate locally, then optimise locally: one round at a client."""
        start, weight = self.aggregate_locally(received, data, memory)
        model = self.new_model(received["inputs"], start)
        penalty = self.constraint(received) if self.glecc and received["round"] else None
        loss = train_epochs(self, model, data, rng("batches"), penalty)
        own = to_vector(model)
        kept = replace(memory, personal=own, mixing=np.array([weight], np.float32))
        return Trained(own, own, loss, kept, Message({"local_weight": float(kept.mixing[0])}))

    # Section 4.2: local aggregation by Bayesian optimisation (BOLA).

    def aggregate_locally(self, received: Message, data: Dataset, memory: EventMemory) -> tuple[Singles, float]:
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

    def combine(self, state: EventState, answers: Answers) -> EventState:
        """Compare the models, group the clients, and mix a model for each (equation 12)."""
        names = answers.names
        received = np.stack([answers[name]["weights"] for name in names])
        rows = np.array([answers[name].weight for name in names])
        share = np.tile(rows / max(rows.sum(), 1e-12), (len(names), 1))
        likeness, groups = np.ones((len(names), len(names))), np.zeros(len(names), dtype=np.intp)
        if self.sega:
            rng = np.random.default_rng(state.shared.seed)
            likeness = similarities(received, lambda row: self.new_model(state.inputs, row), state.inputs, rng)
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

    def own_message(self, state: EventState, client: str) -> Message:
        """Send the model made for the client; a newcomer receives the mean."""
        return Message({"weights": state.models[client]}) if client in state.models else EMPTY

    # Section 4.4: local optimisation with the global-local event-centric constraint (GLECC).

    def constraint(self, received: Message) -> Penalty:
        """Return ``a * L_GLECC`` with ``a = exp(min(L_own - L_server, 0))`` held fixed (equations 17 and 18)."""
        import torch

        from cotempo.social.graph_model.losses import event_constraint, triplet_loss

        server = self.new_model(received["inputs"], received["weights"])

        def penalty(model: Any, batch: PostBatch) -> torch.Tensor:
            with torch.no_grad():
                common = server(batch.features, batch.blocks)
            own = model(batch.features, batch.blocks)
            losses = [float(triplet_loss(vectors.detach(), batch.codes, batch.generator)) for vectors in (own, common)]
            return float(np.exp(min(losses[0] - losses[1], 0.0))) * event_constraint(common, own, batch.codes)

        return penalty

    @classmethod
    def example(cls) -> tuple[DAMe, dict[str, Table], None]:
        """Return a small instance and small clients, for the contract suite; here clients make the encoder together."""
        small, clients, public = super().example()
        return cls(**{**small.model_dump(), "encoder": "shared", "probes": 3}), clients, public
