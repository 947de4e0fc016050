"""`PrivateMoments`: FedMoments from moments of steps that are noised once, so that single time points are hidden.

    ranges    clients send histograms of their features and of the sizes of their steps; only noised totals are used
    moments   clients clip every row of steps and send sums of products at a few lags; only noised totals are used
    keep      clients send nothing; each calibrates its intervals on its own rows, and keeps them

A time point x is in two steps. Steps y of a row, clipped to the norm C, are in ``S = sum y_t y_t'`` once and in each
``M_l = sum y_t y_{t-l}'`` twice: without the two S changes by at most ``2 C^2`` and M_l by at most ``4 C^2``, together
by ``2 sqrt(1 + 4 lags) C^2``. A missing cell counts as no step. Levels are not taken to pull.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.stats import norm

from cotempo.data import Series, Table
from cotempo.federation import Answers, Ask, Expect, Fitted, Message, Metrics, Outcome, Question, Rng, Roster, Spec
from cotempo.privacy.histograms import BINS, bounded, histograms, limits, locate, quantiles_of
from cotempo.privacy.private_form import PrivateForm, per_column, without_values
from cotempo.series.fedmoments import MomentsMemory, MomentsState, NamedRows
from cotempo.series.filling.calibration import Calibration
from cotempo.series.filling.factor_models import nearest_correlation
from cotempo.series.moments.gaussian import Gaussian
from cotempo.series.moments.latent import DEVIATIONS
from cotempo.series.moments.marginals import Marginals
from cotempo.series.moments.model_choice import PRIORS, USUAL
from cotempo.series.moments.moments import Units, WindowMoments
from cotempo.series.seriesmoments import MomentsModel
from cotempo.series.windows import SeriesRows, Timing
from cotempo.typing import Floats

#: Rows of a window unless FedMoments says otherwise: noise grows with every lag.
WINDOW = 8
#: Shares of the budget for the histograms, and of the moments' part for counts.
RANGES, COUNTS = 0.1, 0.05
#: Squared norm a row of steps is clipped to, per feature; its mean is about 1.
CLIP = 1.5
#: Steps smaller than this share of a feature's range are taken for none.
SMALLEST = 1e-6
#: Standard deviations at which 84.1 % of Gaussian steps are smaller: where `locate` looks.
QUANTILE = 1.41
#: Between these, the least eigenvalue of noised correlations.
FLOORS = (1e-3, 0.5)
#: Windows that moments of noise alone are worth.
LEAST_ROWS = 2.0


@dataclass(frozen=True)
class PrivateMomentsState:
    """State of the server: centre, spread and usual step of each feature, then moments of windows, in `rows` windows.

    `rows` says how many windows without noise would tell as much, and `quantiles` how the values of each feature are
    distributed, ``(features, quantiles)``.
    """

    features: tuple[str, ...]
    phase: str
    low: Floats
    high: Floats
    centre: Floats = field(default_factory=lambda: np.zeros(0))
    spread: Floats = field(default_factory=lambda: np.zeros(0))
    step: Floats = field(default_factory=lambda: np.zeros(0))
    products: Floats = field(default_factory=lambda: np.zeros(0))
    rows: float = 0.0
    quantiles: Floats = field(default_factory=lambda: np.zeros((0, 0)))


class PrivateMoments(PrivateForm):
    """The private form of FedMoments."""

    phases: ClassVar[tuple[str, ...]] = ("ranges", "moments", "keep")
    State: ClassVar[type] = PrivateMomentsState

    # The promise.

    @property
    def budget(self) -> Mapping[str, tuple[float, int]]:
        """A tenth for the histograms, the rest for the moments."""
        return {"ranges": (RANGES, 1), "moments": (1 - RANGES, 1)}

    def scales(self, phase: str, message: Message) -> Mapping[str, float]:
        """Return scales for one time point more or less."""
        if phase == "ranges":
            return {"histograms": math.sqrt(5 * message["histograms"].shape[1])}  # one value and two steps a feature
        lags, features = message["products"].shape[:2]
        products = 2 * math.sqrt(1 + 4 * lags) * self.clip(features) ** 2 / math.sqrt(1 - COUNTS)
        return {"counts": 2 * features / math.sqrt(COUNTS), "squares": products, "products": products}

    def clip(self, features: int) -> float:
        """Return the largest norm of a row of steps, in units of usual ones."""
        return self.privacy.clip or math.sqrt(CLIP * features)

    @property
    def window(self) -> int:
        """Rows of a window."""
        return int(self.inner.window or WINDOW)

    # At a client.

    def prepare(self, table: Table) -> NamedRows:
        """Cut the pieces; refuse few rows, whether or not they were measured, which a refusal would tell."""
        assert isinstance(table, Series)  # `check` saw the schema
        self.inner.prepare(without_values(table))
        return NamedRows(SeriesRows.of(table), table.features)

    def begin(self, prepared: NamedRows, rng: Rng) -> MomentsMemory:
        """Start without intervals."""
        found: MomentsMemory = self.inner.begin(prepared, rng)
        return found

    def answer(
        self, question: Question, prepared: NamedRows, memory: MomentsMemory, rng: Rng
    ) -> tuple[Message, MomentsMemory | None]:
        """Send histograms or moments, to which `Noise` adds noise; at the end calibrate."""
        common = question.common
        if question.phase == "keep":
            return Message(), self.inner.answer(replace(question, phase="compare"), prepared, memory, rng)[1]
        names = json.loads(common["features"])
        values, steps = _steps(prepared, names)
        if question.phase == "ranges":
            low, high = per_column(common, len(names), "low", "high")
            sizes = np.log(np.where(steps == 0, np.nan, np.abs(steps)))
            top = np.log(high - low)
            found = [histograms(values, low, high), histograms(sizes, top + math.log(SMALLEST), top)]
            return Message({"histograms": np.stack(found)}), None
        lengths, (step,) = prepared.rows.lengths, per_column(common, len(names), "step")
        with np.errstate(all="ignore"):
            steps = bounded(steps / step)
        return Message(sum_steps(steps, lengths, self.window - 2, self.clip(steps.shape[1]))), None

    # At the server.

    def open(self, roster: Roster, public: Table | None, rng: Rng) -> PrivateMomentsState:
        """Take the agreed limits of the features that any client has."""
        names = self.inner.open(roster, public, rng).features
        low, high = limits(self.privacy.ranges, names).T
        return PrivateMomentsState(names, "ranges", low, high)

    def ask(self, state: PrivateMomentsState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Ask for histograms, then for moments; then tell them."""
        if state.phase == "finished":
            return None
        if state.phase == "keep":
            asked: Ask = self.inner.ask(replace(self.learned(state), phase="compare", sweep=1), cohort, rng)
            return replace(asked, phase="keep")
        told: dict[str, Any] = {"low": state.low, "high": state.high} if not state.step.size else {"step": state.step}
        return Ask(state.phase, cohort, Message({"features": json.dumps(state.features), **told}), ends_round=False)

    def absorb(
        self, state: PrivateMomentsState, answers: Answers, public: Table | None, rng: Rng
    ) -> tuple[PrivateMomentsState, Metrics]:
        """Locate features and their steps, then keep the moments."""
        if state.phase == "keep":
            return replace(state, phase="finished"), {}
        asked = len(answers.names) + len(answers.failures)
        if state.phase == "ranges":
            levels, sizes = answers.sum["histograms"]
            scale = self.scales("ranges", answers.sum)["histograms"]
            deviation = self.total_deviation("ranges", scale, len(answers.names), asked)
            centre, spread = locate(levels, state.low, state.high)
            top = np.log(state.high - state.low)
            middle, half = locate(sizes, top + math.log(SMALLEST), top)
            quantiles = quantiles_of(levels, state.low, state.high, norm.cdf(DEVIATIONS), deviation)
            found = replace(state, phase="moments", centre=centre, spread=spread, quantiles=quantiles)
            return replace(found, step=np.exp(middle + half) / QUANTILE), {}
        scale = self.scales("moments", answers.sum)["products"]
        deviation = self.total_deviation("moments", scale, len(answers.names), asked)
        steps, rows = covariances(answers.sum, deviation)
        features = len(state.features)
        step = np.sqrt(steps.diagonal()[:features])
        related = steps / np.outer(np.sqrt(steps.diagonal()), np.sqrt(steps.diagonal()))
        products = as_windows(related, (state.spread / (state.step * step)) ** 2)
        found = replace(state, phase="keep", step=state.step * step, products=products, rows=rows)
        return found, {"rows": rows}

    def expects(self, state: PrivateMomentsState, phase: str) -> Expect:
        """Expect noised sums, then nothing."""
        count, noised = len(state.features), ", with noise"
        fields = {}
        if phase == "ranges":
            about = "how many of your values, and of the sizes of their steps, lie in each of 64 intervals, per feature"
            fields = {"histograms": Spec((2, count, BINS), description=about + noised)}
        elif phase == "moments":
            pairs, lags = count * (count + 1) // 2, self.window - 2
            fields = {
                "counts": Spec((pairs,), description="how often two of your features moved" + noised),
                "squares": Spec((pairs,), description="sums of products of your steps, clipped" + noised),
                "products": Spec((lags, count, count), description="the same with those some steps before" + noised),
            }
        return Expect(fields, sums=True, weight=(1, 1))

    def learned(self, state: PrivateMomentsState) -> MomentsState:
        """Return the state of FedMoments, with the usual prior: no row is left to choose one by."""
        count = len(state.features)
        moments = WindowMoments(state.rows * state.products, np.full((count, count), state.rows))
        none = np.zeros((2, count, count))
        return MomentsState(
            state.features, "finished", Units(state.centre, state.step), none, none, prior=USUAL,
            products=np.stack([moments.pack()] * 2), counts=np.stack([moments.counts] * 2),
        )  # fmt: skip

    def generator(self, state: PrivateMomentsState, window: int, timing: Timing) -> MomentsModel:
        """Return a process of windows with the noised distributions of values; levels are related as steps are."""
        learned, count = self.learned(state), len(state.features)
        # Where noise drowned the histogram, all quantiles may be one.
        deviation = np.maximum(state.quantiles.std(axis=1), (state.high - state.low) / BINS / 4) / state.step
        products = state.products.copy()
        products[1, :, 1] = products[0, :, 0] * np.outer(deviation, deviation)
        lags = Marginals.of_moments(WindowMoments(products, np.ones((count, count)))).lags
        size = np.sqrt(lags[0].diagonal())
        marginals = Marginals(state.quantiles, lags / np.outer(size, size))
        process, own = Gaussian.of(learned.moments, PRIORS[learned.prior]), Calibration.none(count)
        return MomentsModel(state.features, np.arange(count), window, own, timing, learned.units, process, marginals)

    def result(self, outcome: Outcome) -> Fitted:
        """Return FedMoments's result, learned from the noised moments."""
        fitted: Fitted = self.inner.result(replace(outcome, method=self.inner, state=self.learned(outcome.state)))
        return fitted


