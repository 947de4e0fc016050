"""OneRound beside other ways to learn the same network from pooled rows: DYNOTEARS (ours), VARLiNGAM and PCMCI+.

Run: python benchmarks/networks/peers.py [--seeds 3]
The last two need the extra `baselines` and are left out without it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
from baselines import Alldata
from measuring import Learn, average, finish, measure, options, show

import cotempo as ct


def varlingam(clients: Mapping[str, ct.Series], truth: Any) -> ct.Network:
    """Directions by non-Gaussianity, which these data do not have."""
    import lingam

    model = lingam.VARLiNGAM(lags=1, criterion=None, prune=True)
    model.fit(pooled(clients))
    now, before = (np.where(np.abs(part) >= 0.15, part, 0.0).T for part in model.adjacency_matrices_[:2])
    return ct.Network(now, before[None])


def pcmci(clients: Mapping[str, ct.Series], truth: Any) -> ct.Network:
    """PCMCI+ with partial correlations; a link without a direction counts as none."""
    from tigramite import data_processing
    from tigramite.independence_tests.parcorr import ParCorr
    from tigramite.pcmci import PCMCI

    frame = data_processing.DataFrame(pooled(clients))
    found = PCMCI(dataframe=frame, cond_ind_test=ParCorr(), verbosity=0).run_pcmciplus(tau_max=1, pc_alpha=0.01)
    edges = (found["graph"] == "-->") * found["val_matrix"]
    return ct.Network(edges[:, :, 0], edges[:, :, 1][None])


def pooled(clients: Mapping[str, ct.Series]) -> np.ndarray:
    """The rows in one place, as they were before they were dealt out: parts overlap by one row."""
    first, *rest = (clients[name].values for name in sorted(clients))
    return np.vstack([first, *(values[1:] for values in rest)])


WAYS: dict[str, Learn] = {
    "OneRound": lambda clients, truth: ct.OneRound(compare=False, scaled=False).fit(clients).network,
    "DYNOTEARS": lambda clients, truth: Alldata().fit(clients),
}
if importlib.util.find_spec("lingam"):
    WAYS["VARLiNGAM"] = varlingam
if importlib.util.find_spec("tigramite"):
    WAYS["PCMCI+"] = pcmci


def main() -> None:
    chosen = options(__doc__, seeds=3)
    rows = []
    for variables, noise in ((20, "equal"), (20, "unequal"), (50, "equal")):
        for name, learn in WAYS.items():
            if name == "PCMCI+" and variables > 20:
                continue  # more than five minutes a fit
            data = {"variables": variables, "clients": 8, "samples": 512, "noise": noise}
            runs = [measure(learn, data, seed) for seed in range(chosen.seeds)]
            rows.append({"variables": variables, "noise": noise, "method": name, **average(runs)})
            show(rows[-1])
    said = "; ".join(
        f"d={r['variables']} {r['noise']} {r['method']} {r['W_shd_double']:.1f} in {r['cpu_seconds']:.2g} s"
        for r in rows
    )
    finish("peers", rows, chosen.seeds, "wrong edges within a time step, CPU seconds: " + said)


if __name__ == "__main__":
    main()
