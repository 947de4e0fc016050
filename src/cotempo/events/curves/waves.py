r"""A smooth intensity on cells: a Gaussian process in cosine waves, its kernel chosen by the evidence.

.. math:: \lambda(t) = m\,\sigma(\eta(t)), \qquad \eta(t) = \sum_k v_k \cos(\omega_k (u(t) + c)), \qquad
   v_k \sim N(0, a^2 S(\omega_k))

on the window and a margin c at both ends (the Hilbert-space approximation of Solin and Särkkä, 2020), or, where the
window is closed, one period, in the waves :math:`\cos \omega_k u + \sin \omega_k u` of that period. S is the spectral
density of an RBF kernel; of one that is modulated by a wave and its harmonics, where the counts have a period; and u is
time, or a clock that runs where the function moves. The information is made of sums of the weights' waves, so a step of
Newton costs no more than a Cholesky factor, and the evidence (Laplace's approximation) of dozens of kernels can be
compared.
"""

from typing import NamedTuple

import numpy as np
from scipy.fft import rfft
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.ndimage import gaussian_filter1d
from scipy.special import expit, logit, logsumexp

from cotempo.typing import Floats

# The lattice the search moves on: length scales in windows, from long to short, and amplitudes.
LENGTHS = 2.0 * 1.3 ** -np.arange(23.0)
AMPLITUDES = 0.8 * 1.7 ** np.arange(-4.0, 6.0)
STARTS, PERIOD_START = ((4, 4), (11, 4), (17, 4)), (2, 4)
# Waves are left out where the spectral density is e^(-CUTOFF^2 / 2) of its top.
CUTOFF = 4.5
LEVEL_SPREAD = 3.0
STEPS = 8
HARMONICS, FADING = 5, 6.0
CEILINGS = (8.0, 1.2)
# The log prior of the lattice, log-normal about a length scale of .15 and an amplitude of 1.
PRIOR = -0.5 * ((np.log(LENGTHS / 0.15) / 1.2)[:, None] ** 2 + (np.log(AMPLITUDES) / 0.8) ** 2)
PRIOR -= logsumexp(PRIOR) + np.log(len(CEILINGS))
# What a clock or a period found in the data pays for having been searched, in nats.
CLOCK_PRICE, PERIOD_PRICE = 3.0, 6.0

Node = tuple[int, int]


class Basis(NamedTuple):
    """Waves at the cells, ``(waves, cells)``, and their variances at unit amplitude, ``(waves,)``; `table` has all
    waves up to the sum of the two highest, and `number` says which of them are used; of a closed window it is empty."""

    table: Floats
    number: np.ndarray
    variance: Floats
    waves: Floats

    def information(self, weight: Floats) -> Floats:
        """Return the weighted products of all pairs of waves, summed over cells, ``(waves, waves)``."""
        if not len(self.table):
            return np.asarray((self.waves * weight) @ self.waves.T)
        sums, number = self.table @ weight, self.number
        return np.asarray(0.5 * (sums[np.abs(np.subtract.outer(number, number))] + sums[np.add.outer(number, number)]))


