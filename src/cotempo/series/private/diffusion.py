"""SeriesDiffusion with differential privacy: everything the model holds may be given away.

    moments    noised histograms and moments of steps, as FedMoments sends them, with `MOMENTS` of epsilon: their
               process fills gaps and says how far values reach; the network first learns from windows drawn from it
    training   DP-SGD on the owner's windows, with the rest

Neighbours are tables of which one has no values in one row, or in one sequence; when rows were taken is known. With the
unit "row" windows do not overlap, each is filled from its own rows alone, and one with a row that has no value is left
out: without a row a window is gone, and nothing else changes. With the unit "sequence" each sequence drawn gives one of
its windows; there are no moments then, and gaps are interpolated. Nothing is held out: no season, no imputer and no
calibration looks at the rows.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cotempo.data import Series
from cotempo.errors import ParameterError
from cotempo.federation import Answers, Message, Question, Rng, Roster
from cotempo.privacy.accounting import gaussian_multiplier, sampled_multiplier
from cotempo.privacy.discrete_gaussian import system_uniforms
from cotempo.privacy.histograms import limits
from cotempo.privacy.noise import Noise
from cotempo.privacy.settings import Privacy
from cotempo.series.fedmoments import FedMoments, MomentsMemory, NamedRows
from cotempo.series.filling.calibration import Calibration
from cotempo.series.filling.gaps import interpolate_rows
from cotempo.series.filling.stages import Filler
from cotempo.series.fitted import SeriesModel
from cotempo.series.moments.moments import Units
from cotempo.series.moments.private import PrivateMoments
from cotempo.series.nn.parameters import NetworkState
from cotempo.series.seriesmoments import MomentsModel, MomentsStage
from cotempo.series.windows import PLACES, Cover, Scale, SeriesRows, Timing
from cotempo.typing import Floats

if TYPE_CHECKING:
    from cotempo.series.diffusion import SeriesDiffusion

#: Share of epsilon for moments, and how many windows are drawn from their process to begin with.
MOMENTS, DRAWN = 0.3, 4096
#: Norm of a unit's gradient; how often a unit is learned from; and the rate beside that of training without noise.
CLIP, PASSES, SLOWER = 0.1, 40, 0.25
UNITS = ("row", "sequence")

Say = Callable[[float, float, str], None]


@dataclass(frozen=True)
class PrivateStart:
    """What training with noise starts from.

    `windows` are the owner's, scaled, ``(windows, length, features)`` and NaN beyond a piece, with the units one after
    the other, which have `counts` of them; `beside` is the noise multiplier of what was told of the rows before.
    """

    scale: Scale
    filler: Filler
    network: NetworkState
    windows: Floats
    counts: NDArray[np.intp]
    beside: float = math.inf


def fit_privately(settings: SeriesDiffusion, table: Series, privacy: Privacy, rng: Rng, say: Say) -> SeriesModel:
    """Learn from a series with noise; the model tells about it no more than its `privacy` says."""
    from cotempo.series.nn.private_training import GradientNoise, UnitWindows, train_privately
    from cotempo.series.nn.training import TrainingWindows

    if privacy.unit not in UNITS:
        raise ParameterError(f"unit must be 'row' or 'sequence' for SeriesDiffusion, got {privacy.unit!r}")
    if privacy.secure_sum:
        raise ParameterError("secure_sum must be left out with SeriesDiffusion: one owner has nothing to sum")
    assert privacy.epsilon is not None  # `SeriesDiffusion.fit` comes here only then
    begin = start_from_moments if privacy.unit == "row" else start_from_ranges
    start = begin(settings, table, privacy, rng, say)
    units, batch = len(start.counts), min(settings.batch, len(start.counts))
    rate, steps = batch / units, min(settings.steps, math.ceil(PASSES * units / batch))
    multiplier = sampled_multiplier(privacy.epsilon, privacy.delta, rate=rate, steps=steps, beside=start.beside)
    uniforms = rng("privacy").random if privacy.seeded else system_uniforms
    drawn = _secret(privacy, rng).torch("noise", settings.device)
    noise = GradientNoise(multiplier, rate, privacy.clip or CLIP, uniforms, drawn)
    network = train_privately(
        settings.denoising(), start.network, TrainingWindows.plain(start.windows), UnitWindows(start.counts), steps,
        settings.schedule(steps, SLOWER * settings.rate), noise,
        lambda done: say(done, steps, "training with noise"),
    )  # fmt: skip
    promise = {
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "unit": privacy.unit,
        "mechanism": f"discrete Gaussian noise on sums of clipped gradients: DP-SGD, {steps} steps, each on one "
        f"{privacy.unit} in {1 / rate:.3g} with noise of {multiplier:.3g} times the norm of a gradient"
        + ("" if math.isinf(start.beside) else f"; and on moments, with {MOMENTS:.0%} of epsilon"),
        "protects_from": "everyone who sees the model or what it draws",
        "void": privacy.seeded,
    }
    count = len(table.features)
    known = (table.features, np.arange(count), settings.window, Calibration.none(count), Timing.of(table))
    return SeriesModel(*known, settings, start.filler, network.average, start.scale, promise)


def start_from_moments(settings: SeriesDiffusion, table: Series, privacy: Privacy, rng: Rng, say: Say) -> PrivateStart:
    """Learn noised moments, train a network on windows drawn from their process, and cut windows apart."""
    from cotempo.series.nn.training import TrainingWindows, train_one

    assert privacy.epsilon is not None
    part = privacy.model_copy(update={"epsilon": MOMENTS * privacy.epsilon, "clip": None})
    model = learn_moments(table, part, settings.window, rng)
    drawn = model.sample(DRAWN).values
    scale = Scale.of(drawn)
    task, dataset = settings.denoising(), TrainingWindows.plain(scale.apply(drawn).reshape(DRAWN, settings.window, -1))
    fresh = NetworkState.fresh(task.specs(dataset.features), rng("backbone"), settings.precision)
    steps, phase = settings.steps, "learning from drawn windows"
    tick = lambda done: say(done, steps, phase)  # noqa: E731
    trained, _ = train_one(task, fresh, dataset, steps, settings.schedule(steps), rng, tick)
    zeros = np.zeros_like(trained.average)
    inner = Units(scale.apply(model.units.centre), 2 * model.units.step / (scale.high - scale.low))
    filler = Filler.closed(scale, (MomentsStage(inner, model.process),), trusted="moments")
    windows, counts = cut_apart(SeriesRows.of(table), settings.window, model, _secret(privacy, rng)("gaps"))
    return PrivateStart(
        scale, filler, NetworkState(trained.average, trained.average, zeros, zeros), scale.apply(windows), counts,
        gaussian_multiplier(MOMENTS * privacy.epsilon, privacy.delta),
    )  # fmt: skip


def start_from_ranges(settings: SeriesDiffusion, table: Series, privacy: Privacy, rng: Rng, say: Say) -> PrivateStart:
    """Scale by the agreed ranges, and take all windows of every sequence."""
    rows, length = SeriesRows.of(table), settings.window
    scale = Scale.of(limits(privacy.ranges, table.features).T)
    scaled = scale.rows(rows)
    cover = Cover(rows, length, 1, max(1, length // PLACES))
    windows = cover.windows(interpolate_rows(scaled, scale.centre))
    lengths = [len(time) for _, time, _ in table.sequences()]
    owner = np.repeat(np.arange(len(lengths)), lengths)[cover.index[:, 0]]  # the sequence of each window
    there = np.logical_or.reduceat(~np.isnan(rows.values).all(axis=1), np.cumsum([0, *lengths[:-1]]))
    kept = there[owner]
    network = NetworkState.fresh(settings.backbone().specs(len(table.features)), rng("backbone"), settings.precision)
    counts = np.bincount(owner[kept], minlength=len(lengths))
    return PrivateStart(scale, Filler.closed(scale), network, windows[kept], counts)


def learn_moments(table: Series, privacy: Privacy, window: int, rng: Rng) -> MomentsModel:
    """Return the process of noised moments, as a federation of one owner learns it."""
    form = PrivateMoments.of(FedMoments(minimum_rows=1), privacy)
    noise, prepared = Noise(form), NamedRows(SeriesRows.of(table), table.features)
    state, memory = form.open(Roster({"owner": table.schema}), None, rng), MomentsMemory(Calibration.none(0))
    while state.phase in form.budget:
        asked = form.ask(state, ("owner",), rng)
        assert asked is not None
        question = Question("", 1, 1, asked.phase, "owner", 0, 0, asked.common, Message())
        message, _ = form.answer(question, prepared, memory, rng)
        noised = noise.protect(message, question, rng)
        state, _ = form.absorb(state, Answers(("owner",), noised), None, rng)
    return form.generator(state, window, Timing.of(table))


def cut_apart(
    rows: SeriesRows, length: int, model: MomentsModel, stream: np.random.Generator
) -> tuple[Floats, NDArray[np.intp]]:
    """Return windows that share no row, gaps drawn from their own rows alone, and which places have one, 1 or 0.

    A window with a row without values is left out. Of a piece that is shorter there is one window, NaN beyond it; the
    rows that a longer one has over are not used.
    """
    starts = [k for first, end in rows.bounds for k in range(first, max(end - length, first) + 1, length)]
    ends = np.repeat([end for _, end in rows.bounds], [max((end - first) // length, 1) for first, end in rows.bounds])
    index = np.array(starts)[:, None] + np.arange(length)
    inside = index < ends[:, None]
    values = np.where(inside[..., None], rows.values[np.minimum(index, len(rows.values) - 1)], np.nan)
    whole = (~np.isnan(values).all(axis=2) | ~inside).all(axis=1)
    found, inside = values[whole], inside[whole]
    pieces = SeriesRows(model.units.apply(found).reshape(-1, found.shape[2]), (length,) * len(found))
    drawn = model.units.undo(model.process.draw(pieces, 1, stream)[0]).reshape(found.shape)
    return np.where(inside[..., None], np.where(np.isnan(found), drawn, found), np.nan), np.asarray(
        whole, dtype=np.intp
    )


def _secret(privacy: Privacy, rng: Rng) -> Rng:
    """Return streams that nobody knows: what is drawn for one unit must not tell whether another one is there."""
    return Rng(*rng.key, "seeded") if privacy.seeded else Rng(secrets.token_hex(16))
