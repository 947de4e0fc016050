"""A client's part of FedTDD: lines 3 to 11 of Algorithm 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.federation.exchange import Question
from cotempo.federation.message import Message
from cotempo.federation.rng import Rng
from cotempo.series.calibration import calibrate
from cotempo.series.filling import Filler, make_teacher
from cotempo.series.gaps import UNSEEN
from cotempo.series.gates import Trial, choose_gates, fair_error, try_out
from cotempo.series.generation import draw_windows
from cotempo.series.guided import GuidedFiller, guided_errors
from cotempo.series.owned import (
    ClientMemory,
    Owned,
    alone,
    made_scale,
    make_filler,
    public_scale,
    set_apart,
    settle,
    started,
    teaching,
    trusting,
)
from cotempo.series.release import release
from cotempo.series.roughness import find_errors, roughen
from cotempo.series.scale import Scale
from cotempo.series.ties import Ties
from cotempo.series.windows import Rows, windows_of

if TYPE_CHECKING:
    from cotempo.series.fedtdd import FedTDD
    from cotempo.series.training import Material

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
    from cotempo.series.tasks import Filling
    from cotempo.series.training import train

    memories = [settle(method, *given) for given in zip(memories, owners, questions, strict=True)]
    materials = [_hidden_cells(method, *pair) for pair in zip(owners, memories, strict=True)]
    teacher = make_teacher(teaching(questions[0]), method)
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
    from cotempo.series.training import Material

    scaled = Rows(memory.scale.apply(owned.trained.values), owned.trained.lengths)
    windows = windows_of(scaled, method.reach)
    common = np.arange(windows.shape[2]) < len(method.common)
    return Material(np.nan_to_num(windows), ~np.isnan(windows), len(windows), memory.ties, common)


def fill(
    method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng
) -> tuple[Message, ClientMemory]:
    """Fill common features with the distiller (line 5) and exclusive ones with the own model (line 6)."""
    memory, taught = settle(method, memory, owned, question), teaching(question)
    if method.preset == "cotempo":
        start = trusting(method, taught, memory, [UNSEEN])
        memory = replace(memory, gates=choose_gates(start, *_trials(method, start, owned, rng)))
    filler = make_filler(method, taught, memory)
    shown = _with_exclusives(question.common["public"], owned.exclusive, memory.scale)
    errors = find_errors(filler, owned.rows, method, rng("errors")) if method.rough else memory.errors
    memory = replace(memory, filled=filler.rows(owned.rows, method), errors=errors, shown=filler.rows(shown, method))
    return Message({"missing": float(np.isnan(owned.rows.values).mean())}), memory


def _trials(method: FedTDD, filler: Filler, owned: Owned, rng: Rng) -> tuple[Trial, Trial, tuple[str, ...]]:
    """What stems from the client's data is tried out on, other rows; the teacher, all rows; and who the teacher is."""
    every = try_out(filler, owned.trained, method, rng("teaching"))
    if not len(owned.held.values):
        return every, every, TAUGHT
    owning = try_out(filler, owned.held, method, rng("owning"))
    return owning, every.join(owning), TAUGHT


def _with_exclusives(public: Floats, exclusive: int, scale: Scale) -> Rows:
    """Public windows as rows in the units of the data, exclusive features missing."""
    count, length, _ = public.shape
    wide = np.concatenate([public, np.full((count, length, exclusive), np.nan)], axis=2)
    return Rows(scale.undo(wide.reshape(count * length, wide.shape[2])), (length,) * count)


def train_backbones(
    method: FedTDD, questions: Sequence[Question], owners: Sequence[Owned], memories: Sequence[ClientMemory],
    rngs: Sequence[Rng],
) -> list[tuple[Message, ClientMemory | None]]:  # fmt: skip
    """Train clients' diffusion models (line 8)."""
    from cotempo.series.noise import Noise
    from cotempo.series.tasks import Denoising
    from cotempo.series.training import train

    task = Denoising(method.backbone(), Noise(method.diffusion_steps))
    given = list(zip(questions, owners, memories, rngs, strict=True))
    materials = [_filled_windows(method, *each) for each in given]
    start = questions[0].common.get("start")
    networks = [started(method, *pair, start) for pair in zip(owners, (m.backbone for m in memories), strict=True)]
    steps, schedule = questions[0].common["steps"], method.schedule(method.backbone_steps)
    learned, losses = train(task, networks, materials, steps, schedule, rngs)
    return [
        (Message({"loss": float(losses[k])}), replace(memory, backbone=learned[k])) for k, memory in enumerate(memories)
    ]