class Wave(NamedTuple):
    """The posterior under one kernel: the mean weights of the waves, the root of their precision and eta at the cells.

    `node` is the kernel's place in the lattice of length scales and amplitudes, `ceiling` is m, `evidence` the log
    likelihood of the data under the kernel, less what the search for it cost.
    """

    node: Node
    ceiling: float
    basis: Basis
    weights: Floats
    root: Floats
    eta: Floats
    evidence: float

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return rates drawn from the posterior, ``(draws, cells)``."""
        noise = rng.standard_normal((len(self.weights), draws))
        shift = solve_triangular(self.root, noise, lower=True, trans=1, check_finite=False)
        return np.asarray(self.ceiling * expit((self.weights[:, None] + shift).T @ self.basis.waves))

    def moments(self) -> tuple[Floats, Floats]:
        """Return the posterior means of the rate and of one over the rate, ``(cells,)`` each."""
        spread = (solve_triangular(self.root, self.basis.waves, lower=True, check_finite=False) ** 2).sum(axis=0)
        nodes, shares = np.polynomial.hermite_e.hermegauss(9)
        at = self.eta + nodes[:, None] * np.sqrt(spread)
        mean = self.ceiling * (shares / shares.sum()) @ expit(at)
        return mean, (1 + np.exp(spread / 2 - self.eta)) / self.ceiling


class ClockCells(NamedTuple):
    """Counts and exposures of cells, where they stand on a clock from 0 to 1, and whether its end is its start."""

    events: Floats
    exposure: Floats
    place: Floats
    closed: bool = False


def learn_waves(count: Floats, exposure: Floats, pilot: Floats, closed: bool = False) -> list[Wave]:
    """Return the posteriors under all kernels that were looked at, given a first guess of the rate."""
    time = (np.arange(len(count)) + 0.5) / len(count)
    cells = ClockCells(count, exposure, time, closed)
    top = float(pilot.max())
    bases: dict[int, Basis] = {}
    found = search(cells, CEILINGS[0] * top, pilot, STARTS, bases, 0.0, 0.0)
    found += search(cells, CEILINGS[1] * top, pilot, (best_of(found).node,), bases, 0.0, 0.0)
    best = best_of(found)
    rate, ceiling = best.ceiling * expit(best.eta), best.ceiling
    clock = cells._replace(place=moving_clock(best, closed))
    found += search(clock, ceiling, rate, STARTS[:2], {}, 0.0, CLOCK_PRICE)
    if frequency := find_frequency(count, exposure):
        found += search(cells, ceiling, rate, (PERIOD_START,), {}, frequency, PERIOD_PRICE)
    return found


def best_of(found: list[Wave]) -> Wave:
    """Return the posterior with the highest evidence."""
    return max(found, key=lambda wave: wave.evidence)


def moving_clock(wave: Wave, closed: bool = False) -> Floats:
    """Return a clock that runs as fast as the function moves, smoothed over its length scale."""
    cells, width = len(wave.eta), float(LENGTHS[wave.node[0]])
    slope = np.gradient(np.pad(wave.eta, 1, mode="wrap"))[1:-1] if closed else np.gradient(wave.eta)
    moves = gaussian_filter1d(slope**2, width * cells, mode="wrap" if closed else "nearest")
    pace = 0.1 + np.sqrt(moves) / max(float(np.sqrt(moves).mean()), 1e-12)
    return np.asarray((np.cumsum(pace) - pace / 2) / pace.sum())


def find_frequency(count: Floats, exposure: Floats) -> float:
    """Return the frequency with most power, in periods a window; 0 where it could be chance or has no three periods."""
    rest = count - exposure * count.sum() / exposure.sum()
    power = np.abs(rfft(rest, 8 * len(count))) ** 2 / max(float(count.sum()), 1.0)
    place = 24 + int(np.argmax(power[24 : len(count)]))
    return place / 8 if power[place] > 8 + np.log(len(count)) else 0.0


def search(
    cells: ClockCells,
    ceiling: float,
    rate: Floats,
    starts: tuple[Node, ...],
    bases: dict[int, Basis],
    frequency: float,
    price: float,
) -> list[Wave]:
    """Climb the evidence over the lattice of length scales and amplitudes; `bases` are kept for the next search."""
    found: dict[Node, Wave] = {}
    guess = logit(np.clip(rate / ceiling, 1e-4, 0.95))

    def evidence(node: Node) -> float:
        length, amplitude = node
        if not (0 <= length < len(LENGTHS) and 0 <= amplitude < len(AMPLITUDES)):
            return -np.inf
        if length not in bases:
            bases[length] = make_basis(cells.place, LENGTHS[length], frequency, cells.closed)
        if node not in found:
            near = best_of(list(found.values())).eta if found else guess
            found[node] = fit_wave(cells, node, ceiling, bases[length], near, price)
        return found[node].evidence

    for node in starts:
        before = None
        while node != before:
            before = node
            steps = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
            node = max(((node[0] + long, node[1] + high) for long, high in steps), key=evidence)
    return list(found.values())


def make_basis(place: Floats, length: float, frequency: float, closed: bool = False) -> Basis:
    """Return the waves that matter under a kernel of this length scale."""
    if closed:
        return _closed_basis(place, length, frequency)
    margin = float(np.clip(1.5 * length, 0.1, 1.0))
    stretch = 1 + 2 * margin
    peaks = _peaks(frequency)
    highest = int(np.ceil((peaks[-1] + CUTOFF / length) * stretch / np.pi)) + 1
    density = _spectral_density(np.asarray(np.arange(highest) * np.pi / stretch, dtype=np.float64), length, peaks)
    number = np.flatnonzero(density > np.exp(-0.5 * CUTOFF**2))
    variance = np.sqrt(2 * np.pi) * length * density[number] * np.where(number > 0, 2, 1) / stretch
    table = _multiples(np.cos((place + margin) * (np.pi / stretch)), 2 * highest - 1)
    return Basis(table, number, variance, np.ascontiguousarray(table[number]))


def _peaks(frequency: float) -> Floats:
    """Return the angular frequencies that the spectral density has its peaks at."""
    return np.asarray(2 * np.pi * frequency * np.arange(HARMONICS + 1 if frequency else 1), dtype=np.float64)


def _spectral_density(omega: Floats, length: float, peaks: Floats) -> Floats:
    """Return the spectral density at frequencies, relative to its top."""
    return np.asarray(
        sum(
            np.exp(-0.5 * ((omega - peak) * length) ** 2) * FADING ** -max(part - 1, 0)
            for part, peak in enumerate(peaks)
        )
    )


def _closed_basis(place: Floats, length: float, frequency: float) -> Basis:
    """Return the waves of one period: cos + sin of each frequency, and of its negative, have the same variance.

    Together they make a stationary kernel: the products of a pair sum to twice the cosine of the distance.
    """
    peaks = _peaks(frequency)
    highest = int(np.ceil((peaks[-1] + CUTOFF / length) / (2 * np.pi))) + 1
    number = np.arange(-highest, highest + 1)
    number = number[np.argsort(np.abs(number), kind="stable")]  # the constant first
    density = _spectral_density(2 * np.pi * np.abs(number), length, peaks)
    number, density = number[density > np.exp(-0.5 * CUTOFF**2)], density[density > np.exp(-0.5 * CUTOFF**2)]
    angle = 2 * np.pi * number[:, None] * place
    return Basis(np.zeros((0, 0)), number, np.sqrt(2 * np.pi) * length * density, np.cos(angle) + np.sin(angle))


def _multiples(cosine: Floats, count: int) -> Floats:
    """Return cosines of the first multiples of angles, from 0 on, by Chebyshev's doubling, ``(count, angles)``."""
    table = np.empty((count, len(cosine)))
    table[0], table[1] = 1.0, cosine
    known = 2
    while known < count:
        more = min(known - 1, count - known)
        np.multiply(2 * table[known - 1], table[1 : more + 1], out=table[known : known + more])
        table[known : known + more] -= table[known - 1 - more : known - 1][::-1]
        known += more
    return table


