"""`Learner`: the round all federated learners of torch models share, and the hooks a family fills in.

A family writes `inputs`, `make_model`, `dataset`, `epoch_batches`, `loss`, `score` and `size`; an algorithm writes
`train_client` and, where a mean is not enough, `combine`. Any family goes with any algorithm.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from cotempo.data import Table
from cotempo.devices import Device, find_device
from cotempo.errors import ParameterError
from cotempo.federation import EMPTY, Answers, Ask, Expect, Joining, Message, Question, Rng, Spec, expect_tally
from cotempo.federation.method import Method, Metrics, Roster, Staleness
from cotempo.federation.reducers import Reducer
from cotempo.learners.state import LearnerMemory, LearnerState
from cotempo.learners.training import Trained, from_vector, to_vector, train_epochs
from cotempo.robust.reducer import SCREEN
from cotempo.typing import Singles

if TYPE_CHECKING:
    import torch
    from torch import nn

    from cotempo.learners.private import PrivateLearner
    from cotempo.privacy.settings import Privacy


class Learner(Method):
    """A federated learner of a torch model.

    An algorithm says whether the server needs only the weighted mean of answers (`sums`), whether clients end with
    models of their own (`personal`), whether they send theirs (`sends_model`), and which fields besides (`extra`).
    """

    reducer: ClassVar[Reducer] = SCREEN  # name a client that differs from all others
    phases: ClassVar[tuple[str, ...]] = ("train", "finish")
    Memory: ClassVar[type | None] = LearnerMemory
    State: ClassVar[type] = LearnerState
    private_units: ClassVar[tuple[str, ...]] = ("client",)
    sums: ClassVar[bool] = True
    personal: ClassVar[bool] = False
    sends_model: ClassVar[bool] = True
    metric: ClassVar[str] = "score on held-out rows"
    extra: ClassVar[Mapping[str, Spec]] = {}

    rounds: int = Field(default=50, ge=1, description="Rounds of the federation.")
    epochs: int = Field(default=1, ge=1, description="Passes over a client's own rows in each round.")
    learning_rate: float = Field(default=1e-3, gt=0, description="Step size of Adam, which starts again every round.")
    weight_decay: float = Field(default=1e-4, ge=0, description="Weight decay of Adam.")
    compare: bool = Field(default=True, description="Train a model alone for as long at the end, and compare.")
    device: Device = Field(default="cpu", description="Where networks are computed; `cuda` is a GPU.")

    # What a family writes.

    @abstractmethod
    def inputs(self, roster: Roster) -> int:
        """Return how many inputs the model has."""

    @abstractmethod
    def make_model(self, inputs: int) -> nn.Module:
        """Make a model; its first parameters are drawn from torch's generator."""

    @abstractmethod
    def epoch_batches(self, data: Any, rng: np.random.Generator) -> Iterable[Any]:
        """Return the batches of one pass over the training rows."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """Return the loss on a batch."""

    @abstractmethod
    def score(self, model: nn.Module, data: Any, part: str) -> float | None:
        """Return how good a model is on the ``"validation"`` or ``"test"`` rows, in any unit; None where unknown."""

    def dataset(self, prepared: Any, memory: Any) -> Any:
        """Return what `epoch_batches` and `score` work on."""
        return prepared

    @abstractmethod
    def size(self, data: Any) -> int:
        """Return the number of training rows: what the client counts in a mean."""

    # What an algorithm writes.

    @abstractmethod
    def train_client(self, received: Message, data: Any, memory: Any, rng: Rng) -> Trained:
        """At a client: train for one round; `received` holds weights, inputs, round and what `own_message` adds."""

    def combine(self, state: Any, answers: Answers) -> Any:
        """At the server: make the next model; by default the mean, weighted by training rows.

        If answers are not only summed, keep all models, newcomers' last; the mean is what newcomers begin with.
        """
        if self.sums:
            return replace(state, weights=answers.mean("weights").astype(np.float32))
        models = {**state.models, **{name: answers[name]["weights"] for name in answers.names}}
        mean = np.mean(list(models.values()), axis=0, dtype=np.float64).astype(np.float32)
        return replace(state, models=models, weights=mean)

    def own_message(self, state: Any, client: str) -> Message:
        """At the server: return what one client is sent besides."""
        return EMPTY

    def final_model(self, received: Message, data: Any, memory: Any, rng: Rng) -> Singles:
        """At a client: return the model it would end with: its own if models are `personal`, else the server's."""
        weights: Singles = memory.personal_or(received) if self.personal else received["weights"]
        return weights

    @property
    def staleness(self) -> Mapping[str, Staleness]:
        """Take late training answers where the server needs no more than a weighted mean."""
        return {"train": "weighted"} if self.sums else {}

    def private(self, privacy: Privacy) -> PrivateLearner:
        """Return the form that learns from clipped and noised updates."""
        from cotempo.learners.private import PrivateLearner

        name = type(self).__name__
        if not self.sends_model:
            raise ParameterError(f"epsilon must be left out with {name}, whose clients learn alone and send no model")
        if not self.sums:
            raise ParameterError(
                f"epsilon must be left out with {name}, whose server needs every client's model by itself: noise that "
                "hides a client there drowns its model; FedAvg, FedProx, Ditto and FedALA need only the sum"
            )
        return PrivateLearner.of(self.model_copy(update={"compare": False}), privacy)

    # The round.

    def new_model(self, inputs: int, weights: Singles | None = None, seed: int = 0) -> nn.Module:
        """Make a model with these parameters, or with first ones drawn from a seed."""
        import torch

        with torch.random.fork_rng(devices=[]):
            if weights is None:
                torch.manual_seed(seed)
            model = self.make_model(inputs)
        if weights is not None:
            from_vector(model, weights)
        return model.to(find_device(self.device))

    def tensor(self, values: Any) -> torch.Tensor:
        """Return a copy of an array on the learner's device."""
        import torch

        return torch.from_numpy(np.array(values)).to(self.device)

    def begin(self, prepared: Any, rng: Rng) -> Any:
        """Return an empty memory."""
        return LearnerMemory()

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> Any:
        """Draw the first model."""
        inputs = self.inputs(roster)
        first = to_vector(self.new_model(inputs, seed=int(rng("model").integers(2**31))))
        return LearnerState(first, first, inputs)

    @property
    def most_questions(self) -> dict[str, int]:
        """By phase, how many questions a site answers: it trains every round, and does everything else once."""
        return {**dict.fromkeys(self.phases, 1), "train": self.rounds}

    def ask(self, state: Any, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Train round after round, then finish."""
        if state.finished:
            return None
        common = {"inputs": state.inputs, "round": state.round}
        each = {name: own for name in cohort if len(own := self.own_message(state, name))}
        if any("weights" not in each.get(name, EMPTY) for name in cohort):
            common["weights"] = state.weights
        if state.round < self.rounds:
            return Ask("train", cohort, Message(common), each)
        return Ask("finish", cohort, Message({**common, "first": state.first}), each)

    def answer(self, question: Question, prepared: Any, memory: Any, rng: Rng) -> tuple[Message, Any]:
        """Train, or judge the model the client ends with."""
        received = Message({**question.common, **question.own})
        data = self.dataset(prepared, memory)
        if question.phase == "train":
            trained = self.train_client(received, data, memory, rng)
            kept = self._with_best(trained.memory, trained.candidate, received, data)
            score = {"score": kept.best_score or 0.0, "scored": float(kept.best_score is not None)}
            sent = {"weights": trained.sent, "loss": trained.loss, **score, **trained.extra}
            return Message(sent, weight=self.size(data)), kept
        return self._finish(received, data, memory, rng)

    def _with_best(self, memory: Any, candidate: Singles, received: Message, data: Any) -> Any:
        """Return the memory with `candidate` as its best model, if it is."""
        score = self.score(self.new_model(received["inputs"], candidate), data, "validation")
        if _is_better(score, memory.best_score):
            return replace(memory, best=candidate, best_score=score)
        return memory

    def _finish(self, received: Message, data: Any, memory: Any, rng: Rng) -> tuple[Message, Any]:
        kept = self._with_best(memory, self.final_model(received, data, memory, rng), received, data)
        together = self.score(self.new_model(received["inputs"], kept.best), data, "test")
        if self.compare and together is not None:
            alone = self.score(self.new_model(received["inputs"], self._train_alone(received, data, rng)), data, "test")
            if alone is not None:
                kept = replace(kept, compared=np.array([alone, together, np.nan]))
        return Message({"joining": self.tally(kept.compared)}), kept

    def _train_alone(self, received: Message, data: Any, rng: Rng) -> Singles:
        """Train a model alone for as many rounds as the federation took, and return the best by validation."""
        model = self.new_model(received["inputs"], received["first"])
        best, best_score = to_vector(model), None
        for round in range(self.rounds):
            train_epochs(self, model, data, rng(f"alone {round}"))
            score = self.score(model, data, "validation")
            if _is_better(score, best_score):
                best, best_score = to_vector(model), score
        return best

    def absorb(self, state: Any, answers: Answers, public: Table | None, rng: Rng) -> tuple[Any, Metrics]:
        """Combine the models, or keep what joining was worth."""
        if state.round < self.rounds:
            return replace(self.combine(state, answers), round=state.round + 1), self._watch(answers)
        return replace(state, joining=Joining(answers.sum["joining"]), finished=True), {}

    def _watch(self, answers: Answers) -> Metrics:
        """Return the mean loss, and the mean score of the clients that have one, if any."""
        if self.sums:
            loss, score, scored = (float(answers.mean(key)) for key in ("loss", "score", "scored"))
        else:
            each = [[answers[name][key] for key in ("loss", "score", "scored")] for name in answers.names]
            loss, score, scored = np.mean(each, axis=0).tolist() if each else (0.0, 0.0, 0.0)
        return {"loss": loss, **({"score": score / scored} if scored else {})}

    def expects(self, state: Any, phase: str) -> Expect:
        """Models and three numbers; at the end what joining was worth, as a sum."""
        if phase == "finish":
            return Expect({"joining": expect_tally()}, sums=True)
        size = len(state.weights) if self.sends_model else 0
        fields = {
            "weights": Spec((size,), "float32", description="your model's parameters" if size else "nothing"),
            "loss": Spec((), "float", description="mean training loss"),
            "score": Spec((), "float", description="score of your best model on your validation rows; 0 where unknown"),
            "scored": Spec((), "float", low=0, high=1, description="1 where you have validation rows, else 0"),
            **self.extra,
        }
        return Expect(fields, sums=self.sums, weight=(0, 1e12), rows=lambda message: 1.0)

    def work(self, state: LearnerState) -> tuple[float, float]:
        """Return rounds done and in all; to compare, clients learn alone for as many rounds again."""
        total = float(2 * self.rounds if self.compare else self.rounds)
        return (total if state.finished else float(state.round)), total


def _is_better(score: float | None, than: float | None) -> bool:
    """Return whether a score is at least as good as another; true if either is unknown."""
    return score is None or than is None or score >= than
