"""A client's part of FedTDD: lines 3 to 11 of Algorithm 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.federation import Message, Question, Rng
from cotempo.series.filling.calibration import calibrate
from cotempo.series.filling.stages import Filler, make_teacher
from cotempo.series.filling.gaps import UNSEEN
from cotempo.series.filling.gates import Trial, choose_gates, fair_error, try_out
from cotempo.series.nn.generation import draw_windows
from cotempo.series.filling.guided import GuidedFiller, guided_errors
from cotempo.series.owned import (
    ClientMemory,
    Owned,
    alone,
    make_filler,
    set_apart,
    settle,
    teacher_of,
    trusting,
)
from cotempo.series.release import release
from cotempo.series.filling.residual_noise import find_errors, roughen
from cotempo.series.filling.factor_models import Ties
from cotempo.series.windows import Rows, windows_of

if TYPE_CHECKING:
    from cotempo.series.fedtdd import FedTDD
    from cotempo.series.nn.training import Material

Floats = NDArray[np.float64]
TAUGHT = ("teacher", "tokens")


def join(method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng) -> tuple[Message, None]:
    """Say how many windows there are."""
    return Message({"windows": len(owned.rows.starts(method.window))}), None


def train_imputers(
    method: FedTDD, questions: Sequence[Question], owners: Sequence[Owned], memories: Sequence[ClientMemory],
    rngs: Sequence[Rng],
) -> list[tuple[Message, ClientMemory | None]]:  # fmt: skip
    """Train clients' imputers over the distiller's filling, and for comparison without it."""
    from cotempo.series.nn.losses import Filling
    from cotempo.series.nn.training import train

    memories = [settle(method, *given) for given in zip(memories, owners, questions, strict=True)]
    materials = [_hidden_cells(method, *pair) for pair in zip(owners, memories, strict=True)]
    teacher = make_teacher(teacher_of(memories[0]), method)
    steps = questions[0].common["steps"]
    schedule = method.schedule(method.imputer_steps, method.imputer_rate)
    found = []
    for name, task in (("imputer", Filling(method.imputer(), teacher)), ("alone", Filling(method.imputer()))):
        found.append(train(task, [getattr(memory, name) for memory in memories], materials, steps, schedule, rngs))
    (taught, losses), (alone, _) = found
    return [
        (Message({"loss": float(losses[k])}), replace(memory, imputer=taught[k], alone=alone[k]))
        for k, memory in enumerate(memories)
    ]


def _hidden_cells(method: FedTDD, owned: Owned, memory: ClientMemory) -> Material:
    from cotempo.series.nn.training import Material

    scaled = Rows(memory.scale.apply(owned.trained.values), owned.trained.lengths)
    windows = windows_of(scaled, method.reach)
    common = np.arange(windows.shape[2]) < len(method.common)
    return Material(np.nan_to_num(windows), ~np.isnan(windows), memory.ties, common)


def fill(
    method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng
) -> tuple[Message, ClientMemory]:
    """Fill common features with the distiller (line 5) and exclusive ones with the own model (line 6)."""
    memory = settle(method, memory, owned, question)
    if method.preset == "cotempo":
        start = trusting(method, memory, [UNSEEN])
        memory = replace(memory, gates=choose_gates(start, *_trials(method, start, owned, rng)))
    filler = make_filler(method, memory, rng)
    errors = find_errors(filler, owned.rows, method, rng("errors")) if method.rough else memory.errors
    memory = replace(memory, filled=filler.rows(owned.rows, method), errors=errors)
    return Message({"missing": float(np.isnan(owned.rows.values).mean())}), memory


def _trials(method: FedTDD, filler: Filler, owned: Owned, rng: Rng) -> tuple[Trial, Trial, tuple[str, ...]]:
    """What stems from the client's data is tried out on, other rows; the teacher, all rows; and who the teacher is."""
    every = try_out(filler, owned.trained, method, rng("teaching"))
    if not len(owned.held.values):
        return every.take(np.zeros(len(every.truth), dtype=bool)), every, TAUGHT
    owning = try_out(filler, owned.held, method, rng("owning"))
    return owning, every.join(owning), TAUGHT


