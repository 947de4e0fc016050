"""`run_demo`: one method of each family on generated data with a known truth, in one report."""

from pathlib import Path
from typing import Any

import numpy as np

import cotempo as ct
from cotempo.cli.output import Output
from cotempo.federation.fitted import Fitted
from cotempo.report.content import describe
from cotempo.report.page import write_pages

Demo = tuple[Fitted, Any, str]


def networks(progress: bool | None) -> Demo:
    """Learn what drives what among twelve variables, from eight plants."""
    clients, truth = ct.make_networks(variables=12, clients=8, samples=512, seed=1)
    fitted = ct.FDBNL(scaled=False).fit(clients, seed=0, progress=progress)  # all variables have one unit
    scores = fitted.scores(truth)
    found, wrong = scores["within_tpr"], scores["within_fdr"]
    return fitted, truth, f"{found:.0%} of the true edges found, {wrong:.0%} of the found false"


def events(progress: bool | None) -> Demo:
    """Learn when admissions come, from five wards with few of them."""
    clients, truth = ct.make_events(clients=5, sequences=6, seed=0)
    fitted = ct.FedPP().fit(clients, seed=0, progress=progress)
    gain = np.mean([benefit.gain for benefit in fitted.benefit.values()])
    return fitted, truth, f"{gain:+.3f} nats per held-out event by joining, over learning alone"


def series(progress: bool | None) -> Demo:
    """Impute the series of three labs that share three of four features, with the help of a longer public series."""
    clients, truth = ct.make_series(clients=4, length=960, features=4, missing=0.3, seed=0)
    public, *owners = clients
    common = ("x0", "x1", "x2")
    shared = ct.Series.from_arrays(truth.complete[public].values[:, :3], features=common)
    few = {name: clients[name].select(np.arange(160)) for name in owners}
    method = ct.FedTDD(
        common=common, window=12, width=16, imputer_width=32, imputer_layers=2, pretrain_steps=300, start_steps=60,
        corrector_steps=60, first_steps=60, later_steps=20, last_steps=20, batch=32, diffusion_steps=100,
        sampler_steps=10,
    )  # fmt: skip
    fitted = method.fit(few, public=shared, seed=0, progress=progress)
    change = np.mean([benefit.together / benefit.alone - 1 for benefit in fitted.benefit.values()])
    way = "lower" if change < 0 else "higher"
    return fitted, truth, f"error of filled cells {abs(change):.0%} {way} by joining than by filling alone"


def social(progress: bool | None) -> Demo:
    """Find posts about the same event in three communities, each in its own language."""
    clients, truth = ct.make_posts(clients=3, posts=150, events=12, seed=0)
    fitted = ct.EventDetector().fit(clients, seed=0, progress=progress)
    score = np.mean([benefit.together for benefit in fitted.benefit.values()])
    return fitted, truth, f"{score:.2f} normalised mutual information with the true events, on held-out posts"


FAMILIES = {family.__name__: family for family in (networks, events, series, social)}


def run_demo(folder: Path, progress: bool | None) -> Output:
    """Run every family, and write one page."""
    lines, sections = [], []
    for name, family in FAMILIES.items():
        fitted, truth, line = family(progress)
        sections.append(describe(fitted, truth))
        lines.append(f"{name:9} {type(fitted.method).__name__}: {line}")
    page = write_pages(sections, folder / "report.html").resolve()
    return Output([*lines, f"Report: {page}"], {"report": str(page), "families": list(FAMILIES)})
