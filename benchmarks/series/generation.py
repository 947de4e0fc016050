"""Generating series: the paper's tables, with FedTDD taken apart, on time-blocked splits.

    python benchmarks/series/generation.py --size mini|gpu|paper --table 2 --data stocks etth

Table 2: half of everything missing. 3: a quarter of the features common. 5: a quarter public. 6: a quarter of the
windows with holes in common features only. 7: imbalanced clients. 8: ratios of aggregation. scarce: little public data.
Parts of one table may run apart (`--parts FOLDER --seeds 0 --methods Local`) and be put together (`--collect FOLDER`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from printed import printed
from results import write_results
from setting import NAMES, Setting, make_setting

from cotempo.series import FedTDD, interpolate
from cotempo.series.baselines import train_central, train_local
from cotempo.series.metrics import ContextFID, correlational, discriminative_all, predictive_all
from cotempo.series.windows import Rows

TABLES = {
    "2": {}, "3": {"common": 0.25}, "5": {"public": 0.25}, "6": {"split": 0.25}, "7": {"imbalanced": True}, "8": {},
    "scarce-02": {"public": 0.02}, "scarce-05": {"public": 0.05}, "scarce-10": {"public": 0.1},
}  # fmt: skip
SMALL = {"width": 32, "diffusion_steps": 100, "imputer_width": 32, "batch": 64, "token_steps": 1000}
FULL = {"width": 64, "diffusion_steps": 500, "batch": 128}
TINY = {"width": 8, "diffusion_steps": 10, "sampler_steps": 2, "imputer_width": 8, "imputer_layers": 1, "batch": 8}
COLUMNS = ("clients", "seeds", "rounds", "first", "later", "pretrain", "imputer", "judge", "chunk", "sizes")
SIZES = {
    "tiny": dict(zip(COLUMNS, (2, 1, 2, 2, 2, 2, 1, 2, 2, TINY), strict=True)),
    "mini": dict(zip(COLUMNS, (4, 3, 3, 1000, 500, 2000, 300, 200, 250, SMALL), strict=True)),
    "gpu": dict(zip(COLUMNS, (10, 3, 3, 3000, 1500, 6000, 500, 200, 500, FULL), strict=True)),
    "paper": dict(zip(COLUMNS, (10, 1, 5, 7500, 5000, 10_000, 600, 200, 1000, FULL), strict=True)),
}
ALPHA = {"stocks": 1.0, "etth": 0.1, "mujoco": 0.1, "energy": 0.5, "fmri": 0.1}
PAPER = {"preset": "paper", "imputer_steps": 0, "sampler": "dpm"}
FEDERATED = {
    "Pre-trained": {"alpha": 0.0},
    "FedTDD": {},
    "FedTDD, not rough": {"rough": False},
    "FedTDD, own start": {"start_steps": 0},
    "FedTDD, alpha 1": {"alpha": 1.0},
    "FedTDD + public windows": {"public_windows": 500},
    "Pre-trained, paper": {**PAPER, "alpha": 0.0},
    "FedTDD, paper": PAPER,
    "1:0": {**PAPER, "alpha": 1.0, "growth": "none"},
    "1:1": {**PAPER, "alpha": 1.0, "growth": "constant"},
    "1:[0,1]": {**PAPER, "alpha": 1.0},
    "1:alpha[0,1]": PAPER,
}
FILLS = {"Local": "zero", "Local + interpolation": "linear", "Local + interpolation, rough": "rough"}
METHODS = ("Centralized*", "Centralized", *FILLS, *FEDERATED)
LOOP = [*FILLS, "Pre-trained", "FedTDD", "FedTDD, paper"]
TAKEN_APART = ["FedTDD, not rough", "FedTDD, own start", "FedTDD + public windows", "Pre-trained, paper"]
DEFAULT = {
    "2": ["Centralized*", "Centralized", *LOOP, *TAKEN_APART],
    "8": ["1:0", "1:1", "1:[0,1]", "1:alpha[0,1]"],
    **{f"scarce-{share}": ["Pre-trained", "FedTDD", "FedTDD, alpha 1"] for share in ("02", "05", "10")},
}


def options(method: str, data: str, size: dict) -> dict:
    """Parameters of FedTDD; all methods take as many steps with a client's diffusion model."""
    later = (size["rounds"] - 1) * size["later"]
    common = {"rounds": size["rounds"], "pretrain_steps": size["pretrain"], "first_steps": size["first"],
              "chunk": size["chunk"], **size["sizes"]}  # fmt: skip
    changes = FEDERATED.get(method, {})
    if "preset" in changes:
        return {**common, "later_steps": size["later"], "alpha": ALPHA[data], **changes}
    ours = {"imputer_steps": size["imputer"], "start_steps": size["first"] + later, "later_steps": size["later"] // 2}
    return {**common, **ours, "last_steps": later - later // 2, **changes}


def train_method(method: str, setting: Setting, data: str, size: dict, seed: int) -> dict:
    """A model for each client."""
    model = FedTDD(common=setting.common, **options(method, data, size))
    if method in FEDERATED:
        fitted = model.fit(setting.clients, public=setting.public, seed=seed, progress=False)
        return {
            "models": {name: fitted[name] for name in setting.clients},
            "membership": max(fitted.membership.values(), default=0.5),
            "released": len(fitted.state.bank),
            "withheld": sum(fitted.withheld.values()),
        }
    if method in FILLS:
        steps = model.backbone_steps
        return {"models": train_local(setting.clients, model, steps, fill=FILLS[method], seed=seed)}
    owners = setting.owners.values()
    tables = {str(k): owner.whole if method == "Centralized*" else owner.series for k, owner in enumerate(owners)}
    public = setting.public if method == "Centralized" else next(iter(tables.values()))
    central = train_central(tables, public, model, model.backbone_steps, seed=seed)
    return {"models": dict.fromkeys(setting.clients, central)}


def windows_of(series, features, length: int) -> np.ndarray:
    columns = [series.features.index(name) for name in features]
    return Rows.of(series).windows(length)[:, :, columns]


def run(table: str, data: str, size: dict, methods: list[str], seed: int, quick: bool):
    """All methods on one data set and seed, judged by the same encoders; rows as they are found."""
    setting = make_setting(data, clients=size["clients"], seed=seed, **TABLES[table])
    length = 24
    real = {name: windows_of(owner.complete, owner.complete.features, length) for name, owner in setting.owners.items()}
    judges = ContextFID.of_all(list(real.values()), steps=size["judge"], seed=seed)
    floor = float(np.mean([judge.floor() for judge in judges]))
    for method in methods:
        began = time.perf_counter()
        made = train_method(method, setting, data, size, seed)
        seconds = time.perf_counter() - began
        scores = judged(made["models"], setting, real, judges, 0 if quick else size["judge"], seed)
        errors = filling_errors(made["models"], setting) if method in FEDERATED else {"filling": "", "lines": ""}
        row = {
            "table": table, "data": data, "method": method, "seed": seed, **scores, "Context-FID floor": floor,
            "printed Context-FID": printed(table, method, data), "filling MAE": errors["filling"],
            "interpolation MAE": errors["lines"], "membership": made.get("membership", ""),
            "released": made.get("released", ""), "withheld": made.get("withheld", ""), "seconds": seconds,
        }  # fmt: skip
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
        yield row


def judged(models: dict, setting: Setting, real: dict, judges: list[ContextFID], steps: int, seed: int) -> dict:
    """Mean scores of the clients' synthetic windows."""
    fakes = []
    for name, windows in real.items():
        drawn = models[name].sample(min(500, len(windows)), seed=seed)
        fakes.append(windows_of(drawn, setting.owners[name].complete.features, windows.shape[1]))
    reals = list(real.values())
    scores = {
        "Context-FID": [judge.score(fake) for judge, fake in zip(judges, fakes, strict=True)],
        "correlational": [correlational(*pair) for pair in zip(reals, fakes, strict=True)],
    }
    for name, score in (("discriminative", discriminative_all), ("predictive", predictive_all)):
        scores[name] = score(reals, fakes, steps=steps, seed=seed) if steps else []
    return {key: float(np.mean(values)) if values else "" for key, values in scores.items()}


def filling_errors(models: dict, setting: Setting) -> dict[str, float]:
    """Mean absolute error on the cells clients miss, in units of half the range, of the models and of interpolation."""
    found = {"filling": [], "lines": []}
    for name, owner in setting.owners.items():
        half = np.array([setting.half_range[feature] for feature in owner.series.features])
        for key, filled in (("filling", models[name].impute(owner.series)), ("lines", interpolate(owner.series))):
            found[key].append(np.abs((filled.values - owner.complete.values) / half)[owner.hidden])
    return {key: float(np.concatenate(parts).mean()) for key, parts in found.items()}


def collect(folder: Path) -> None:
    """Result files from the parts in a folder, whatever they hold."""
    paths = sorted(folder.glob("series-generation-*.jsonl"))
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    for name in sorted({row["file"] for row in rows}):
        chosen = [{k: v for k, v in row.items() if k != "file"} for row in rows if row["file"] == name]
        chosen.sort(key=lambda row: (row["seed"], METHODS.index(row["method"])))
        write_results(name, chosen, seed=sorted({row["seed"] for row in chosen}), note="parts run apart")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="mini")
    parser.add_argument("--table", choices=sorted(TABLES), default="2")
    parser.add_argument("--data", nargs="*", choices=NAMES, default=["stocks", "etth"])
    parser.add_argument("--methods", nargs="*", choices=METHODS)
    parser.add_argument("--seeds", nargs="*", type=int)
    parser.add_argument("--quick", action="store_true", help="leave out the discriminative and predictive scores")
    parser.add_argument("--parts", type=Path)
    parser.add_argument("--collect", type=Path)
    given = parser.parse_args()
    if given.collect:
        return collect(given.collect)
    size = SIZES[given.size]
    methods = given.methods or DEFAULT.get(given.table, LOOP)
    for data in given.data:
        name, rows = f"series/generation-table{given.table}-{data}-{given.size}", []
        for seed in given.seeds if given.seeds is not None else range(size["seeds"]):
            for row in run(given.table, data, size, methods, seed, given.quick):
                rows.append(row)
                if given.parts:
                    with open(given.parts / f"series-generation-{name[18:]}-{seed}.jsonl", "a") as file:
                        file.write(json.dumps({**row, "file": name}) + "\n")
        if not given.parts:
            write_results(name, rows, seed=sorted({row["seed"] for row in rows}), note=f"size {given.size}")


if __name__ == "__main__":
    main()
