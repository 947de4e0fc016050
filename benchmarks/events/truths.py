"""SigmoidCox and simple estimates on known intensities: relative error, coverage of the 95 % bands, CPU seconds.

python benchmarks/events/truths.py run --seeds 0 --truths spike --sizes 10000       (by default all, seeds 0 to 4)
python benchmarks/events/truths.py run --seeds 0 --truths smooth --sizes 30 100 300 --methods cotempo
python benchmarks/events/truths.py table            (of what was run; --name for another file than events-truths)
python benchmarks/events/truths.py picture
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import write_results
from numpy.typing import NDArray
from parts import FOLDER, about, do_part, read_parts
from results import FOLDER as RESULTS

from cotempo.data import Events
from cotempo.events import SigmoidCox
from cotempo.events.curves.density import density
from cotempo.events.curves.piecewise import histogram
from cotempo.events.intensities.base import Band
from cotempo.events.records.record import Grid, Record

Floats = NDArray[np.float64]
WINDOW = (0.0, 50.0)
SIZES = (10**3, 10**4, 10**5)
POINTS = Grid(*WINDOW, 1000).middles
BINS = 252


def smooth(t: Floats) -> Floats:
    return np.asarray(2 * np.exp(-t / 15) + np.exp(-(((t - 25) / 10) ** 2)))


TRUTHS: dict[str, Callable[[Floats], Floats]] = {
    "smooth": smooth,
    "sine-5": lambda t: 1 + 0.7 * np.sin(2 * np.pi * 5 * t / 50),
    "sine-20": lambda t: 1 + 0.7 * np.sin(2 * np.pi * 20 * t / 50),
    "spike": lambda t: 1 + 8 * np.exp(-0.5 * ((t - 31.7) / 0.5) ** 2),
    "steps": lambda t: np.array([1.0, 3.0, 0.5, 2.0, 1.0])[np.minimum(t // 10, 4).astype(int)],
    "dead": lambda t: np.where((t > 20) & (t < 30), 0.0, smooth(t)),
}


def intensity(truth: str, size: int, times: Floats) -> Floats:
    """The truth, scaled to have `size` expected events."""
    shape = TRUTHS[truth]
    return np.asarray(shape(times) * size / (shape(Grid(*WINDOW, 100_000).middles).mean() * WINDOW[1]))


def simulate(truth: str, size: int, seed: int) -> Floats:
    """Draw events by thinning."""
    rng = np.random.default_rng([seed, size, *truth.encode()])
    top = 1.01 * float(intensity(truth, size, Grid(*WINDOW, 100_000).middles).max())
    times = np.sort(rng.uniform(*WINDOW, rng.poisson(top * WINDOW[1])))
    return times[rng.uniform(0, top, len(times)) < intensity(truth, size, times)]


def bin_counts(times: Floats, bins: int) -> tuple[Floats, Floats, float]:
    """Middles, counts and width of equal bins."""
    grid = Grid(*WINDOW, bins)
    return grid.middles, np.histogram(times, grid.edges)[0].astype(np.float64), grid.width


def fit_cotempo(times: Floats) -> Band:
    return SigmoidCox().fit(times, WINDOW).intensity(POINTS)


def fit_cells(smoother: Callable[[Floats, Floats], Floats]) -> Callable[[Floats], Band]:
    """An estimate on 10,080 cells, without a band."""

    def fit(times: Floats) -> Band:
        grid = Grid(*WINDOW, 10_080)
        record = Record.of(Events.from_arrays([times], WINDOW), condition=False)
        rate = smoother(grid.count(record), grid.expose(record))
        return no_band(rate[((POINTS - grid.start) / grid.width).astype(int)])

    return fit


def no_band(mean: Floats) -> Band:
    return Band(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))


def fit_roots(times: Floats) -> Band:
    """sklearn's Gaussian process on square-rooted counts (Anscombe's transform)."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    at, count, width = bin_counts(times, BINS)
    root = np.sqrt(count + 3 / 8)
    best = None
    for length in (0.3, 2.0, 10.0):
        kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(length, (0.05, 100.0)) + WhiteKernel(0.25, (1e-2, 1e2))
        spread = root.std()
        model = GaussianProcessRegressor(kernel, normalize_y=True).fit(at[:, None], root)
        if best is None or model.log_marginal_likelihood_value_ > best.log_marginal_likelihood_value_:
            best = model
    assert best is not None
    noise = best.kernel_.k2.noise_level * spread**2
    mean, deviation = best.predict(POINTS[:, None], return_std=True)
    deviation = np.sqrt(np.maximum(deviation**2 - noise, 0))
    rate = np.maximum(mean**2 + deviation**2 - 1 / 8, 0) / width
    ends = [np.maximum(np.maximum(mean + side * 1.96 * deviation, 0) ** 2 - 1 / 8, 0) / width for side in (-1, 1)]
    return Band(rate, *ends)


