"""A client's part of FedTDD: lines 3 to 11 of Algorithm 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError, Problem
from cotempo.federation.exchange import Question
from cotempo.federation.message import Message
from cotempo.federation.rng import Rng
from cotempo.series.diffusion import windows_of
from cotempo.series.filling import Filler, make_teacher, open_gates
from cotempo.series.gates import Trial, choose_gates, fair_error, try_out
from cotempo.series.generation import draw_windows
from cotempo.series.guided import GuidedFiller, guided_errors
from cotempo.series.learned import Learned
from cotempo.series.release import release
from cotempo.series.scale import Scale
from cotempo.series.windows import Rows, need_window

if TYPE_CHECKING:
    from cotempo.series.fedtdd import FedTDD
    from cotempo.series.training import Material

Floats = NDArray[np.float64]
HELD = 0.2


@dataclass(frozen=True)
class Owned:
    """A client's series, common features first.

    Attributes
    ----------
    rows
        All rows, in the units of the data.
    trained, held
        Their first part, to train on, and the rest, on which gates are chosen and errors are measured.
    scale
        Measured on the client's own rows; the public one replaces it for the common features.
    """

    rows: Rows
    trained: Rows
    held: Rows
    scale: Scale
    exclusive: int


@dataclass(frozen=True)
class ClientMemory:
    """What a client keeps.

    Attributes
    ----------
    imputer, alone, backbone
        Its imputer over the distiller's filling, one without it to compare, and its diffusion model.
    gates
        How far filling is trusted, as `Filler.gates`.
    filled
        Its rows to train on with gaps filled, scaled, ``(rows, features)``; none before the first filling.
    shown
        Public windows with its exclusive features filled in, scaled, ``(windows * length, features)``.
    scale
        Of all its features.
    """

    imputer: Learned
    alone: Learned
    backbone: Learned
    gates: Floats
    filled: Floats
    shown: Floats
    scale: Scale


def prepare(method: FedTDD, table: Series) -> Owned:
    """Cut the pieces, and refuse what cannot be learned from."""
    absent = [name for name in method.common if name not in table.features]
    if absent:
        must = "every client must have this common feature; a column of missing values will do"
        raise DataError([Problem(must, column=name) for name in absent])
    if np.isnan(table.values).all():
        raise DataError("at least one cell must be measured, all are missing; leave this client out")
    names = inner_order(method, table.features)
    must = "an exclusive feature must be measured at least once, all its cells are missing; leave the column out"
    problems = [
        Problem(must, column=name)
        for column, name in enumerate(table.features)
        if name not in method.common and np.isnan(table.values[:, column]).all()
    ]
    if problems:
        raise DataError(problems)
    found = Rows.of(table)
    rows = Rows(found.values[:, [table.features.index(name) for name in names]], found.lengths)
    need_window(rows, method.window)
    trained, held = rows.split(HELD, method.window)
    return Owned(rows, trained, held, Scale.of(rows.values), len(names) - len(method.common))


def inner_order(method: FedTDD, features: Sequence[str]) -> list[str]:
    """A client's features, the common ones first."""
    return [*method.common, *(name for name in features if name not in method.common)]


def begin(method: FedTDD, owned: Owned, rng: Rng) -> ClientMemory:
    """Networks that have learned nothing."""
    features = owned.rows.values.shape[1]
    imputer = Learned.fresh(method.imputer().leaves(features), rng("imputer"), method.precision)
    backbone = Learned.fresh(method.backbone().leaves(features), rng("backbone"), method.precision)
    empty = np.zeros((0, features))
    return ClientMemory(imputer, imputer, backbone, open_gates(), empty, empty, owned.scale)


def join(method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng) -> tuple[Message, None]:
    """Say how many windows there are."""
    return Message({"windows": len(owned.rows.starts(method.window))}), None


def public_scale(question: Question) -> Scale:
    """The scale of the common features, as the coordinator told it."""
    told = question.common
    return Scale(told["low"], told["high"], told["centre"], told["spread"])


def full_scale(owned: Owned, public: Scale) -> Scale:
    """Common features in public units, so that the distiller's are the client's; the others in its own."""
    return owned.scale.replace(np.arange(len(public.low)), public)


