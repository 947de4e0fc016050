"""The demo: each family on generated data whose truth is known, in one report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cotempo.federation.fitted import Fitted
from cotempo.networks import FDBNL, make_networks
from cotempo.report.page import describe, write_pages


def networks(progress: bool | None) -> tuple[Fitted, Any, str]:
    """Eight plants, twelve variables: what drives what?"""
    clients, truth = make_networks(variables=12, clients=8, samples=512, seed=1)
    fitted = FDBNL().fit(clients, seed=0, progress=progress)
    scores = fitted.scores(truth)
    found = f"{scores['within_tpr']:.0%} of the true edges within a time step found, {scores['within_fdr']:.0%} false"
    return fitted, truth, f"networks  FDBNL: {found}"


FAMILIES: dict[str, Callable[[bool | None], tuple[Fitted, Any, str]]] = {"networks": networks}


def run_demo(folder: Path, progress: bool | None) -> tuple[list[str], dict[str, Any]]:
    """Run every family and write one page about all of them."""
    lines, sections = [], []
    for family in FAMILIES.values():
        fitted, truth, line = family(progress)
        sections.append(describe(fitted, truth))
        lines.append(line)
    page = write_pages(sections, folder / "report.html").resolve()
    return [*lines, f"Report: {page}"], {"report": str(page), "families": list(FAMILIES)}
