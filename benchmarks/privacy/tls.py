"""What all of the privacy costs between sites: FDBNL over TLS with 3 sites, with everything on and without.

Run: python benchmarks/privacy/tls.py [repeats]

With: sites made their own keys, the kit's policy, contract, ledger, secure sum. Without: keys made centrally, a policy
that lets everything pass, sums in the clear; contract and ledger are part of every deployment and cannot be left out.
Both deployments stand beside each other on this machine and are asked in turn, in alternating order.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "scale"))

from deployment import deployment
from results import write_results

import cotempo as ct
from cotempo.engines.flower.coordinator.engine import Flower

SEED = 0


def timed(method: ct.FDBNL, server: Path, is_on: bool) -> dict[str, Any]:
    """One run: its seconds from beginning to end, and how many exchanges it took."""
    exchanges, exchange = 0, Flower.exchange

    def counted(self: Flower, questions: Any) -> Any:
        nonlocal exchanges
        exchanges += 1
        return exchange(self, questions)

    Flower.exchange = counted  # type: ignore[method-assign]
    began = time.perf_counter()
    try:
        privacy = ct.Privacy(secure_sum=is_on)
        fitted = ct.fit(method, engine="flower", server=server, seed=SEED, privacy=privacy, progress=False)
    finally:
        Flower.exchange = exchange  # type: ignore[method-assign]
    assert not fitted.failures
    return {
        "secure": is_on, "seconds": time.perf_counter() - began, "steps": len(fitted.history), "exchanges": exchanges,
        "seconds_in_steps": sum(record["seconds"] for record in fitted.history),
    }  # fmt: skip


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    method = ct.FDBNL(rounds=12)
    tables, _ = ct.make_networks(variables=10, clients=3, samples=1500, seed=SEED)
    rows = []
    with ExitStack() as stack:
        servers = {is_on: stack.enter_context(deployment(method, tables, is_strict=is_on)) for is_on in (False, True)}
        for repeat in range(-1, repeats):  # the first pair, which loads modules at the sites, does not count
            for is_on in (False, True) if repeat % 2 else (True, False):
                row = {"repeat": repeat, **timed(method, servers[is_on].folder, is_on)}
                print(row, flush=True)
                rows.append(row)
    pairs = {is_on: [row["seconds"] for row in rows if row["secure"] == is_on][1:] for is_on in (False, True)}
    ratios = np.array(pairs[True]) / np.array(pairs[False])
    error = ratios.std(ddof=1) / np.sqrt(len(ratios))
    print(f"ratio {ratios.mean():.2f} ({error:.2f})")
    note = (
        f"FDBNL over TLS, 3 sites on this machine; seconds with everything on over without: {ratios.mean():.2f} "
        f"(standard error {error:.2f}, {len(ratios)} pairs); repeat -1 warms up and does not count"
    )
    write_results("privacy-tls", rows, seed=SEED, note=note)


if __name__ == "__main__":
    main()
