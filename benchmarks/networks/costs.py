"""How time and bytes of OneRound and FDBNL grow with variables, clients and rows, with fitted exponents.

Run: python benchmarks/networks/costs.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measuring import finish, options, show

import cotempo as ct
from cotempo.federation import Method

BASE = {"variables": 20, "clients": 8, "samples": 512}
SWEEPS = {"variables": (10, 20, 40, 80), "clients": (2, 8, 32, 128), "samples": (512, 2048, 8192, 32768)}
METHODS: dict[str, Method] = {
    "OneRound": ct.OneRound(compare=False, minimum_rows=1),
    "FDBNL": ct.FDBNL(lambda_within=0.05, lambda_across=0.05, compare=False),
}


def cost(method: Method, setting: dict[str, int]) -> dict[str, float]:
    """CPU seconds of a fit, and bytes that one client sends in all."""
    clients, _ = ct.make_networks(seed=0, **setting)
    began = time.process_time()
    fitted = method.fit(clients)
    seconds = time.process_time() - began
    sent = sum(sum(record["received"].values()) for record in fitted.history)
    return {"cpu_seconds": seconds, "bytes_a_client": sent / setting["clients"], "rounds": fitted.rounds}


def main() -> None:
    options(__doc__, seeds=1)
    rows: list[dict[str, Any]] = []
    fits = []
    for name, method in METHODS.items():
        for what, sizes in SWEEPS.items():
            found = [cost(method, {**BASE, what: size}) for size in sizes]
            for size, values in zip(sizes, found, strict=True):
                rows.append({"method": name, "over": what, "size": size, **values})
                show(rows[-1])
            for measure in ("cpu_seconds", "bytes_a_client"):
                slope = np.polyfit(np.log(sizes), np.log([values[measure] for values in found]), 1)[0]
                fits.append(f"{name} {measure} ~ {what}^{slope:.2f}")
    finish("costs", rows, 1, "; ".join(fits))


if __name__ == "__main__":
    main()
