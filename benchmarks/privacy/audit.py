"""What the audit finds: attack by shield in each family, bounds against promises in 20 runs, and what it costs.

Run: python benchmarks/privacy/audit.py [shields | promises | cost | windows] ...; parts are kept in runs/parts/audit,
and what there is of them is written to results.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1])]
from parts import FOLDER, about, do_part, read_parts  # noqa: E402
from results import write_results  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.auditing import Audit  # noqa: E402

PARTS = FOLDER / "audit"
CANARIES = 100
RANGES = {"ranges": (-15.0, 15.0)}
Tables = Mapping[str, Any]


def networks(seed: int) -> Tables:
    """Five sites of 6 variables with series of their own, 300 rows each."""
    return {f"site-{k}": ct.make_networks(6, 1, 300, seed=100 * seed + k)[0]["client-0"] for k in range(5)}


def events(seed: int) -> Tables:
    return ct.make_events(clients=5, sequences=2, length=20.0, seed=seed)[0]


def posts(seed: int) -> Tables:
    return ct.make_posts(clients=5, posts=60, events=10, seed=seed)[0]


def series(seed: int) -> Tables:
    return ct.make_series(clients=5, length=300, features=4, seed=seed)[0]


FAMILIES: dict[str, tuple[Any, Callable[[int], Tables], dict[str, Any]]] = {
    "networks": (ct.OneRound(compare=False), networks, RANGES),
    "events": (ct.FedPP(kernel="time", compare=False, window=(0.0, 20.0), cells=150), events, {}),
    "social": (ct.EventDetector(compare=False, buckets=2**13), posts, {}),
    "series": (ct.FedMoments(window=6), series, RANGES),
}
SHIELDS: dict[str, dict[str, Any]] = {
    "none": {},
    "secure sum": {"secure_sum": True},
    "weights of rows": {"weigh_rows": True},
    "noise, epsilon 8": {"epsilon": 8.0},
    "noise, epsilon 1": {"epsilon": 1.0},
    "noise, epsilon 1, and secure sum": {"epsilon": 1.0, "secure_sum": True},
}
#: Five seeds for each family: an epsilon each, and whether under the secure sum.
PROMISES = ((0.5, False), (1.0, True), (1.0, False), (3.0, True), (8.0, False))


def audit(family: str, seed: int, epsilon: float | None = None, secure_sum: bool = False, **options: Any) -> Audit:
    method, make, ranges = FAMILIES[family]
    noise = {"epsilon": epsilon, **ranges} if epsilon else {}
    privacy = ct.Privacy(secure_sum=secure_sum, **noise)
    return ct.audit(method, make(seed), privacy=privacy, canaries=CANARIES, seed=seed, **options)


def figures(found: Audit) -> dict[str, Any]:
    bound, back = found.membership, found.recovered
    return {
        "promised": found.promised or "", "epsilon": bound.epsilon, "gaussian_epsilon": bound.gaussian_epsilon,
        "canaries": bound.guesses.canaries, "made": bound.guesses.made, "right": bound.guesses.right, "auc": bound.auc,
        "true_positives": bound.true_positives, "recovered": back.found, "of": back.of, "what": back.what,
        "holds": found.holds,
    }  # fmt: skip


def shields() -> None:
    """Attack by shield, two seeds each."""
    for family in FAMILIES:
        for shield, options in SHIELDS.items():
            if "weigh_rows" in options and family not in ("networks", "series"):
                continue
            for seed in range(2):
                key = {"kind": "shields", "family": family, "shield": shield, "seed": seed}
                do_part(PARTS, key, lambda f=family, s=seed, o=options: figures(audit(f, s, **o)))


def promises() -> None:
    """Twenty runs with noise: each bound against what was promised."""
    for family in FAMILIES:
        for seed, (epsilon, secure) in enumerate(PROMISES, 10):
            key = {"kind": "promises", "family": family, "shield": f"noise, epsilon {epsilon:g}", "seed": seed}
            do_part(PARTS, key, lambda f=family, s=seed, e=epsilon, m=secure: figures(audit(f, s, e, m)))


def larger_networks(seed: int) -> Tables:
    """Five sites of 10 variables, 2,000 rows each."""
    return ct.make_networks(10, 5, 10_000, seed=seed)[0]


def measure_cost(method: Any, make: Callable[[int], Tables], seed: int) -> dict[str, Any]:
    """Processor seconds of the run on plain tables, and of an audit beyond the run that it attacks."""
    tables, began = make(seed), time.process_time()
    method.fit(tables, progress=False)
    plain, began = time.process_time() - began, time.process_time()
    found = ct.audit(method, tables, canaries=CANARIES, seed=seed)
    whole = time.process_time() - began
    beyond = whole * found.seconds / (found.seconds + found.run_seconds)
    return {"run_seconds": plain, "audit_seconds": whole, "beyond_seconds": beyond, "ratio": beyond / plain}


def cost() -> None:
    """What an audit costs, three seeds each."""
    cases = {family: (method, make) for family, (method, make, _) in FAMILIES.items()}
    cases["networks, 10 variables"] = (ct.OneRound(compare=False), larger_networks)
    for family, (method, make) in cases.items():
        for seed in range(3):
            key = {"kind": "cost", "family": family, "seed": seed}
            do_part(PARTS, key, lambda m=method, t=make, s=seed: measure_cost(m, t, s))


def learn_windows(steps: int, seed: int) -> dict[str, Any]:
    """Audit FedTDD, whose generators learn from 75 windows each and half of 40 canaries."""
    tables = ct.make_series(clients=3, length=80, features=2, seed=seed)[0]
    public = tables.pop("client-2")
    method = ct.FedTDD(
        common=("x0", "x1"), rounds=1, window=6, context=8, width=16, heads=2, encoders=1, decoders=1, imputer_width=4,
        imputer_layers=1, diffusion_steps=10, sampler_steps=2, batch=16, pretrain_steps=5, token_steps=2, start_steps=5,
        corrector_steps=2, first_steps=steps, last_steps=0, rate=3e-3, chunk=1000,
    )  # fmt: skip
    return figures(ct.audit(method, tables, public=public, canaries=40, seed=seed))


def windows() -> None:
    """FedTDD's generators by a reference model: the more steps, the more they know by heart."""
    for steps in (50, 800):
        key = {"kind": "windows", "family": "series", "shield": f"none, {steps} steps", "seed": 0}
        do_part(PARTS, key, lambda n=steps: learn_windows(n, 0))


