"""What a client of FedTDD has: its series, cut and scaled, and what it keeps between rounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import DataError, Problem
from cotempo.federation import Message, Question, Rng
from cotempo.series.filling.calibration import Calibration
from cotempo.series.moments.model_choice import PRIORS
from cotempo.series.filling.stages import Filler, Networks, Taught, Tied
from cotempo.series.filling.gaps import KINDS
from cotempo.series.moments.gaussian import Gaussian
from cotempo.series.filling.guided import GuidedFiller
from cotempo.series.nn.state import Learned
from cotempo.series.moments.moments import Moments, Units
from cotempo.series.nn.parameters import widen
from cotempo.series.scale import Scale
from cotempo.series.filling.factor_models import Ties
from cotempo.series.moments.windowed import Windowed, learn, usual_window
from cotempo.series.windows import Rows, need_many, need_rows

if TYPE_CHECKING:
    from cotempo.series.fedtdd import FedTDD

Floats = NDArray[np.float64]
HELD, EVERY = 0.2, 3


@dataclass(frozen=True)
class Owned:
    """A client's series, common features first.

    Attributes
    ----------
    rows
        All rows, in the units of the data.
    trained, held
        What imputers are trained on, and the rest, on which gates are chosen, as `Rows.split` has it.
    scale
        Measured on the client's own rows; the public one replaces it for the common features.
    features
        Their names.
    """

    rows: Rows
    trained: Rows
    held: Rows
    scale: Scale
    exclusive: int
    features: tuple[str, ...]


@dataclass(frozen=True)
class ClientMemory:
    """What a client keeps.

    Attributes
    ----------
    taught
        What the coordinator taught it last, if anything yet; `scale`, `made` and `ties` follow from that.
    imputer, alone, backbone
        Its imputer over the distiller's filling, one without it to compare, and its diffusion model.
    gates
        How far filling is trusted, as `Filler.gates`; empty before that is known.
    filled
        Its rows with gaps filled, ``(rows, features)``; none before the first filling.
    errors
        How filling errs, ``(hidden rows, features)``, as `find_errors` has it.
    scale, made
        Of all its features, for filling and for its diffusion model.
    ties
        Of all its features.
    calibration
        How wide intervals around fillings are.
    moments
        The process that the window moments of all clients tell, in the units of `scale`; none as published.
    """

    taught: Taught | None
    imputer: Learned
    alone: Learned
    backbone: Learned
    gates: Floats
    filled: Floats
    errors: Floats
    scale: Scale
    made: Scale
    ties: Ties
    calibration: Calibration
    moments: Windowed | None = None


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
    need_rows(rows)
    trained, held = rows.split(HELD, method.window)
    if method.has_moments:
        need_many(trained, method.minimum_rows)
    return Owned(rows, trained, held, Scale.of(rows.values), len(names) - len(method.common), tuple(names))


def set_apart(method: FedTDD, rows: Rows) -> tuple[Rows, Rows]:
    """What diffusion models learn from while their windows are released, and the rest: the end of every third piece."""
    return rows.split(HELD, method.window, EVERY)


def inner_order(method: FedTDD, features: Sequence[str]) -> list[str]:
    """A client's features, the common ones first."""
    return [*method.common, *(name for name in features if name not in method.common)]


def begin(method: FedTDD, owned: Owned, rng: Rng) -> ClientMemory:
    """Networks that have learned nothing."""
    features = owned.rows.values.shape[1]
    imputer = Learned.fresh(method.imputer().leaves(features), rng("imputer"), method.precision)
    backbone = Learned.fresh(method.backbone().leaves(features), rng("backbone"), method.precision)
    empty, closed = np.zeros((0, features)), np.zeros((0, KINDS, 0))
    ties, scale = Ties.none(features), owned.scale
    calibration = Calibration.none(features)
    return ClientMemory(None, imputer, imputer, backbone, closed, empty, empty, scale, scale, ties, calibration)


def started(method: FedTDD, owned: Owned, network: Learned, start: NDArray[Any] | None) -> Learned:
    """A diffusion model that has learned nothing yet, with the coordinator's weights where those know the features."""
    if start is None or network.steps:
        return network
    own, common = (method.backbone().leaves(count) for count in (owned.rows.values.shape[1], len(method.common)))
    known = widen(np.ones_like(start), common, own) > 0
    weights = np.where(known, widen(start, common, own), network.weights).astype(method.precision)
    return replace(network, weights=weights, average=weights)