def fit_wave(cells: ClockCells, node: Node, ceiling: float, basis: Basis, eta: Floats, price: float) -> Wave:
    """Return the mode of the posterior by Newton's method with Fisher's information, and Laplace's evidence."""
    variance = AMPLITUDES[node[1]] ** 2 * basis.variance
    variance[0] += LEVEL_SPREAD**2

    def score(weights: Floats) -> float:
        rate = ceiling * expit(weights @ basis.waves)
        fit = (cells.events * np.log(np.maximum(rate, 1e-300)) - cells.exposure * rate).sum()
        return float(fit - 0.5 * (weights**2 / variance).sum())

    best, weights = -np.inf, np.zeros(len(variance))
    for _ in range(STEPS):
        share = expit(eta)
        expected = cells.exposure * ceiling * share
        pull, weight = (cells.events - expected) * (1 - share), expected * (1 - share) ** 2
        information = basis.information(weight)
        information[np.diag_indices(len(variance))] += 1 / variance
        root = cholesky(information, lower=True, check_finite=False)
        new = cho_solve((root, True), basis.waves @ (weight * eta + pull), check_finite=False)
        reached = score(new)
        for _ in range(8):
            if reached >= best - 1e-6:
                break
            new = 0.5 * (new + weights)
            reached = score(new)
        gain, best, weights = reached - best, reached, new
        eta = weights @ basis.waves
        if gain < 0.01:
            break
    evidence = best - 0.5 * float(np.log(variance).sum()) - float(np.log(root.diagonal()).sum())
    evidence += float(PRIOR[node]) - price
    return Wave(node, ceiling, basis, weights, root, eta, evidence)
