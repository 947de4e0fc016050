"""ConditionalDistiller: FedTDD's default, imputers trained on hidden cells instead of the paper's diffusion model.

The coordinator trains an imputer of the common features and a token imputer of any feature on public data. Clients use
them frozen, after factor models and the window moments of all clients, and before a corrector of their own; gates,
chosen on measurements hidden for the purpose, let each in where it is better.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cotempo.federation import Message, Rng
from cotempo.series.fedtdd import (
    Absorbed,
    Calibrated,
    ClientData,
    ClientMemory,
    Distiller,
    FedTDD,
    FedTDDState,
    Reply,
    public_windows,
)
from cotempo.series.filling.gaps import KINDS, UNSEEN
from cotempo.series.filling.gates import Trial, choose_gates, cross_fitted_errors, try_out
from cotempo.series.filling.stages import Filler, Fills, NetworkStage
from cotempo.series.moments.gaussian import Gaussian
from cotempo.series.moments.model_choice import PRIORS
from cotempo.series.moments.moments import Units, WindowMoments
from cotempo.series.nn.parameters import ParameterSpecs
from cotempo.series.seriesmoments import MomentsStage, learn, usual_window
from cotempo.series.windows import SeriesRows, windows_of
from cotempo.typing import Floats

TEACHERS = ("teacher", "tokens")
HELD_OUT = 0.1
MOST_JUDGED = 1024


class ConditionalDistiller(Distiller):
    """The coordinator's imputers, and a client's filler around them."""

    sums_moments: ClassVar[bool] = True
    public_units: ClassVar[bool] = False

    def specs(self) -> ParameterSpecs:
        """Return the parameters of the imputer of the common features."""
        return self.method.imputer().specs(len(self.method.common))

    def train(self, state: FedTDDState, rows: SeriesRows, steps: int, rng: Rng) -> Absorbed:
        """Train the imputer and the token imputer on public windows and on those clients released.

        Small public series are soon overfitted, so the imputer is judged on public rows that are held out, and clients
        receive the best so far.
        """
        from cotempo.series.nn.losses import Filling
        from cotempo.series.nn.training import judge, train_one

        method, length = self.method, self.method.reach
        # A tenth of the rows: the end of a piece, or half of every fifth piece.
        every = min(5, len(rows.lengths))
        kept, held = state.scale.rows(rows).split(HELD_OUT * every, method.window, every)
        # Released windows are lengthened by missing rows, because imputers see more rows than a window has.
        room = ((0, 0), (0, length - method.window), (0, 0))
        bank = np.pad(state.bank.astype(np.float64), room, constant_values=np.nan)
        dataset = public_windows(state, np.concatenate([windows_of(kept, length), bank]))
        task, schedule = Filling(method.imputer()), method.distiller_schedule(state.distiller, method.imputer_rate)
        found, loss = train_one(task, state.distiller, dataset, steps, schedule, rng)
        best, metrics = found, {"distiller loss": loss}
        if len(held.values):
            unseen = public_windows(state, windows_of(held, length)[-MOST_JUDGED:])
            before, after = (judge(task, item, unseen, schedule) for item in (state.best, found))
            metrics["held-out loss"] = min(before, after)
            best = found if after <= before else state.best
        tokens, total = state.tokens, min(method.token_steps, method.pretrain_steps)
        steps = min(steps, total - tokens.steps)
        if steps > 0:
            task, schedule = Filling(method.token_imputer()), method.schedule(total, method.imputer_rate / 2)
            tokens, _ = train_one(task, tokens, dataset, steps, schedule, rng)
        return replace(state, distiller=found, best=best, tokens=tokens), metrics

    def lesson(self, state: FedTDDState) -> dict[str, Any]:
        """Return the token imputer and the window moments of all clients."""
        moments = state.moments
        parts = {"features": json.dumps(moments.features), "prior": moments.prior}
        parts |= {"products": moments.products[1], "counts": moments.counts[1]}
        if len(moments.lacked):
            parts |= {"lacked": moments.lacked, "levels": moments.levels[1]}
        parts |= {"middle": moments.units.centre, "step": moments.units.step}
        return parts | ({"tokens": state.tokens.average} if self.method.token_steps else {})

    def receive(self, lesson: Message, data: ClientData, memory: ClientMemory) -> ClientMemory:
        """Remember the process of the client's features, in the units of its scale."""
        names, scale = json.loads(lesson["features"]), memory.scale
        own = np.array([names.index(name) for name in data.features], dtype=np.intp)
        units = Units(lesson["middle"], lesson["step"]).take(own)
        inner = Units(scale.apply(units.centre), 2 * units.step / (scale.high - scale.low))
        parts = (lesson["products"], lesson["counts"], lesson.get("lacked"), lesson.get("levels"))
        moments = WindowMoments.unpack(*parts).take(own)
        return replace(memory, moments=MomentsStage(inner, Gaussian.of(moments, PRIORS[lesson["prior"]])))

    def choose(self, data: ClientData, memory: ClientMemory, rng: Rng) -> ClientMemory:
        """Choose gates; the teacher is trusted from the start only for features not measured anywhere near."""
        start = self._trusting(memory, [UNSEEN])
        return replace(memory, gates=choose_gates(start, *self._trials(start, data, rng)))

    def filler(self, memory: ClientMemory, rng: Rng) -> Fills:
        """Fill with the gates chosen, or before that with the teacher."""
        filler = self._trusting(memory)
        return replace(filler, gates=memory.gates) if len(memory.gates) else filler

    def counts(self, missing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return all cells."""
        return np.ones_like(missing)

    def compare(self, data: ClientData, memory: ClientMemory, rng: Rng) -> tuple[Floats, Floats, Calibrated]:
        """Compare with what the client fills alone, cross-fitted, so that gates are judged on the other half."""
        single, start = self._alone(data, memory), self._trusting(memory, [UNSEEN])
        (trial, _, _), trials = self._trials(single, data, rng), self._trials(start, data, rng)
        gates = (choose_gates(start, *trials, half=half) for half in (1, 0))
        parts = [(replace(start, gates=part), rows) for part, rows in zip(gates, data.held.halves(), strict=True)]
        return cross_fitted_errors(single, trial), cross_fitted_errors(start, *trials), parts

    def _trusting(self, memory: ClientMemory, kinds: Sequence[int] = range(KINDS)) -> Filler:
        """Make a filler that trusts the teacher in some kinds of gaps and nothing else."""
        own = memory.corrector.average if memory.corrector.steps else None
        moments = () if memory.moments is None else (memory.moments,)
        stages = (NetworkStage(memory.factors), *moments, NetworkStage(memory.factors, memory.taught, own))
        filler = Filler.closed(memory.scale, stages, len(self.method.common))
        for kind in kinds:
            filler.gates[: filler.common, kind, filler.names.index("teacher")] = 1.0
        return filler

    def _alone(self, data: ClientData, memory: ClientMemory) -> Filler:
        """Make what the client fills with alone."""
        own = memory.corrector_alone.average if memory.corrector_alone.steps else None
        moments, _, _ = learn(memory.scale.rows(data.trained), usual_window(len(data.features), 4 * self.method.window))
        stages = (NetworkStage(memory.factors), moments, NetworkStage(memory.factors, None, own))
        return Filler.closed(memory.scale, stages, len(self.method.common))

    def _trials(self, filler: Filler, data: ClientData, rng: Rng) -> tuple[Trial, Trial, tuple[str, ...]]:
        """Try a filler on held-out rows, for what learned from the client's data, and on all rows, for the teacher."""
        every = try_out(filler, data.trained, self.method, rng("teaching"))
        if not len(data.held.values):
            return every.take(np.zeros(len(every.truth), dtype=bool)), every, TEACHERS
        owning = try_out(filler, data.held, self.method, rng("owning"))
        return owning, every.join(owning), TEACHERS


def train_correctors(
    method: FedTDD, steps: int, owners: Sequence[ClientData], memories: Sequence[ClientMemory], rngs: Sequence[Rng]
) -> list[Reply]:
    """Train clients' correctors over the distiller's filling, and for comparison without it."""
    from cotempo.series.nn.imputer import Teacher
    from cotempo.series.nn.losses import Filling
    from cotempo.series.nn.training import TrainingWindows, train

    datasets = []
    for data, memory in zip(owners, memories, strict=True):
        windows = windows_of(memory.scale.rows(data.trained), method.reach)
        datasets.append(TrainingWindows.plain(windows, memory.factors, len(method.common)))
    teacher = Teacher.of(memories[0].taught, method)
    given = (datasets, steps, method.schedule(method.corrector_steps, method.imputer_rate), rngs)
    taught, losses = train(Filling(method.imputer(), teacher), [memory.corrector for memory in memories], *given)
    alone, _ = train(Filling(method.imputer()), [memory.corrector_alone for memory in memories], *given)
    return [
        (Message({"loss": float(losses[k])}), replace(memory, corrector=taught[k], corrector_alone=alone[k]))
        for k, memory in enumerate(memories)
    ]