def _filled_windows(method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng) -> Material:
    """Filled windows of the client, and public ones in which exclusive features do not count."""
    from cotempo.series.training import Material

    common, missing = len(method.common), np.isnan(owned.rows.values)
    filled = _filled(method, question, owned, memory)
    free = np.arange(missing.shape[1]) < common if method.preset == "paper" else True
    counts = Rows((~missing | free).astype(np.float64), owned.rows.lengths)
    if method.rough:
        filled = replace(filled, values=roughen(filled.values, missing, memory.errors, rng("roughness")))
    if not question.common["whole"]:
        filled, counts = (set_apart(method, part)[0] for part in (filled, counts))
    own, mask = windows_of(filled, method.window), windows_of(counts, method.window) > 0
    features = own.shape[2]
    shown = memory.shown.reshape(-1, method.window, features)
    mask = np.concatenate([mask, np.broadcast_to(np.arange(features) < common, shown.shape)])
    scaled = made_scale(method, owned, public_scale(question)).apply(np.concatenate([own, shown]))
    return Material(np.nan_to_num(scaled), mask, len(own), Ties.none(features), np.arange(features) < common)


def _filled(method: FedTDD, question: Question, owned: Owned, memory: ClientMemory) -> Rows:
    """The client's rows as last filled; filled now if that was lost on the way."""
    filled = memory.filled
    if not len(filled):
        memory = settle(method, memory, owned, question)
        filled = make_filler(method, teaching(question), memory).rows(owned.rows, method)
    return Rows(filled, owned.rows.lengths)


def share(method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng) -> tuple[Message, None]:
    """Generate windows (line 9) and send their common features (line 10), save those too near to real ones."""
    count = math.ceil(question.common["share"] * len(owned.rows.starts(method.window)))
    common = len(method.common)
    empty = np.zeros((0, method.window, common), method.precision)
    if count == 0:
        return Message({"windows": empty, "withheld": 0, "membership": 0.5}), None
    features = owned.rows.values.shape[1]
    public = public_scale(question)
    made = draw_windows(method, memory.backbone.average, features, count, rng)
    made = made_scale(method, owned, public).undo(made)
    parts = set_apart(method, _filled(method, question, owned, memory))
    real = (part.windows(method.window) for part in parts)
    drawn, trained, held = (public.apply(part[..., :common]).clip(-100, 100) for part in (made, *real))
    gate = release(drawn, trained, held)
    sent = drawn[gate.kept].astype(method.precision)
    return Message({"windows": sent, "withheld": gate.withheld, "membership": gate.membership}), None


def score(
    method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng
) -> tuple[Message, ClientMemory]:
    """Say how well hidden cells are filled, alone and together, and calibrate intervals on held-out rows."""
    memory, taught = settle(method, memory, owned, question), teaching(question)
    filler = make_filler(method, taught, memory)
    parts: list[tuple[Filler | GuidedFiller, Rows]]
    if isinstance(filler, GuidedFiller):
        rows = owned.held if len(owned.held.values) else owned.rows
        errors, parts = guided_errors(filler, rows, method, rng("owning")), [(filler, owned.held)]
    else:
        single, start = alone(method, memory), trusting(method, taught, memory, [UNSEEN])
        (trial, _, _), trials = _trials(method, single, owned, rng), _trials(method, start, owned, rng)
        errors = fair_error(single, trial), fair_error(start, *trials)
        gates = (choose_gates(start, *trials, half=half) for half in (1, 0))
        parts = [(replace(start, gates=part), rows) for part, rows in zip(gates, owned.held.halves(), strict=True)]
    calibration = calibrate(method, parts, rng("calibration"))
    return Message({"alone": errors[0], "together": errors[1]}), replace(memory, calibration=calibration)