def train_imputers(
    method: FedTDD, questions: Sequence[Question], owners: Sequence[Owned], memories: Sequence[ClientMemory],
    rngs: Sequence[Rng],
) -> list[tuple[Message, ClientMemory | None]]:  # fmt: skip
    """Train clients' imputers over the distiller's filling, and for comparison without it."""
    from cotempo.series.tasks import Filling
    from cotempo.series.training import train

    public = public_scale(questions[0])
    scales = [full_scale(owned, public) for owned in owners]
    materials = [_hidden_cells(method, *pair) for pair in zip(owners, scales, strict=True)]
    teacher = make_teacher(questions[0].common["distiller"], public, method)
    steps = questions[0].common["steps"]
    schedule = method.schedule(method.imputer_steps, method.imputer_rate)
    found = []
    for name, task in (("imputer", Filling(method.imputer(), teacher)), ("alone", Filling(method.imputer()))):
        found.append(train(task, [getattr(memory, name) for memory in memories], materials, steps, schedule, rngs))
    (taught, losses), (alone, _) = found
    return [
        (Message({"loss": float(losses[k])}), replace(memory, imputer=taught[k], alone=alone[k], scale=scales[k]))
        for k, memory in enumerate(memories)
    ]


def _hidden_cells(method: FedTDD, owned: Owned, scale: Scale) -> Material:
    from cotempo.series.training import Material

    scaled = Rows(scale.apply(owned.trained.values), owned.trained.lengths)
    windows = windows_of(scaled, method.reach)
    common = np.arange(windows.shape[2]) < len(method.common)
    return Material(np.nan_to_num(windows), ~np.isnan(windows), len(windows), scale.centre, scale.spread, common)


def fill(
    method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng
) -> tuple[Message, ClientMemory]:
    """Fill common features with the distiller (line 5) and exclusive ones with the own model (line 6)."""
    memory = replace(memory, scale=full_scale(owned, public_scale(question)))
    distiller = question.common["distiller"]
    if method.preset == "cotempo":
        memory = replace(memory, gates=choose_gates(*_trials(method, distiller, owned, memory, rng)))
    filler = make_filler(method, distiller, memory)
    shown = _with_exclusives(question.common["public"], owned.exclusive, memory.scale)
    memory = replace(
        memory, filled=_fill_scaled(filler, owned.trained, method), shown=_fill_scaled(filler, shown, method)
    )
    return Message({"missing": float(np.isnan(owned.rows.values).mean())}), memory


def _trials(
    method: FedTDD, distiller: NDArray[Any], owned: Owned, memory: ClientMemory, rng: Rng
) -> tuple[Trial, Trial]:
    """What the teacher is tried out on, and the own imputer: rows that neither was trained on."""
    filler = Filler(memory.scale, len(method.common), distiller, memory.imputer.average, memory.gates)
    if len(owned.held.values):
        return try_out(filler, owned.rows, method, rng("teaching")), try_out(filler, owned.held, method, rng("owning"))
    trial = try_out(replace(filler, own=None), owned.rows, method, rng("teaching"))
    return trial, trial


def _with_exclusives(public: Floats, exclusive: int, scale: Scale) -> Rows:
    """Public windows as rows in the units of the data, exclusive features missing."""
    count, length, _ = public.shape
    wide = np.concatenate([public, np.full((count, length, exclusive), np.nan)], axis=2)
    return Rows(scale.undo(wide.reshape(count * length, wide.shape[2])), (length,) * count)


def _fill_scaled(filler: Filler | GuidedFiller, rows: Rows, method: FedTDD) -> Floats:
    return filler.scale.apply(filler.rows(rows, method))


def make_filler(method: FedTDD, distiller: NDArray[Any], memory: ClientMemory) -> Filler | GuidedFiller:
    """What fills a client's gaps."""
    common = len(method.common)
    if method.preset == "paper":
        own = memory.backbone.average if memory.backbone.steps else None
        return GuidedFiller(memory.scale, common, distiller, own, method.guidance)
    return Filler(memory.scale, common, distiller, memory.imputer.average, memory.gates)