def _steps(prepared: NamedRows, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the client's rows among all features, and their steps, NaN where there is none.

    All its features must be named: if only those with a value had to be, an error would tell which these are.
    """
    rows, own = prepared.rows, [names.index(name) for name in prepared.features]
    values = np.full((len(rows.values), len(names)), np.nan)
    values[:, own] = rows.values
    steps = np.diff(values, axis=0, prepend=np.nan)
    steps[[first for first, end in rows.bounds if end > first]] = np.nan
    return values, steps


def sum_steps(steps: Floats, lengths: Sequence[int], lags: int, norm: float) -> dict[str, Floats]:
    """Return counts, squares and lagged products of steps, each row clipped; pieces have these lengths.

    Of symmetric matrices the upper triangle is returned, what is off the diagonal times ``sqrt(2)``.
    """
    known = ~np.isnan(steps)
    clipped = np.where(known, steps, 0.0)
    clipped *= np.minimum(1.0, norm / np.maximum(np.linalg.norm(clipped, axis=1, keepdims=True), 1e-300))
    count = steps.shape[1]
    products = np.zeros((lags, count, count))
    for piece in np.split(clipped, np.cumsum(lengths)[:-1]):
        for lag in range(1, min(lags, len(piece) - 1) + 1):
            products[lag - 1] += piece[lag:].T @ piece[:-lag]
    upper, seen = np.triu_indices(count), known.astype(np.float64)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    counts, squares = (weight * (part.T @ part)[upper] for part in (seen, clipped))
    return {"counts": counts, "squares": squares, "products": products}


def covariances(sums: Message, deviation: float) -> tuple[Floats, float]:
    """Return the covariance of steps and those before, ``(features * (lags + 1),) * 2``, and the rows it is worth.

    `deviation` is that of the noise of a product. Correlations are shrunk by the share of their squares that noise
    explains, as James and Stein do: of noise alone random walks are left, which fill by interpolation.
    """
    lags, count = sums["products"].shape[:2]
    upper = np.triu_indices(count)
    weight = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    pairs, square = np.zeros((count, count)), np.zeros((count, count))
    pairs[upper], square[upper] = np.maximum(sums["counts"] / weight, 1.0), sums["squares"] / weight
    pairs, square = np.maximum(pairs, pairs.T), square + np.triu(square, 1).T
    lagged = [square / pairs, *(sums["products"] / pairs)]
    blocks = [[lagged[j - i] if j >= i else lagged[i - j].T for j in range(lags + 1)] for i in range(lags + 1)]
    joint = np.block(blocks)
    # Noise may leave a feature without variance.
    variance = np.maximum(joint.diagonal(), np.tile(deviation / pairs.diagonal(), lags + 1) + 1e-12)
    spread, rows = np.sqrt(variance), float(pairs.diagonal().mean())
    size = np.outer(spread, spread)
    noises = deviation / (np.tile(pairs, (lags + 1, lags + 1)) * size)  # of each correlation
    noise = math.sqrt(float((noises**2).mean()))
    floor = float(np.clip(2 * noise * math.sqrt(len(joint)), *FLOORS))
    related = np.clip(joint / size, -1.0, 1.0)
    np.fill_diagonal(related, 0.0)
    explained = float((noises**2).sum()) / max(float((related**2).sum()), 1e-300)
    related = max(0.0, 1 - explained) * related + np.eye(len(related))
    found = nearest_correlation(related, floor) * size
    return found, max(1 / (1 / rows + noise**2), LEAST_ROWS)


def as_windows(steps: Floats, level: Floats) -> Floats:
    """Return mean products as `WindowMoments` has them: steps, and levels that have nothing to do with them."""
    count = len(level)
    window = len(steps) // count + 1
    found, place = np.zeros((window, count, window, count)), np.array([0, *range(2, window)])
    table = steps.reshape(window - 1, count, window - 1, count)
    for lag, row in enumerate(place):
        found[row][:, place] = table[lag]
    found[1, :, 1] = np.diag(level)
    return found
