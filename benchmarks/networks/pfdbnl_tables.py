"""Tables 1 to 6: PFDBNL on clients with networks of their own (nothing in common), beside the printed numbers.

Run: python benchmarks/networks/pfdbnl_tables.py --tables 1 2 3 4 5 6 [--seeds 5] [--jobs 16] [--collect 1]

Every cell and seed is a part of its own; `--collect 1` only makes the tables, from whatever parts there are.

Table 1: beside FDBNL. 2 and 3: more variables, low and high connectivity. 4: j of 6 clients take part in a round.
5 and 6: 512 rows over 2 to 32 clients. The papers' sparsity is .1 for d = 5, 10 and .01 for d = 15, 20. A reversed edge
counts once, as in the definition the papers cite; the CSV has both.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from measuring import average, federated, finish, measure, options, personal, show
from parts import FOLDER, about, do_parts, read_parts

from drawing import plot_measures

KEYS = ("W_shd", "W_tpr", "W_fdr", "A_shd", "A_tpr", "A_fdr")
#: SHD, TPR, FDR of W, then of A, as printed.
PRINTED: dict[int, dict[Any, tuple[float, ...]]] = {
    1: {"PFDBNL": (6.2, 0.64, 0.55, 5.4, 0.51, 0.19), "FDBNL": (10.2, 0.35, 0.60, 12.7, 0.24, 0.33)},
    2: {5: (4.4, 0.61, 0.72, 2.8, 0.81, 0.35), 10: (16.8, 0.49, 0.67, 10.9, 0.53, 0.47),
        15: (44.7, 0.55, 0.51, 29.6, 0.31, 0.23), 20: (79.2, 0.53, 0.53, 32.2, 0.31, 0.34)},
    3: {5: (6.2, 0.64, 0.55, 5.4, 0.51, 0.19), 10: (13.6, 0.64, 0.54, 8.3, 0.52, 0.21),
        15: (52.0, 0.71, 0.44, 41.0, 0.31, 0.36), 20: (110.0, 0.76, 0.59, 31.0, 0.27, 0.19)},
    4: {1: (14.2, 0.59, 0.50, 8.1, 0.56, 0.22), 2: (13.6, 0.61, 0.49, 8.3, 0.55, 0.21),
        3: (14.3, 0.60, 0.53, 8.7, 0.55, 0.23), 4: (14.9, 0.58, 0.55, 7.7, 0.58, 0.23),
        5: (14.5, 0.60, 0.54, 8.5, 0.56, 0.23)},
    5: {2: (11.3, 0.68, 0.49, 6.7, 0.63, 0.17), 4: (20.6, 0.44, 0.62, 10.5, 0.52, 0.31),
        8: (17.4, 0.51, 0.54, 10.7, 0.48, 0.23), 16: (18.2, 0.51, 0.54, 10.8, 0.48, 0.28),
        32: (19.4, 0.49, 0.59, 14.8, 0.36, 0.37)},
    6: {2: (56.2, 0.45, 0.40, 33.2, 0.38, 0.18), 4: (57.5, 0.46, 0.45, 36.1, 0.31, 0.16),
        8: (54.3, 0.46, 0.37, 40.8, 0.33, 0.16), 16: (52.1, 0.34, 0.49, 55.6, 0.25, 0.21),
        32: (56.1, 0.32, 0.51, 56.3, 0.17, 0.27)},
}  # fmt: skip


def cases(table: int) -> list[tuple[Any, str, Any, dict[str, Any]]]:
    """What is varied, the way to learn, and the data, of every cell of a table."""

    def ways(variables: int, cohort: int | None = None) -> dict[str, Any]:
        sparsity = 0.1 if variables <= 10 else 0.01
        paper = {"preset": "paper", "lambda_within": sparsity, "lambda_across": sparsity}
        return {"PFDBNL": personal(cohort), "PFDBNL, preset paper": personal(cohort, **paper)}

    own = {"shared": 0.0}
    if table == 1:
        data = {"variables": 5, "clients": 6, "samples": 180, "degree": 4.0, **own}
        both = {**ways(5), "FDBNL": federated(), "FDBNL, preset paper": federated(preset="paper")}
        return [(name.split(",")[0], name, learn, data) for name, learn in both.items()]
    if table in (2, 3):
        found = []
        for d in (5, 10, 15, 20):
            degree = d // 2 - d / 5 if table == 2 else d - d / 5
            data = {"variables": d, "clients": 6, "samples": 36 * d, "degree": degree, **own}
            found += [(d, name, learn, data) for name, learn in ways(d).items()]
        return found
    if table == 4:
        data = {"variables": 10, "clients": 6, "samples": 360, "degree": 8.0, **own}
        return [(j, name, learn, data) for j in (1, 2, 3, 4, 5, 6) for name, learn in ways(10, j).items()]
    d = 10 if table == 5 else 20
    return [
        (k, name, learn, {"variables": d, "clients": k, "samples": 512, **own})
        for k in (2, 4, 8, 16, 32)
        for name, learn in ways(d).items()
    ]


VARIED = {2: "variables", 3: "variables", 4: "clients a round", 5: "clients", 6: "clients"}


def main() -> None:
    chosen = options(__doc__, seeds=5, tables=[1], jobs=1, collect=0, parts=str(FOLDER))
    folder = Path(chosen.parts)
    work = [
        ({"pfdbnl": table, "case": varied, "method": name, "seed": seed}, partial(measure_cell, table, place, seed))
        for table in chosen.tables for seed in range(chosen.seeds)
        for place, (varied, name, _, _) in enumerate(cases(table))
    ]  # fmt: skip
    if not (chosen.plot or chosen.collect):
        do_parts(folder, work, chosen.jobs)
    for table in chosen.tables:
        if not chosen.plot:
            tabulate(table, read_parts(folder, pfdbnl=table))
        if table > 1:
            plot_measures(f"pfdbnl_table{table}", "case", VARIED[table], log=table > 4)


def measure_cell(table: int, place: int, seed: int) -> dict[str, float]:
    """One cell of a table on one seed."""
    _, _, learn, data = cases(table)[place]
    return measure(learn, data, seed)


def tabulate(table: int, measured_runs: list[dict[str, Any]]) -> None:
    """Write the means over the seeds that every cell has, beside the printed numbers."""
    order = [(varied, name) for varied, name, _, _ in cases(table)]
    runs_of: dict[Any, list[dict[str, Any]]] = {key: [] for key in order}
    where = about(measured_runs)
    for run in sorted(measured_runs, key=lambda run: run["seed"]):
        kept = {name: value for name, value in run.items() if name not in ("pfdbnl", "commit", "machine")}
        runs_of[kept.pop("case"), kept.pop("method")].append(kept)
    seeds = sorted(set.intersection(*({run["seed"] for run in runs} for runs in runs_of.values())))
    rows = []
    for (varied, name), runs in runs_of.items():
        runs[:] = [{k: v for k, v in run.items() if k != "seed"} for run in runs if run["seed"] in seeds]
        printed = PRINTED[table].get(varied, (float("nan"),) * 6)
        row = {"case": varied, "method": name, **average(runs)}
        rows.append({**row, **{f"printed_{key}": value for key, value in zip(KEYS, printed, strict=True)}})
        show({key: rows[-1][key] for key in ("case", "method", *KEYS, "cpu_seconds")})
    lines = [
        f"{row['case']} {row['method']}: W {row['W_shd']:.1f}/{row['W_tpr']:.2f}/{row['W_fdr']:.2f} "
        f"A {row['A_shd']:.1f}/{row['A_tpr']:.2f}/{row['A_fdr']:.2f}"
        for row in rows
    ]
    said = "; ".join(f"{case}: W {p[0]}/{p[1]}/{p[2]} A {p[3]}/{p[4]}/{p[5]}" for case, p in PRINTED[table].items())
    if table == 4:
        lines.append(f"largest change of mean SHD of W against all six: {largest_change(rows, runs_of)}")
    told = "ours: " + "; ".join(lines) + ". Printed: " + said
    finish(f"pfdbnl_table{table}", rows, len(seeds), f"{told}; {where}")


def largest_change(rows: list[dict[str, Any]], runs_of: dict[Any, list[dict[str, float]]]) -> str:
    """The largest paired difference to full participation, with its standard error."""
    import numpy as np

    worst = []
    for row in rows:
        gaps = np.subtract(*([run["W_shd_double"] for run in runs_of[j, row["method"]]] for j in (row["case"], 6)))
        error = gaps.std(ddof=1) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
        worst.append((abs(gaps.mean()), f"{row['method']}, j={row['case']}: {gaps.mean():+.2f} +- {error:.2f}"))
    return max(worst)[1]


if __name__ == "__main__":
    main()