def train_backbones(
    method: FedTDD, questions: Sequence[Question], owners: Sequence[Owned], memories: Sequence[ClientMemory],
    rngs: Sequence[Rng],
) -> list[tuple[Message, ClientMemory | None]]:  # fmt: skip
    """Train clients' diffusion models (line 8): the loss counts all common and the measured exclusive cells."""
    from cotempo.series.noise import Noise
    from cotempo.series.tasks import Denoising
    from cotempo.series.training import train

    task = Denoising(method.backbone(), Noise(method.diffusion_steps))
    materials = [_filled_windows(method, *given) for given in zip(questions, owners, memories, strict=True)]
    total = method.first_steps + (method.rounds - 1) * method.later_steps
    learned, losses = train(
        task, [memory.backbone for memory in memories], materials, questions[0].common["steps"],
        method.schedule(total), rngs,
    )  # fmt: skip
    return [
        (Message({"loss": float(losses[k])}), replace(memory, backbone=learned[k])) for k, memory in enumerate(memories)
    ]


def _filled_windows(method: FedTDD, question: Question, owned: Owned, memory: ClientMemory) -> Material:
    """Filled windows of the client, and public ones in which exclusive features do not count."""
    from cotempo.series.training import Material

    common, length = len(method.common), method.window
    own, mask = _own_windows(method, question, owned, memory)
    shown = memory.shown.reshape(-1, length, own.shape[2])
    counts = np.broadcast_to(np.arange(own.shape[2]) < common, shown.shape)
    scale = full_scale(owned, public_scale(question))
    return Material(
        np.concatenate([own, shown]), np.concatenate([mask, counts]), len(own), scale.centre, scale.spread,
        np.arange(own.shape[2]) < common,
    )  # fmt: skip


def _own_windows(
    method: FedTDD, question: Question, owned: Owned, memory: ClientMemory
) -> tuple[Floats, NDArray[np.bool_]]:
    """The client's windows to train on, filled and scaled, and which of their cells count."""
    filled = memory.filled
    if not len(filled):  # the round's filling was lost on the way, so it never happened
        memory = replace(memory, scale=full_scale(owned, public_scale(question)))
        filled = _fill_scaled(make_filler(method, question.common["distiller"], memory), owned.trained, method)
    seen = ~np.isnan(owned.trained.values)
    seen[:, : len(method.common)] = True
    lengths = owned.trained.lengths
    mask = Rows(seen.astype(np.float64), lengths).windows(method.window) > 0
    return Rows(filled, lengths).windows(method.window), mask


def share(method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng) -> tuple[Message, None]:
    """Generate windows (line 9) and send their common features (line 10), save those too near to real ones."""
    count = math.ceil(question.common["share"] * len(owned.rows.starts(method.window)))
    common = len(method.common)
    empty = np.zeros((0, method.window, common), method.precision)
    if count == 0:
        return Message({"windows": empty, "withheld": 0, "membership": 0.5}), None
    features = owned.rows.values.shape[1]
    drawn = draw_windows(method, memory.backbone.average, features, count, rng)[..., :common].clip(-100, 100)
    trained, _ = _own_windows(method, question, owned, memory)
    memory = replace(memory, scale=full_scale(owned, public_scale(question)))
    filler = make_filler(method, question.common["distiller"], memory)
    held = Rows(_fill_scaled(filler, owned.held, method), owned.held.lengths).windows(method.window)
    gate = release(drawn, trained[..., :common], held[..., :common])
    sent = drawn[gate.kept].astype(method.precision)
    return Message({"windows": sent, "withheld": gate.withheld, "membership": gate.membership}), None


def score(method: FedTDD, question: Question, owned: Owned, memory: ClientMemory, rng: Rng) -> tuple[Message, None]:
    """Say how well hidden cells are filled, alone and together."""
    memory = replace(memory, scale=full_scale(owned, public_scale(question)))
    distiller = question.common["distiller"]
    rows = owned.held if len(owned.held.values) else owned.rows
    filler = make_filler(method, distiller, memory)
    if isinstance(filler, GuidedFiller):
        alone, together = guided_errors(filler, rows, method, rng("owning"))
    else:
        single = replace(filler, teacher=None, own=memory.alone.average if rows is owned.held else None)
        trial = try_out(single, rows, method, rng("owning" if rows is owned.held else "teaching"))
        alone, together = fair_error(trial, trial), fair_error(*_trials(method, distiller, owned, memory, rng))
    return Message({"alone": alone, "together": together}), None
