"""Generating series: the paper's tables, with FedTDD taken apart, on time-blocked splits.

    python benchmarks/series/generation.py --size mini|gpu|paper --table 2 --data stocks etth

Table 2: half of everything missing. 3: a quarter of the features common. 5: a quarter public. 6: a quarter of the
windows with holes in common features only. 7: imbalanced clients. 8: ratios of aggregation. scarce: little public data.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from results import write_results
from setting import NAMES, Setting, make_setting

from cotempo.series import FedTDD
from cotempo.series.baselines import train_central, train_local
from cotempo.series.metrics import ContextFID, correlational, discriminative, predictive
from cotempo.series.windows import Rows

TABLES = {
    "2": {}, "3": {"common": 0.25}, "5": {"public": 0.25}, "6": {"split": 0.25}, "7": {"imbalanced": True}, "8": {},
    "scarce-02": {"public": 0.02}, "scarce-05": {"public": 0.05}, "scarce-10": {"public": 0.1},
}  # fmt: skip
PRINTED = {  # Context-FID of Table 2
    "Centralized*": {"stocks": 0.682, "etth": 0.281, "mujoco": 0.782, "energy": 0.533, "fmri": 1.737},
    "Centralized": {"stocks": 3.548, "etth": 8.870, "mujoco": 10.00, "energy": 9.343, "fmri": 13.56},
    "Local": {"stocks": 1.648, "etth": 1.313, "mujoco": 0.751, "energy": 1.179, "fmri": 1.694},
    "Pre-trained": {"stocks": 1.047, "etth": 0.326, "mujoco": 0.617, "energy": 0.412, "fmri": 1.411},
    "FedTDD paper": {"stocks": 0.675, "etth": 0.271, "mujoco": 0.529, "energy": 0.376, "fmri": 1.459},
}
SMALL = {"width": 32, "diffusion_steps": 100, "imputer_width": 32, "batch": 64}
FULL = {"width": 64, "diffusion_steps": 500, "batch": 128}
TINY = {"width": 8, "diffusion_steps": 10, "sampler_steps": 2, "imputer_width": 8, "imputer_layers": 1, "batch": 8}
COLUMNS = ("clients", "seeds", "rounds", "first", "later", "pretrain", "imputer", "judge", "sizes")
SIZES = {
    "tiny": dict(zip(COLUMNS, (2, 1, 2, 2, 1, 2, 1, 2, TINY), strict=True)),
    "mini": dict(zip(COLUMNS, (4, 3, 3, 1000, 500, 1000, 300, 200, SMALL), strict=True)),
    "gpu": dict(zip(COLUMNS, (10, 3, 3, 3000, 1500, 3000, 500, 200, FULL), strict=True)),
    "paper": dict(zip(COLUMNS, (10, 5, 5, 7500, 5000, 10_000, 600, 200, FULL), strict=True)),
}
DEFAULT = ["Local", "Local + interpolation", "Pre-trained", "+ public windows", "FedTDD", "FedTDD paper"]
METHODS = ("Centralized*", "Centralized", "Local", "Local + interpolation", "Pre-trained", "+ public windows", "FedTDD",
           "FedTDD paper", "1:0", "1:1", "1:[0,1]")  # fmt: skip
ALPHA = {"stocks": 1.0, "etth": 0.1, "mujoco": 0.1, "energy": 0.5, "fmri": 0.1}


def train_method(method: str, setting: Setting, data: str, size: dict, seed: int) -> dict:
    """A sampler for each client: count to windows, in the units and features of the client."""
    total = size["first"] + (size["rounds"] - 1) * size["later"]
    common = {"rounds": size["rounds"], "pretrain_steps": size["pretrain"], "imputer_steps": size["imputer"],
              "first_steps": size["first"], "later_steps": size["later"], **size["sizes"]}  # fmt: skip
    federated = {
        "Pre-trained": {"alpha": 0.0, "public_windows": 0},
        "+ public windows": {"alpha": 0.0, "public_windows": 500},
        "FedTDD": {"public_windows": 500},
        "FedTDD paper": {"preset": "paper", "alpha": ALPHA[data], "imputer_steps": 0, "sampler": "dpm"},
        "1:0": {"alpha": 0.0, "public_windows": 500},
        "1:1": {"alpha": 1.0, "public_windows": 500, "rounds": 1, "first_steps": total},
        "1:[0,1]": {"alpha": 1.0, "public_windows": 500},
    }  # fmt: skip
    if method in federated:
        model = FedTDD(common=setting.common, **{**common, **federated[method]})
        fitted = model.fit(setting.clients, public=setting.public, seed=seed, progress=False)
        return {
            "models": {name: fitted[name] for name in setting.clients},
            "membership": max(fitted.membership.values(), default=0.5),
            "withheld": sum(fitted.withheld.values()),
        }
    sizes = FedTDD(common=setting.common, **common)
    if method.startswith("Local"):
        fill = "linear" if "interpolation" in method else "zero"
        return {"models": train_local(setting.clients, sizes, total, fill=fill, seed=seed)}
    owners = setting.owners.values()
    tables = {str(k): owner.whole if method == "Centralized*" else owner.series for k, owner in enumerate(owners)}
    public = setting.public if method == "Centralized" else next(iter(tables.values()))
    central = train_central(tables, public, sizes, total, seed=seed)
    return {"models": dict.fromkeys(setting.clients, central)}


def windows_of(series, features, length: int) -> np.ndarray:
    columns = [series.features.index(name) for name in features]
    return Rows.of(series).windows(length)[:, :, columns]


def run(table: str, data: str, size: dict, methods, seed: int) -> list[dict]:
    """All methods on one data set and seed, judged by the same encoders."""
    setting = make_setting(data, clients=size["clients"], seed=seed, **TABLES[table])
    length = 24
    real = {name: windows_of(owner.complete, owner.complete.features, length) for name, owner in setting.owners.items()}
    judges = {name: ContextFID(windows, steps=size["judge"], seed=seed) for name, windows in real.items()}
    floor = float(np.mean([judge.floor() for judge in judges.values()]))
    rows = []
    for method in methods:
        began = time.perf_counter()
        made = train_method(method, setting, data, size, seed)
        seconds = time.perf_counter() - began
        scores: dict[str, list[float]] = {
            "Context-FID": [],
            "correlational": [],
            "discriminative": [],
            "predictive": [],
        }
        for name, owner in setting.owners.items():
            count = min(500, len(real[name]))
            fake = windows_of(made["models"][name].sample(count, seed=seed), owner.complete.features, length)
            scores["Context-FID"].append(judges[name].score(fake))
            scores["correlational"].append(correlational(real[name], fake))
            scores["discriminative"].append(discriminative(real[name], fake, steps=size["judge"], seed=seed))
            scores["predictive"].append(predictive(real[name], fake, steps=size["judge"], seed=seed))
        rows.append(
            {"table": table, "data": data, "method": method, "seed": seed,
             **{key: float(np.mean(values)) for key, values in scores.items()}, "Context-FID floor": floor,
             "printed Context-FID": PRINTED.get(method, {}).get(data, ""), "membership": made.get("membership", ""),
             "withheld": made.get("withheld", ""), "seconds": seconds}
        )  # fmt: skip
        print(
            {key: round(value, 4) if isinstance(value, float) else value for key, value in rows[-1].items()}, flush=True
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="mini")
    parser.add_argument("--table", choices=sorted(TABLES), default="2")
    parser.add_argument("--data", nargs="*", choices=NAMES, default=["stocks", "etth"])
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=DEFAULT)
    parser.add_argument("--seeds", type=int)
    given = parser.parse_args()
    size = SIZES[given.size]
    seeds = given.seeds or size["seeds"]
    for data in given.data:
        rows: list[dict] = []
        for seed in range(seeds):
            rows += run(given.table, data, size, given.methods, seed)
            name = f"series/generation-table{given.table}-{data}-{given.size}"
            write_results(name, rows, seed=list(range(seed + 1)), note=f"size {given.size}")


if __name__ == "__main__":
    main()
