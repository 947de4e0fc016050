"""SigmoidCox, the local model: one client's intensity over time, with a band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cotempo.data import Events
from cotempo.errors import DataError, ParameterError
from cotempo.events.curve import Curve
from cotempo.events.grid import Grid
from cotempo.events.pieces import HISTORY
from cotempo.events.record import Floats, Record, as_events

if TYPE_CHECKING:
    from torch import Tensor

    from cotempo.events.cox import Belief, Cells, Prior
    from cotempo.events.encoded import EncodedIntensity
    from cotempo.events.fitted_fedpp import KernelCurve

LENGTH, LENGTH_SPREAD = 15.0, 1.0
AMPLITUDE, AMPLITUDE_SPREAD = 1.5, 1.0
# How many pieces of sequences a step of a history kernel takes.
BATCH = 16


@dataclass(frozen=True)
class SigmoidCox:
    r"""A sigmoidal Gaussian Cox process, learned from one client's events alone.

    .. math:: \lambda(t) = m\,\sigma(\nu + f(t)), \qquad f \sim GP(0, k), \qquad m \sim \mathrm{Gamma}

    The Gaussian process has inducing points over the whole window. Given the kernel, all updates have a closed form;
    its amplitude and length scale climb the collapsed bound by Adam. Kernels with a network or of history are learned
    as in `FedPP`, by a federation of one.

    Parameters
    ----------
    kernel
        What the function depends on: ``"time"``, ``"deep"`` (a small Bayesian network of time), or the events before,
        by ``"history"`` (time since the last event and decayed counts), ``"lstm"`` or ``"attention"``.
    marks
        With a kernel of history: one intensity for each type of events.
    base
        With a kernel of history: the measure the sigmoid scales, ``"poisson"``, ``"hawkes"`` and so on as in `FedPP`.
    inducing
        The number of inducing points.
    cells
        The number of cells in which events are counted.
    steps
        How many steps the kernel takes.
    mean
        The mean :math:`\nu` of the function.
    prior_strength
        How many events the prior on the rate counts for.

    Examples
    --------
    >>> events = Events.from_arrays([np.linspace(0.1, 9.9, 50) ** 2 / 10], windows=(0, 10))
    >>> model = SigmoidCox(inducing=10, steps=10).fit(events)
    >>> mean, lower, upper = model.intensity([1.0, 9.0])
    >>> bool(mean[0] > mean[1])
    True
    """

    kernel: Literal["time", "deep", "history", "lstm", "attention"] = "time"
    marks: bool = False
    base: Literal["auto", "poisson", "profile", "hawkes", "renewal"] = "auto"
    inducing: int = 50
    cells: int = 1000
    steps: int = 40
    mean: float = 0.0
    prior_strength: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("inducing", 2), ("cells", 2), ("steps", 1)):
            if getattr(self, name) < least:
                raise ParameterError(f"{name} must be at least {least}, got {getattr(self, name)}")
        known = ("time", "deep", *HISTORY)
        if self.kernel not in known:
            raise ParameterError(f"kernel must be one of {', '.join(known)}, got {self.kernel!r}")
        if self.marks and self.kernel not in HISTORY:
            raise ParameterError(
                f"marks need a kernel of history, got kernel={self.kernel!r}; learn each type by itself"
            )
        if not self.prior_strength > 0:
            raise ParameterError(f"prior_strength must be positive, got {self.prior_strength}")

    def fit(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> Any:
        """Learn from a table, or from plain sorted times and their window.

        Returns
        -------
        FittedCox, KernelCurve or EncodedIntensity
            A curve over time (the first can be updated), or an intensity given the events before.
        """
        if self.kernel != "time":
            return self._fit_alone(as_events(events, window))
        record = Record.of(as_events(events, window), condition=False)
        if not len(record.start):
            raise DataError("there must be at least one watched sequence, there is none; pass its window")
        grid = Grid(float(record.start.min()), float(record.end.max()), self.cells)
        return _learn(self, grid, grid.count(record), grid.expose(record), None)

    def _fit_alone(self, table: Events) -> KernelCurve | EncodedIntensity:
        from cotempo.events.fedpp import FedPP

        federation = FedPP(
            preset="paper", kernel=self.kernel, marks=self.marks, base=self.base, inducing=self.inducing,
            cells=self.cells, rounds=self.steps, batch=BATCH if self.kernel in HISTORY else None,
        )  # fmt: skip
        fitted: KernelCurve | EncodedIntensity = federation.fit({"self": table}, progress=False)["self"]
        return fitted


class Fit(NamedTuple):
    """What learning leaves: the kernel, the belief, and the joint precision of (v, log m)."""

    inducing: Tensor
    log_amplitude: Tensor
    log_length: Tensor
    belief: Belief
    prior: Prior
    precision_root: Tensor


class FittedCox(Curve):
    """A learned `SigmoidCox`.

    Attributes
    ----------
    bounds
        The collapsed bound after each step of the kernel.
    """

    conditional: ClassVar[bool] = False

    def __init__(self, model: SigmoidCox, grid: Grid, count: Floats, exposure: Floats, fit: Fit, bounds: Floats):
        self.model, self.grid, self.count, self.exposure, self.bounds = model, grid, count, exposure, bounds
        self._fit = fit
        self.reference = max(float(count.sum()), 0.5) / float(exposure.sum())

    @property
    def length(self) -> float:
        """The length scale of the kernel, in the unit of the events."""
        return float(self._fit.log_length.exp()) * (self.grid.end - self.grid.start) / 100

    @property
    def ceiling(self) -> float:
        """The expected rate m: the sigmoid never exceeds 1."""
        return float(self._fit.belief.shape / self._fit.belief.rate)

    def evaluate(self, times: Floats) -> tuple[Floats, Floats, Floats]:
        """Posterior mean, and centre and deviation of the logarithm by the joint information in (v, log m)."""
        import torch

        from cotempo.events import cox

        basis, residual = self._basis(times)
        at = cox.project(basis, residual, self._fit.belief, self._fit.prior)
        share = torch.sigmoid(at.centre)
        gradient = cox.log_gradient(basis, share)
        joint = torch.linalg.solve_triangular(self._fit.precision_root, gradient.mT, upper=False).square().sum(-2)
        deviation = (joint + (1 - share).square() * residual).sqrt()
        mean = self.ceiling * cox.mean_sigmoid(at.centre, at.spread)
        centre = np.log(self.ceiling) + torch.nn.functional.logsigmoid(at.centre)
        return mean.numpy(), centre.numpy(), deviation.numpy()

    def draw(self, times: Floats, draws: int, rng: np.random.Generator) -> Floats:
        """Draw (v, log m) from their joint normal."""
        import torch

        basis, _ = self._basis(times)
        noise = torch.as_tensor(rng.standard_normal((basis.shape[-1] + 1, draws)))
        shift = torch.linalg.solve_triangular(self._fit.precision_root.mT, noise, upper=True)
        function = self._fit.prior.mean + basis @ (self._fit.belief.mean[:, None] + shift[:-1])
        drawn: Floats = (self.ceiling * shift[-1].exp() * torch.sigmoid(function)).T.numpy()
        return drawn

    def update(self, events: Events | ArrayLike, window: tuple[float, float] | None = None) -> FittedCox:
        """Learn on from new events, starting at what is known; the window grows where they lie beyond it."""
        record = Record.of(as_events(events, window), condition=False)
        start = min(self.grid.start, float(record.start.min()))
        end = max(self.grid.end, float(record.end.max()))
        grid = Grid(start, end, self.model.cells)
        before = np.clip(((self.grid.middles - start) / grid.width).astype(np.intp), 0, grid.cells - 1)
        count = np.bincount(before, weights=self.count, minlength=grid.cells) + grid.count(record)
        exposure = np.bincount(before, weights=self.exposure, minlength=grid.cells) + grid.expose(record)
        stretch = float(np.log((self.grid.end - self.grid.start) / (end - start)))
        kernel = (float(self._fit.log_amplitude), float(self._fit.log_length[0]) + stretch)
        return _learn(self.model, grid, count, exposure, kernel)

    def _basis(self, times: Floats) -> tuple[Tensor, Tensor]:
        import torch

        from cotempo.events.kernels import basis

        at = torch.as_tensor(self.grid.scale(times))[:, None]
        return basis(at, self._fit.inducing, self._fit.log_amplitude, self._fit.log_length)


def _learn(
    model: SigmoidCox, grid: Grid, count: Floats, exposure: Floats, kernel: tuple[float, float] | None
) -> FittedCox:
    """Alternate closed-form updates and steps of the kernel; a known kernel needs a quarter of the steps."""
    import torch

    from cotempo.events import cox
    from cotempo.events.kernels import basis

    watched = np.flatnonzero((exposure > 0) | (count > 0))
    at = torch.as_tensor(grid.scale(grid.middles[watched]))[:, None]
    cells = cox.Cells(torch.as_tensor(count[watched]), torch.as_tensor(exposure[watched]))
    inducing = torch.linspace(0.0, 100.0, model.inducing, dtype=torch.float64)[:, None]
    prior = rate_prior(float(count.sum()), float(exposure.sum()), model.prior_strength, model.mean)
    amplitude, length = kernel or (np.log(AMPLITUDE), np.log(LENGTH))
    log_amplitude = torch.tensor(amplitude, dtype=torch.float64, requires_grad=True)
    log_length = torch.tensor([length], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([log_amplitude, log_length], lr=0.1)
    belief, bounds = cox.start(prior, model.inducing), []
    # A rate that starts low climbs slowly, and caps the intensity while it does: begin at twice the highest rate seen.
    watch = prior.rate + cells.exposure.sum()
    belief = belief._replace(shape=2 * peak_rate(cells.events, cells.exposure) * watch, rate=watch)
    for _ in range(model.steps if kernel is None else max(model.steps // 4, 1)):
        rows, residual = basis(at, inducing, log_amplitude, log_length)
        with torch.no_grad():
            for _ in range(2):
                belief = cox.update(rows, residual, cells, belief, prior)
        bound = cox.evidence_bound(rows, residual, cells, belief, prior) + kernel_prior(log_amplitude, log_length)
        optimiser.zero_grad()
        (-bound).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        bounds.append(float(bound.detach()))
    return _finish(
        model, grid, count, exposure, (at, cells, inducing, prior, belief), (log_amplitude, log_length), bounds
    )


def _finish(
    model: SigmoidCox,
    grid: Grid,
    count: Floats,
    exposure: Floats,
    learned: tuple[Tensor, Cells, Tensor, Prior, Belief],
    kernel: tuple[Tensor, Tensor],
    bounds: list[float],
) -> FittedCox:
    """Let the updates settle on the last kernel, and take the joint information there."""
    import torch

    from cotempo.events import cox
    from cotempo.events.kernels import basis

    at, cells, inducing, prior, belief = learned
    log_amplitude, log_length = (part.detach() for part in kernel)
    with torch.no_grad():
        rows, residual = basis(at, inducing, log_amplitude, log_length)
        for _ in range(20):
            belief = cox.update(rows, residual, cells, belief, prior)
        rate = belief.shape / belief.rate
        centre = cox.project(rows, residual, belief, prior).centre
        precision = cox.information(rows, cells, centre, rate)
        own = torch.cat([torch.ones(model.inducing, dtype=torch.float64), (prior.rate * rate)[None]])
        root = torch.linalg.cholesky(precision + torch.diag(own))
    fit = Fit(inducing, log_amplitude, log_length, belief, prior, root)
    return FittedCox(model, grid, count, exposure, fit, np.array(bounds))


def rate_prior(events: float, exposure: float, strength: float, mean: float) -> Prior:
    """A weak Gamma prior with mean 2 (N + 1) / exposure: the sigmoid halves it, and N = 0 is a valid client."""
    import torch

    from cotempo.events.cox import Prior

    centre = 2 * (events + 1) / exposure
    return Prior(*(torch.tensor(value, dtype=torch.float64) for value in (strength, strength / centre, mean)))


def peak_rate(events: Tensor, exposure: Tensor) -> Tensor:
    """The highest rate over coarse cells of some 20 events each, smoothed by one event."""
    import torch

    parts = int(events.sum().div(20).clamp(1, 20))
    pairs = zip(torch.tensor_split(events, parts), torch.tensor_split(exposure, parts), strict=True)
    typical = exposure.sum() / (events.sum() + 1)
    rates = torch.stack([(seen.sum() + 1) / (watched.sum() + typical) for seen, watched in pairs])
    return rates.max()


def kernel_prior(log_amplitude: Tensor, log_length: Tensor) -> Tensor:
    """Weak log-normal priors on amplitude and length scale, on the window scaled to 100."""
    amplitude = (log_amplitude - np.log(AMPLITUDE)) / AMPLITUDE_SPREAD
    length = (log_length - np.log(LENGTH)) / LENGTH_SPREAD
    penalty: Tensor = -0.5 * (amplitude.square().sum() + length.square().sum())
    return penalty