def fit_splines(times: Floats) -> Band:
    """A Poisson regression on cubic B-splines, the number of knots by AIC."""
    from scipy.interpolate import BSpline

    at, count, width = bin_counts(times, 4 * BINS)
    best: tuple[float, Any] = (np.inf, None)
    for pieces in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192):
        knots = np.linspace(*WINDOW, pieces + 1)
        knots = np.concatenate([[WINDOW[0]] * 3, knots, [WINDOW[1]] * 3])
        rows = BSpline.design_matrix(at, knots, 3).toarray()
        weights = np.full(rows.shape[1], np.log(count.sum() / len(at)))
        for _ in range(30):
            rate = np.exp(np.clip(rows @ weights, -20, 20))
            curvature = (rows * rate[:, None]).T @ rows + 1e-4 * np.eye(rows.shape[1])
            step = np.linalg.solve(curvature, rows.T @ (count - rate) - 1e-4 * weights)
            weights = weights + np.clip(step, -3, 3)
        linear = np.clip(rows @ weights, -20, 20)
        score = 2 * rows.shape[1] - 2 * float((count * linear - np.exp(linear)).sum())
        if score < best[0]:
            best = (score, (knots, weights, np.linalg.inv(curvature)))
    knots, weights, covariance = best[1]
    rows = BSpline.design_matrix(POINTS, knots, 3).toarray()
    centre, deviation = rows @ weights, np.sqrt(np.einsum("ij,jk,ik->i", rows, covariance, rows))
    ends = [np.exp(np.clip(centre + side * 1.96 * deviation, -40, 40)) / width for side in (-1, 1)]
    return Band(np.exp(centre) / width, *ends)


def fit_svgp(times: Floats, steps: int = 400, inducing: int = 100) -> Band:
    """gpytorch's variational Gaussian process with a log link, on counts in bins; the best bound of three lengths."""
    import gpytorch
    import torch

    at, count, width = bin_counts(times, 4 * BINS)
    place, seen = torch.as_tensor(at), torch.as_tensor(count)
    level = float(np.log(count.sum() / len(at)))

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self, length: float) -> None:
            points = torch.linspace(*WINDOW, inducing, dtype=torch.float64)[:, None]
            family = gpytorch.variational.CholeskyVariationalDistribution(inducing)
            strategy = gpytorch.variational.VariationalStrategy(self, points, family, learn_inducing_locations=False)
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.covar_module.base_kernel.lengthscale = length

        def forward(self, at: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(at), self.covar_module(at))

    torch.manual_seed(0)
    best: tuple[float, Any] = (-np.inf, None)
    for length in (0.5, 2.0, 8.0):
        model = Model(length).double()
        optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(steps):
            optimiser.zero_grad()
            found = model(place[:, None])
            mass = (level + found.mean + found.variance / 2).clamp_max(30).exp()
            bound = (seen * (level + found.mean) - mass).sum() - model.variational_strategy.kl_divergence().sum()
            (-bound).backward()
            optimiser.step()
        if bound.item() > best[0]:
            best = (bound.item(), model)
    with torch.no_grad():
        found = best[1](torch.as_tensor(POINTS)[:, None])
        centre, spread = found.mean.numpy() + level, found.variance.numpy()
    ends = [np.exp(centre + side * 1.96 * np.sqrt(spread)) / width for side in (-1, 1)]
    return Band(np.exp(centre + spread / 2) / width, *ends)