def full_scale(owned: Owned, public: Scale) -> Scale:
    """Common features in public units, so that the distiller's are the client's; the others in its own."""
    return owned.scale.replace(np.arange(len(public.low)), public)


def made_scale(method: FedTDD, owned: Owned, public: Scale) -> Scale:
    """The scale in which the client's diffusion model lives: its own, or as published the distiller's."""
    unseen = np.isnan(owned.rows.values[:, : len(public.low)]).all(axis=0)
    columns = np.flatnonzero(unseen | (method.preset == "paper"))
    return owned.scale.replace(columns, public.take(columns))


def settle(method: FedTDD, memory: ClientMemory, owned: Owned, question: Question) -> ClientMemory:
    """A memory with what the coordinator taught, if that is new, and what follows from it."""
    told = question.own
    if "distiller" not in told:
        return memory
    scale = Scale(told["low"], told["high"], told["centre"], told["spread"])
    ties = Ties(told["centre"], told["left"], told["levels"], told["moves"])
    whole = full_scale(owned, scale)
    moments = _process(told, owned.features, whole) if "products" in told else None
    return replace(
        memory,
        taught=Taught(told["distiller"], scale, ties, told.get("tokens")),
        backbone=started(method, owned, memory.backbone, told.get("start")),
        scale=whole,
        made=made_scale(method, owned, scale),
        ties=own_ties(owned, whole),
        moments=moments,
    )


def _process(told: Message, features: Sequence[str], scale: Scale) -> Windowed:
    """The process of a client's features, in the units of a scale."""
    names = json.loads(told["features"])
    own = np.array([names.index(name) for name in features], dtype=np.intp)
    units = Units(told["middle"], told["step"]).take(own)
    inner = Units(scale.apply(units.centre), 2 * units.step / (scale.high - scale.low))
    return Windowed(
        inner, Gaussian.of(Moments.unpack(told["products"], told["counts"]).take(own), PRIORS[told["prior"]])
    )


def teacher_of(memory: ClientMemory) -> Taught:
    """What the coordinator taught; every client is told that with its first question."""
    assert memory.taught is not None
    return memory.taught


def own_ties(owned: Owned, scale: Scale) -> Ties:
    """Ties of all features, from the rows to train on; none where no rows are left to prove them on."""
    if not len(owned.held.values):
        return Ties.none(len(scale.low))
    return Ties.of(Rows(scale.apply(owned.trained.values), owned.trained.lengths), scale)


def make_filler(method: FedTDD, memory: ClientMemory, rng: Rng) -> Filler | GuidedFiller:
    """What fills a client's gaps."""
    if method.preset == "paper":
        own = memory.backbone.average if memory.backbone.steps else None
        distiller = teacher_of(memory).weights
        return GuidedFiller(memory.scale, len(method.common), distiller, own, method.guidance, rng)
    filler = trusting(method, memory)
    return replace(filler, gates=memory.gates) if len(memory.gates) else filler


def trusting(method: FedTDD, memory: ClientMemory, kinds: Sequence[int] = range(KINDS)) -> Filler:
    """Ties, the teacher's imputers and the client's own: the first of the teacher's trusted in some kinds of gaps."""
    own = memory.imputer.average if memory.imputer.steps else None
    moments = () if memory.moments is None else (memory.moments,)
    stages = (Tied(memory.ties), *moments, Networks(memory.ties, teacher_of(memory), own))
    filler = Filler.closed(memory.scale, stages, len(method.common))
    for kind in kinds:
        filler.gates[: filler.common, kind, filler.names.index("teacher")] = 1.0
    return filler


def alone(method: FedTDD, owned: Owned, memory: ClientMemory) -> Filler:
    """What the client fills with by itself."""
    own = memory.alone.average if memory.alone.steps else None
    scaled = Rows(memory.scale.apply(owned.trained.values), owned.trained.lengths)
    moments, _, _ = learn(scaled, usual_window(len(owned.features), 4 * method.window))
    stages = (Tied(memory.ties), moments, Networks(memory.ties, None, own))
    return Filler.closed(memory.scale, stages, len(method.common))
