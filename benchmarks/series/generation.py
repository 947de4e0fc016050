"""Generating series: the paper's tables, with FedTDD taken apart, on time-blocked splits.

    python benchmarks/series/generation.py --size mini|gpu|paper --table 2 --data stocks etth

Table 2: half of everything missing. 3: a quarter of the features common. 5: a quarter public. 6: a quarter of the
windows with holes in common features only. 7: imbalanced clients. 8: ratios of aggregation. scarce: little public data.
Parts of one table may run apart (`--parts FOLDER --seeds 0 --methods Local`) and be put together (`--collect`).
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import cached_property, partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from baselines import train_central, train_local
from figures import draw_scores
from parts import FOLDER, about, do_part, read_parts
from printed import printed
from results import write_results
from setting import NAMES, WINDOW, Setting, make_setting

from cotempo.series import FedTDD, interpolate
from cotempo.series.metrics import ContextFID, correlational, discriminative, predictive
from cotempo.series.windows import SeriesRows

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
PAPER = {"preset": "paper", "token_steps": 0}
FEDERATED = {
    "Pre-trained": {"alpha": 0.0},
    "FedTDD": {"alpha": 0.1},
    "FedTDD, not rough": {"alpha": 0.1, "rough": False},
    "FedTDD, own start": {"alpha": 0.1, "start_steps": 0},
    "FedTDD, alpha 1": {"alpha": 1.0},
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
TAKEN_APART = ["FedTDD, not rough", "FedTDD, own start", "Pre-trained, paper"]
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
    ours = {"corrector_steps": size["imputer"], "start_steps": size["first"] + later, "later_steps": size["later"] // 2}
    return {**common, **ours, "last_steps": later - later // 2, **changes}


def train_method(method: str, setting: Setting, data: str, size: dict, seed: int) -> dict:
    """A model for each client."""
    model = FedTDD(common=setting.common, **options(method, data, size))
    if method in FEDERATED:
        fitted = model.fit(setting.clients, public=setting.public, seed=seed, progress=False)
        return {
            "models": {name: fitted[name] for name in setting.clients},
            "membership": float(np.mean(list(fitted.membership.values()))) if fitted.membership else "",
            "released": len(fitted.state.bank),
            "withheld": sum(fitted.withheld.values()),
        }
    if method in FILLS:
        steps = model.local_steps
        return {"models": train_local(setting.clients, model, steps, fill=FILLS[method], seed=seed)}
    owners = setting.owners.values()
    tables = {str(k): owner.whole if method == "Centralized*" else owner.series for k, owner in enumerate(owners)}
    public = setting.public if method == "Centralized" else next(iter(tables.values()))
    central = train_central(tables, public, model, model.local_steps, seed=seed)
    return {"models": dict.fromkeys(setting.clients, central)}


def windows_of(series, features, length: int) -> np.ndarray:
    columns = [series.features.index(name) for name in features]
    return SeriesRows.of(series).windows(length)[:, :, columns]


class Contest:
    """Methods on one data set and seed, judged by the same encoders."""

    def __init__(self, table: str, data: str, size: dict, seed: int, quick: bool):
        self.table, self.data, self.size, self.seed, self.quick = table, data, size, seed, quick
        self.setting = make_setting(data, clients=size["clients"], seed=seed, **TABLES[table])
        owners = self.setting.owners.items()
        self.real = {name: windows_of(owner.complete, owner.complete.features, WINDOW) for name, owner in owners}

    @cached_property
    def judges(self) -> list[ContextFID]:
        """An encoder for each client."""
        device = self.size["sizes"]["device"]
        options = {"steps": self.size["judge"], "seed": self.seed, "device": device}
        return [ContextFID.of(real, **options) for real in self.real.values()]

    def row(self, method: str) -> dict:
        """Train a method and judge it."""
        began = time.perf_counter()
        made = train_method(method, self.setting, self.data, self.size, self.seed)
        seconds = time.perf_counter() - began
        steps = 0 if self.quick else self.size["judge"]
        device = self.size["sizes"]["device"]
        scores = judged(made["models"], self.setting, self.real, self.judges, steps, self.seed, device)
        errors = {"filling": "", "lines": ""}
        if method in FEDERATED:
            errors = filling_errors(made["models"], self.setting)
        row = {
            **scores, "Context-FID floor": float(np.mean([judge.floor() for judge in self.judges])),
            "printed Context-FID": printed(self.table, method, self.data), "filling MAE": errors["filling"],
            "interpolation MAE": errors["lines"], "membership": made.get("membership", ""),
            "released": made.get("released", ""), "withheld": made.get("withheld", ""), "seconds": seconds,
        }  # fmt: skip
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
        return row


def judged(
    models: dict, setting: Setting, real: dict, judges: list[ContextFID], steps: int, seed: int, device: str
) -> dict:
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
    for name, score in (("discriminative", discriminative), ("predictive", predictive)):
        pairs = zip(reals, fakes, strict=True) if steps else ()
        scores[name] = [score(*pair, steps=steps, seed=seed, device=device) for pair in pairs]
    return {key: float(np.mean(values)) if values else "" for key, values in scores.items()}


def filling_errors(models: dict, setting: Setting) -> dict[str, float]:
    """Mean absolute error on the cells clients miss, in units of half the range, of the models and of interpolation."""
    found = {"filling": [], "lines": []}
    for name, owner in setting.owners.items():
        half = np.array([setting.half_range[feature] for feature in owner.series.features])
        for key, filled in (("filling", models[name].impute(owner.series)), ("lines", interpolate(owner.series))):
            found[key].append(np.abs((filled.values - owner.complete.values) / half)[owner.hidden])
    return {key: float(np.concatenate(parts).mean()) for key, parts in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="mini")
    parser.add_argument("--table", choices=sorted(TABLES), default="2")
    parser.add_argument("--data", nargs="*", choices=NAMES, default=["stocks", "etth"])
    parser.add_argument("--methods", nargs="*", choices=METHODS)
    parser.add_argument("--seeds", nargs="*", type=int)
    parser.add_argument("--quick", action="store_true", help="leave out the discriminative and predictive scores")
    parser.add_argument("--parts", type=Path, default=FOLDER, help="parts that are there already are not run again")
    parser.add_argument("--collect", action="store_true", help="only write the tables, from whatever parts there are")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    size = {**SIZES[given.size], "sizes": {**SIZES[given.size]["sizes"], "device": given.device}}
    methods = given.methods or DEFAULT.get(given.table, LOOP)
    for data in given.data:
        key = {"table": given.table, "data": data, "size": given.size}
        for seed in () if given.collect else given.seeds or range(size["seeds"]):
            contest = Contest(given.table, data, size, seed, given.quick)
            for method in methods:
                do_part(given.parts, {**key, "method": method, "seed": seed}, partial(contest.row, method))
        parts = read_parts(given.parts, **key)
        parts.sort(key=lambda part: (part["seed"], METHODS.index(part["method"])))
        rows = [
            {name: value for name, value in part.items() if name not in ("size", "commit", "machine")} for part in parts
        ]
        if rows:
            seeds = sorted({row["seed"] for row in rows})
            note = f"size {given.size}; {about(parts)}"
            title = f"table{given.table}" if given.table.isdigit() else given.table
            path = write_results(f"series/generation-{title}-{data}-{given.size}", rows, seed=seeds, note=note)
            heading = f"{data}, table {given.table}, size {given.size}, seeds {', '.join(map(str, seeds))}"
            draw_scores(rows, path.with_suffix(".png"), heading)


if __name__ == "__main__":
    main()
