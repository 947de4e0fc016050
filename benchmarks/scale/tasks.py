"""What is learned in the comparison of loops: clients, a method, and the loss on what each site held out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import cotempo as ct
from cotempo import learners
from cotempo.data import Events, Series, Table
from cotempo.data.clock import Clock
from cotempo.engines.inprocess import InProcess
from cotempo.events import SharedPrior
from cotempo.events.intensities.fitted import KernelCurve
from cotempo.events.records.record import Record
from cotempo.events.shared_function.client import likelihood
from cotempo.federation import Method, Rng, Roster
from cotempo.federation.rounds import make_questions

if TYPE_CHECKING:
    import torch
    from torch import nn

WINDOW = (0.0, 10.0)
PEAKS = np.array([1.5, 3.2, 5.8, 8.3])


class Task(ABC):
    """A method, its clients and what they held out."""

    name: str
    method: Any
    clients: Mapping[str, Table]

    @abstractmethod
    def is_learned(self, state: Any) -> bool:
        """Whether a state already holds something to judge."""

    @abstractmethod
    def loss(self, engine: InProcess, state: Any, ledger: Mapping[str, int]) -> float:
        """The loss on what the sites held out, if each took the state as it is now."""


class Intensities(Task):
    """FedPP on events that crowd around four peaks; a client learns from two sequences and holds four out.

    A site takes the state by answering one more question, from its last counted memory; nothing of that is kept.
    """

    def __init__(self, name: str, method: Method, clients: int, seed: int):
        self.name, self.method = name, method
        rng = np.random.default_rng(100 + seed)
        tables = {f"client-{number:02d}": crowds(rng) for number in range(clients)}
        self.clients = {client: Events.from_arrays(times[:2], WINDOW) for client, times in tables.items()}
        self.held = {client: Events.from_arrays(times[2:], WINDOW) for client, times in tables.items()}

    def is_learned(self, state: Any) -> bool:
        """Once rounds of learning have begun, until their last."""
        ask = self.method.model_copy(update={"rounds": 10**9}).ask(state, ["x"], Rng(0))
        return ask is not None and ask.phase in self.method.staleness

    def loss(self, engine: InProcess, state: Any, ledger: Mapping[str, int]) -> float:
        """Minus the gain in nats per held-out event over the client's own constant rate, over all events."""
        method, names = self.method, engine.names()
        ask = method.model_copy(update={"rounds": 10**9}).ask(state, names, Rng(0))
        questions = make_questions(ask, "loss", 1, 1, [ledger, ledger])
        sites = [engine.sites[name] for name in names]
        memories = [site.memory(ledger.get(site.client, 0)) for site in sites]
        rngs = [Rng(0, "loss", site.client) for site in sites]
        answers = method.answer_all(questions, [site.prepared for site in sites], memories, rngs)
        gains, events = [], []
        for name, (_, memory) in zip(names, answers, strict=True):
            if isinstance(method, SharedPrior):
                gains.append(KernelCurve(method, memory, Clock("", "")).score(self.held[name])["gain"])
            else:
                learned = replace(state, kept="function")
                gains.append(likelihood(learned, memory, Record.of(self.held[name]))["gain"])
            events.append(self.held[name].rows)
        return -float(np.average(gains, weights=events))


def crowds(rng: np.random.Generator, sequences: int = 6) -> list[NDArray[np.float64]]:
    """A client's sequences: peaks where all clients have them, of the client's own heights, by thinning."""
    rate, heights = np.exp(0.3 * rng.normal()), 3 * np.exp(0.3 * rng.normal(size=len(PEAKS)))
    top, drawn = rate * (0.2 + heights.sum()), []
    for _ in range(sequences):
        times = np.sort(rng.uniform(*WINDOW, rng.poisson(top * WINDOW[1])))
        intensity = rate * (0.2 + np.exp(-(((times[:, None] - PEAKS) / 0.3) ** 2) / 2) @ heights)
        drawn.append(times[rng.uniform(0, top, len(times)) < intensity])
    return drawn


class Forecaster(learners.FedAvgLearner):
    """A small network that tells the next row from the last four; federated averaging of its parameters."""

    kind: ClassVar[str] = "series"
    hidden: int = 32
    history: int = 4
    batch: int = 32

    def inputs(self, roster: Roster) -> int:
        return self.history * len(roster.schema.columns)

    def make_model(self, inputs: int) -> nn.Module:
        from torch import nn

        return nn.Sequential(nn.Linear(inputs, self.hidden), nn.Tanh(), nn.Linear(self.hidden, inputs // self.history))

    def prepare(self, table: Table) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        assert isinstance(table, Series)
        rows = table.values.astype(np.float32)
        past = np.stack([rows[i : len(rows) - self.history + i] for i in range(self.history)], axis=1)
        return torch.from_numpy(past.reshape(len(past), -1)), torch.from_numpy(rows[self.history :])

    def size(self, data: Any) -> int:
        return int(0.8 * len(data[0]))

    def epoch_batches(self, data: Any, rng: np.random.Generator) -> Iterable[Any]:
        order = rng.permutation(self.size(data))
        return [(data[0][rows], data[1][rows]) for rows in np.array_split(order, max(1, len(order) // self.batch))]

    def loss(self, model: nn.Module, batch: Any) -> torch.Tensor:
        squares: torch.Tensor = (model(batch[0]) - batch[1]).square().mean()
        return squares

    def score(self, model: nn.Module, data: Any, part: str) -> float:
        return -1.0


class Forecasts(Task):
    """FedAvg of a network that forecasts; the last fifth of every client's rows is held out."""

    def __init__(self, name: str, clients: int, seed: int):
        self.name = name
        self.method = Forecaster(rounds=40, compare=False)
        self.clients, _ = ct.make_networks(variables=6, clients=clients, samples=100 * clients, seed=100 + seed)

    def is_learned(self, state: Any) -> bool:
        """A model can always be judged."""
        return not state.finished

    def loss(self, engine: InProcess, state: Any, ledger: Mapping[str, int]) -> float:
        """Mean squared error of the server's model on the rows held out."""
        import torch

        model, errors = self.method.new_model(state.inputs, state.weights), []
        with torch.no_grad():
            for site in engine.sites.values():
                past, following = site.prepared
                held = slice(self.method.size(site.prepared), None)
                errors.append(float(self.method.loss(model, (past[held], following[held]))))
        return float(np.mean(errors))


def _fedpp(name: str, **parameters: Any) -> Callable[[int, int], Task]:
    method = ct.FedPP(window=WINDOW, inducing=30, **parameters)
    return lambda clients, seed: Intensities(name, method, clients, seed)


TASKS: dict[str, Callable[[int, int], Task]] = {
    "fedpp-paper": _fedpp("fedpp-paper", preset="paper", rounds=40, cells=100),
    "fedpp": _fedpp("fedpp", kernel="history", base="poisson", rounds=30, compare=False, refit_rounds=0),
    "fedavg": lambda clients, seed: Forecasts("fedavg", clients, seed),
}