KINDS = {"shields": shields, "promises": promises, "cost": cost, "windows": windows}


def main() -> None:
    warnings.simplefilter("ignore")
    for kind in sys.argv[1:] or KINDS:
        KINDS[kind]()
    write("privacy-audit", "shields", "promises", "windows")
    write("privacy-audit-cost", "cost")
    if shields := read_parts(PARTS, kind="shields"):
        write_results("privacy-audit-shields", means(shields), seed="0 and 1", note=about(shields))


def means(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the means over seeds of what the page's table shows."""
    shown = {"bound": "epsilon", "members_found": "true_positives", "reconstructed": "recovered"}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for part in sorted(parts, key=lambda part: (part["family"], part["shield"])):
        groups.setdefault((part["family"], part["shield"]), []).append(part)
    return [
        {
            "family": family,
            "shield": shield,
            **{new: statistics.fmean(float(one[name]) for one in group) for new, name in shown.items()},
        }
        for (family, shield), group in groups.items()
    ]


def write(name: str, *kinds: str) -> None:
    """Write the parts of some kinds that there are, sorted."""
    found = [part for kind in kinds for part in read_parts(PARTS, kind=kind)]
    rows = [{name: part[name] for name in part if name not in ("commit", "machine")} for part in found]
    rows.sort(key=lambda row: (row["kind"], row["family"], row.get("shield", ""), row["seed"]))
    if rows:
        write_results(name, rows, seed="0 and on; promises 10 to 14", note=about(found))


if __name__ == "__main__":
    main()
