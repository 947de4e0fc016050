"""Benefit of FDBNL, PFDBNL and OneRound: whatever the units, with a copy of oneself, and with relatives.

    units      what the gain changes when columns' units are spread by 1, 100 and 10,000, and columns are shifted
    relatives  the gain with clients that have the same network: what joining really brings
    copy       one client's rows given to two clients: nobody knows more than before, so nobody should be helped

Run: python benchmarks/networks/benefit.py [--seeds 10] [--first 3000] [--methods OneRound FDBNL PFDBNL]
and, when all parts are there: python benchmarks/networks/benefit.py --table
A process measures `--seeds` seeds from `--first` on and writes a part for each; `--seeds 1 --first 3007` only that one.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from parts import FOLDER, about, do_part, read_parts
from results import write_results

import cotempo as ct
from cotempo.threads import limit_threads

PARTS = FOLDER / "networks_benefit"
METHODS = {"FDBNL": ct.FDBNL, "PFDBNL": ct.PFDBNL, "OneRound": ct.OneRound}
SIZE = {"variables": 5, "noise": "unequal"}
CLIENTS, ROWS = 4, (50, 150)
SPREADS = (100.0, 10_000.0)


def measure(method: str, rows: int, seed: int) -> dict[str, float]:
    """Mean gain over clients with relatives and with a copy, and the largest change of a gain with the units."""
    clients, _ = ct.make_networks(clients=CLIENTS, samples=CLIENTS * rows, seed=seed, **SIZE)
    with limit_threads(1), warnings.catch_warnings(action="ignore"):
        began = time.process_time()
        plain = gains(method, clients)
        compared = time.process_time() - began
        began = time.process_time()
        METHODS[method](compare=False).fit(clients, progress=False)
        found = {"relatives": mean(plain), "helped": mean({k: float(v > 0) for k, v in plain.items()})}
        found |= {"cpu_seconds": compared, "cpu_seconds_without": time.process_time() - began}
        for spread in SPREADS:
            factor = spread ** np.linspace(-0.5, 0.5, SIZE["variables"])
            moved = {
                name: ct.Series.from_arrays(table.values * factor + 100.0 * factor, features=table.features)
                for name, table in clients.items()
            }
            other = gains(method, moved)
            found[f"change_{spread:.0f}"] = max(abs(other[name] - plain[name]) for name in plain)
        copies = gains(method, dict.fromkeys(("one", "two"), clients["client-0"]))
        found |= {"copy": mean(copies), "copy_helped": mean({k: float(v > 0) for k, v in copies.items()})}
    return found


def gains(method: str, clients: dict[str, ct.Series]) -> dict[str, float]:
    """Every client's gain, in nats a row."""
    fitted = METHODS[method]().fit(clients, progress=False)
    return {name: said.gain for name, said in fitted.benefit.items()}


def mean(values: dict[str, float]) -> float:
    return float(np.mean(list(values.values())))


def table() -> None:
    """Means and standard errors over seeds; the largest change with the units over all of them."""
    lines: list[dict[str, Any]] = []
    for method in METHODS:
        for rows in ROWS:
            parts = read_parts(PARTS, method=method, rows=rows)
            if not parts:
                continue
            line: dict[str, Any] = {"method": method, "rows": rows, "seeds": len(parts)}
            for name in ("relatives", "copy"):
                values = np.array([part[name] for part in parts])
                line |= {name: float(values.mean()), f"{name}_error": float(values.std(ddof=1) / len(values) ** 0.5)}
            line |= {name: mean_of(parts, name) for name in ("helped", "copy_helped")}
            line |= {f"change_{s:.0f}": max(part[f"change_{s:.0f}"] for part in parts) for s in SPREADS}
            line |= {name: mean_of(parts, name) for name in ("cpu_seconds", "cpu_seconds_without")}
            lines.append(line)
            print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in line.items()))
    parts = read_parts(PARTS)
    note = f"{CLIENTS} clients, 5 variables, unequal noise; gains in nats a row; {about(parts)}"
    write_results("networks/benefit", lines, seed=sorted({part["seed"] for part in parts}), note=note)


def mean_of(parts: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([part[name] for part in parts]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--first", type=int, default=3000, help="the first seed; those below were looked at before")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--table", action="store_true", help="measure nothing; write the table of the parts there are")
    options = parser.parse_args()
    if options.table:
        return table()
    for seed in range(options.first, options.first + options.seeds):
        for method in options.methods:
            for rows in ROWS:
                key = {"method": method, "rows": rows, "seed": seed}
                do_part(PARTS, key, lambda key=key: measure(**key))


if __name__ == "__main__":
    main()