METHODS: dict[str, Callable[[Floats], Band]] = {
    "cotempo": fit_cotempo,
    "gp-roots": fit_roots,
    "kde": fit_cells(density),
    "histogram": fit_cells(histogram),
    "splines": fit_splines,
    "gpytorch": fit_svgp,
}


def measure(method: str, truth: str, size: int, seed: int) -> dict[str, float]:
    times, began = simulate(truth, size, seed), time.process_time()
    band = METHODS[method](times)
    spent, true = time.process_time() - began, intensity(truth, size, POINTS)
    error = float(np.sqrt(np.mean((band.mean - true) ** 2)) / true.mean())
    inside = float(np.mean((band.lower <= true) & (true <= band.upper))) if np.isfinite(band.lower).all() else np.nan
    return {"events": float(len(times)), "relative_rmse": error, "coverage": inside, "seconds": spent}


def run(given: argparse.Namespace) -> None:
    METHODS["cotempo"](simulate("smooth", 1000, 10**6))  # libraries are loaded before the clock runs
    for seed in given.seeds:
        for truth in given.truths:
            for size in given.sizes:
                for method in given.methods:
                    key = {"method": method, "truth": truth, "size": size, "seed": seed}
                    do_part(FOLDER / "events-truths", key, lambda key=key: measure(**key))


def table(given: argparse.Namespace) -> None:
    keys = {"seed": given.seeds, "truth": given.truths, "size": given.sizes, "method": given.methods}
    parts = [p for p in read_parts(FOLDER / "events-truths") if all(p[name] in keys[name] for name in keys)]
    rows: list[dict[str, Any]] = []
    for truth in given.truths:
        for size in given.sizes:
            cell = []
            for method in given.methods:
                found = [p for p in parts if (p["method"], p["truth"], p["size"]) == (method, truth, size)]
                if found:
                    cell.append(
                        {"truth": truth, "events": size, "method": method, "seeds": len(found), **mean_of(found)}
                    )
            least = min((row["relative_rmse"] for row in cell if row["method"] != "cotempo"), default=np.nan)
            for row in cell:
                row["times_best_rival"] = row["relative_rmse"] / least
                print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
            rows += cell
    write_results(given.name, rows, seed=str(sorted({p["seed"] for p in parts})), note=about(parts))


def mean_of(found: list[dict[str, Any]]) -> dict[str, float]:
    """Means over seeds, with the standard errors of error and coverage."""
    out: dict[str, float] = {}
    for name in ("relative_rmse", "coverage", "seconds"):
        values = np.array([part[name] for part in found], dtype=float)
        out[name] = float(values.mean())
        if name != "seconds":
            out[f"{name}_error"] = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
    return out


def picture(size: int = 10**3, seed: int = 0) -> None:
    """Draw the posterior and the truth of every case."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.6), layout="constrained")
    for axes, truth in zip(figure.subplots(2, 3).ravel(), TRUTHS, strict=True):
        band = fit_cotempo(simulate(truth, size, seed))
        axes.fill_between(POINTS, band.lower, band.upper, color="#2c6fbb", alpha=0.3, linewidth=0)
        axes.plot(POINTS, band.mean, color="#2c6fbb", linewidth=1)
        axes.plot(POINTS, intensity(truth, size, POINTS), color="#c0392b", linewidth=0.8, linestyle="--")
        axes.set_title(f"{truth}, {size:,} events", fontsize=9)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(RESULTS / "events-truths.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table", "picture"))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--truths", nargs="*", choices=list(TRUTHS), default=list(TRUTHS))
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--name", default="events-truths")
    given = parser.parse_args()
    if given.what == "picture":
        picture()
    else:
        (run if given.what == "run" else table)(given)


if __name__ == "__main__":
    main()