def train_backbones(
    method: FedTDD, questions: Sequence[Question], owners: Sequence[Owned], memories: Sequence[ClientMemory],
    rngs: Sequence[Rng],
) -> list[tuple[Message, ClientMemory | None]]:  # fmt: skip
    """Train clients' diffusion models (line 8)."""
    from cotempo.series.nn.noise import Noise
    from cotempo.series.nn.losses import Denoising
    from cotempo.series.nn.training import train

    task = Denoising(method.backbone(), Noise(method.diffusion_steps))
    memories = [settle(method, *given) for given in zip(memories, owners, questions, strict=True)]
    given = zip(questions, owners, memories, rngs, strict=True)
    materials = [_filled_windows(method, *each) for each in given]
    steps, schedule = questions[0].common["steps"], method.schedule(method.backbone_steps)
    learned, losses = train(task, [memory.backbone for memory in memories], materials, steps, schedule, rngs)
    return [
        (Message({"loss": float(losses[k])}), replace(memory, backbone=learned[k])) for k, memory in enumerate(memories)
    ]


def _filled_windows(method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng) -> Material:
    """Filled windows of the client."""
    from cotempo.series.nn.training import Material

    common, missing = len(method.common), np.isnan(owned.rows.values)
    filled = _filled(method, owned, memory, rng)
    free = np.arange(missing.shape[1]) < common if method.preset == "paper" else True
    counts = Rows((~missing | free).astype(np.float64), owned.rows.lengths)
    if method.rough:
        filled = replace(filled, values=roughen(filled.values, missing, memory.errors, rng("roughness")))
    if not question.common["whole"]:
        filled, counts = (set_apart(method, part)[0] for part in (filled, counts))
    windows, mask = memory.made.apply(windows_of(filled, method.window)), windows_of(counts, method.window) > 0
    features = windows.shape[2]
    return Material(np.nan_to_num(windows), mask, Ties.none(features), np.arange(features) < common)


def _filled(method: FedTDD, owned: Owned, memory: ClientMemory, rng: Rng) -> Rows:
    """The client's rows as last filled; filled now if that was lost on the way."""
    filled = memory.filled if len(memory.filled) else make_filler(method, memory, rng).rows(owned.rows, method)
    return Rows(filled, owned.rows.lengths)


def share(
    method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng
) -> tuple[Message, ClientMemory]:
    """Generate windows (line 9) and send their common features (line 10), save those too near to real ones."""
    memory = settle(method, memory, owned, question)
    count = math.ceil(question.common["share"] * len(owned.rows.starts(method.window)))
    common, public = len(method.common), teacher_of(memory).scale
    empty = np.zeros((0, method.window, common), method.precision)
    if count == 0:
        return Message({"windows": empty, "withheld": 0, "membership": 0.5}), memory
    made = memory.made.undo(draw_windows(method, memory.backbone.average, len(memory.scale.low), count, rng))
    parts = set_apart(method, _filled(method, owned, memory, rng))
    real = (part.windows(method.window) for part in parts)
    drawn, trained, held = (public.apply(part[..., :common]).clip(-100, 100) for part in (made, *real))
    gate = release(drawn, trained, held)
    sent = drawn[gate.kept].astype(method.precision)
    return Message({"windows": sent, "withheld": gate.withheld, "membership": gate.membership}), memory


def score(
    method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng
) -> tuple[Message, ClientMemory]:
    """Say how well hidden cells are filled, alone and together, and calibrate intervals on held-out rows."""
    memory = settle(method, memory, owned, question)
    filler = make_filler(method, memory, rng)
    parts: list[tuple[Filler | GuidedFiller, Rows]]
    if isinstance(filler, GuidedFiller):
        errors, parts = guided_errors(filler, owned.held, method, rng("owning")), [(filler, owned.held)]
    else:
        single, start = alone(method, owned, memory), trusting(method, memory, [UNSEEN])
        (trial, _, _), trials = _trials(method, single, owned, rng), _trials(method, start, owned, rng)
        errors = fair_error(single, trial), fair_error(start, *trials)
        gates = (choose_gates(start, *trials, half=half) for half in (1, 0))
        parts = [(replace(start, gates=part), rows) for part, rows in zip(gates, owned.held.halves(), strict=True)]
    calibration = calibrate(method, parts, rng("calibration"))
    cells = int((~np.isnan(owned.held.values)).sum())
    said = {"alone": errors[0], "together": errors[1], "cells": cells}
    return Message(said), replace(memory, calibration=calibration)
