"""Speed: cost by number of events, against a gpytorch SVGP, and a cohort's round batched against looped.

python benchmarks/events/speed.py --cohorts 10                (with gpytorch where it is installed)
python benchmarks/events/speed.py --events --cohorts 100 --device cuda --name events-speed-gpu
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from common import write_results
from truths import WINDOW, intensity, simulate

from cotempo.data import make_events
from cotempo.events import FedPP, SigmoidCox
from cotempo.federation import Message, Question, Rng

INDUCING, STEPS = 50, 40
GRID = np.linspace(0.1, 49.9, 400)


def clock(call: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """Median wall and CPU seconds, after one call to warm up."""
    call()
    found = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return median(w for w, _ in found), median(c for _, c in found)


def relative_error(mean: Any, times: Any) -> float:
    true = intensity("smooth", len(times), GRID)
    return float(np.sqrt(np.mean((mean - true) ** 2)) / true.mean())


def by_events(count: int) -> list[dict[str, object]]:
    times = simulate("smooth", count, 0)
    wall, cpu = clock(lambda: SigmoidCox().fit(times, WINDOW))
    error = relative_error(SigmoidCox().fit(times, WINDOW).intensity(GRID).mean, times)
    rows = [{"what": f"SigmoidCox, {count} events", "wall": wall, "cpu": cpu, "relative_rmse": error}]
    if count == 10**5 and importlib.util.find_spec("gpytorch"):
        wall, cpu = time.perf_counter(), time.process_time()
        mean = fit_svgp(times)
        spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        rows.append({"what": f"gpytorch SVGP, {count} events", **spent, "relative_rmse": relative_error(mean, times)})
    return rows


def fit_svgp(times: Any, cells: int = 1000) -> Any:
    """A variational GP with a log link: a Poisson likelihood at events and in cells."""
    import gpytorch

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            inducing = torch.linspace(0, 100, INDUCING)[:, None]
            family = gpytorch.variational.CholeskyVariationalDistribution(INDUCING)
            strategy = gpytorch.variational.VariationalStrategy(self, inducing, family, learn_inducing_locations=False)
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            self.covar_module.base_kernel.lengthscale = 15.0

        def forward(self, at: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(at), self.covar_module(at))

    scale = 100 / WINDOW[1]
    middles = torch.linspace(0, 100, 2 * cells + 1)[1::2]
    seen = torch.as_tensor(times * scale, dtype=torch.float32)
    model, start = Model(), float(np.log(len(times) / WINDOW[1]))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimiser.zero_grad()
        at, between = model(seen[:, None]), model(middles[:, None])
        mass = (start + between.mean + between.variance / 2).exp().sum() * WINDOW[1] / cells
        bound = (start + at.mean).sum() - mass - model.variational_strategy.kl_divergence().sum()
        (-bound).backward()
        optimiser.step()
    with torch.no_grad():
        found = model(torch.as_tensor(GRID * scale, dtype=torch.float32)[:, None])
        return (start + found.mean + found.variance / 2).exp().numpy()


def by_cohort(size: int, device: str) -> list[dict[str, object]]:
    method = FedPP(preset="paper", epochs=5, inducing=30, cells=200, device=device)
    clients, _ = make_events(clients=size, sequences=10, seed=0)
    records = [method.prepare(table) for table in clients.values()]
    state = FedPP(preset="paper", window=(0.0, 10.0), inducing=30).fit(dict(list(clients.items())[:2])).state
    design = state.design
    told = {"summary": design.summary, "base": design.base, "parameters": design.parameters}
    span = {"span": np.array([0.0, 10.0])}
    common = Message({**told, **span, "mean": state.mean, "deviation": state.deviation})
    questions = [Question("run", 1, 1, "train", name, 0, 0, common, Message()) for name in clients]
    memories = [method.begin(record, Rng(0, "c", 0)) for record in records]
    rngs = [Rng(0, name, 1) for name in clients]
    parts = list(zip(questions, records, memories, rngs, strict=True))
    batched = clock(lambda: method.answer_all(questions, records, memories, rngs))
    looped = clock(lambda: [method.answer(*part) for part in parts], 1)
    place = "GPU" if device == "cuda" else "CPU"
    return [
        {"what": f"one round of {size} clients, batched, {place}", "wall": batched[0], "cpu": batched[1]},
        {"what": f"one round of {size} clients, looped, {place}", "wall": looped[0], "cpu": looped[1]},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", nargs="*", type=int, default=[10])
    parser.add_argument("--events", nargs="*", type=int, default=[10**4, 10**5, 10**6])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--name", default="events-speed")
    given = parser.parse_args()
    rows: list[dict[str, object]] = [row for count in given.events for row in by_events(count)]
    for size in given.cohorts:
        rows += by_cohort(size, given.device)
    filled = [{"relative_rmse": "", **row} for row in rows]
    for row in filled:
        print(row, flush=True)
    order = ("what", "wall", "cpu", "relative_rmse")
    write_results(given.name, [{key: row[key] for key in order} for row in filled], seed=0, note="medians of 3")


if __name__ == "__main__":
    main()
