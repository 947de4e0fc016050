"""Generating series: the paper's tables, with FedTDD taken apart, scored on windows held out.

    python benchmarks/series/generation.py --size mini|gpu|paper --tables 2 7 --data stocks etth --jobs 8 --device cuda

Table 2: half of everything missing. 3: a quarter of the features common. 5: a quarter public. 6: a quarter of the
windows with holes in common features only. 7: imbalanced clients. 8: ratios of aggregation. scarce: little public data.
The paper's protocol deals all windows, a step apart, at random, and holds a fifth of each client's out; with
`--protocol blocks` owners have blocks of time, of which a fifth are held out. Size `paper` has the settings of
Table 10; the others take at most 4,000 windows of a data set, at random.
Every method and seed is a part of its own (`--parts FOLDER --seeds 0 --methods Local`); `--collect` makes the tables.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from baselines import train_central, train_local
from figures import draw_scores
from parts import FOLDER, about, do_parts, read_parts
from printed import printed
from results import write_results
from setting import NAMES, Setting, make_setting

from cotempo.federation.reducers import PlainReducer
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
    "paper": dict(zip(COLUMNS, (10, 3, 5, 7500, 5000, 10_000, 600, 200, 1000, {}), strict=True)),
}
PAPER = {"preset": "paper", "token_steps": 0}
HELD, MOST = 0.2, 4000
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
    published = FedTDD.published[data]
    if "width" not in size["sizes"]:
        common |= {name: value for name, value in published.items() if name != "alpha"}
    changes = FEDERATED.get(method, {})
    if "preset" in changes:
        return {**common, "later_steps": size["later"], "alpha": published["alpha"], **changes}
    ours = {"corrector_steps": size["imputer"], "start_steps": size["first"] + later, "later_steps": size["later"] // 2}
    return {**common, **ours, "last_steps": later - later // 2, **changes}


def train_method(method: str, setting: Setting, data: str, size: dict, seed: int) -> dict:
    """A model for each client."""
    model = FedTDD(common=setting.common, **options(method, data, size))
    if method in FEDERATED:
        fitted = model.fit(setting.clients, public=setting.public, seed=seed, progress=False, reducer=PlainReducer())
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


def measure(method: str, table: str, data: str, size: dict, protocol: str, seed: int, quick: bool) -> dict:
    """Train a method on one data set and seed, and judge it by encoders of the clients' held-out windows."""
    most = None if "width" not in size["sizes"] or protocol == "blocks" else MOST
    how = {"clients": size["clients"], "protocol": protocol, "held": HELD, "most": most, "seed": seed}
    setting = make_setting(data, **how, **TABLES[table])
    real = {name: owner.held for name, owner in setting.owners.items()}
    device, steps = size["sizes"]["device"], size["judge"]
    judges = [ContextFID.of(windows, steps=steps, seed=seed, device=device) for windows in real.values()]
    began = time.perf_counter()
    made = train_method(method, setting, data, size, seed)
    seconds = time.perf_counter() - began
    scores = judged(made["models"], setting, real, judges, 0 if quick else steps, seed, device)
    errors = {"filling": "", "lines": ""}
    if method in FEDERATED and not quick:
        errors = filling_errors(made["models"], setting)
    return {
        **scores, "Context-FID floor": float(np.mean([judge.floor() for judge in judges])),
        "printed Context-FID": printed(table, method, data), "filling MAE": errors["filling"],
        "interpolation MAE": errors["lines"], "membership": made.get("membership", ""),
        "released": made.get("released", ""), "withheld": made.get("withheld", ""), "seconds": seconds,
    }  # fmt: skip


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
    parser.add_argument("--tables", nargs="+", choices=sorted(TABLES), default=["2"])
    parser.add_argument("--data", nargs="*", choices=NAMES, default=["stocks", "etth"])
    parser.add_argument("--methods", nargs="*", choices=METHODS)
    parser.add_argument("--seeds", nargs="*", type=int)
    parser.add_argument("--protocol", choices=("windows", "blocks"), default="windows")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="leave out the discriminative and predictive scores and the errors of filling",
    )
    parser.add_argument("--parts", type=Path, default=FOLDER, help="parts that are there already are not run again")
    parser.add_argument("--collect", action="store_true", help="only write the tables, from whatever parts there are")
    parser.add_argument("--jobs", type=int, default=1, help="parts at once, each in a process of its own")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    size = {**SIZES[given.size], "sizes": {**SIZES[given.size]["sizes"], "device": given.device}}
    known = {"size": given.size, "protocol": given.protocol}
    work = [
        (
            {"table": table, "data": data, **known, "method": method, "seed": seed},
            partial(measure, method, table, data, size, given.protocol, seed, given.quick),
        )
        for seed in given.seeds or range(size["seeds"])
        for table in given.tables
        for data in given.data
        for method in given.methods or DEFAULT.get(table, LOOP)
    ]
    if not given.collect:
        do_parts(given.parts, work, given.jobs)
    for table in given.tables:
        for data in given.data:
            collect(given.parts, {"table": table, "data": data, **known})


def collect(folder: Path, key: dict) -> None:
    """Write one table of one data set."""
    parts = read_parts(folder, **key)
    parts.sort(key=lambda part: (part["seed"], METHODS.index(part["method"])))
    hidden = ("size", "protocol", "commit", "machine")
    rows = [{name: value for name, value in part.items() if name not in hidden} for part in parts]
    if not rows:
        return
    table, data, size = key["table"], key["data"], key["size"]
    seeds = sorted({row["seed"] for row in rows})
    note = f"size {size}; owners of {key['protocol']}, a fifth of each held out to score on; {about(parts)}"
    title = f"table{table}-{data}-{size}" if table.isdigit() else f"{table}-{data}-{size}"
    if table.isdigit() and key["protocol"] == "blocks":
        title += "-blocks"
    path = write_results(f"series/generation-{title}", rows, seed=seeds, note=note)
    draw_scores(
        rows, path.with_suffix(".png"), f"{data}, table {table}, size {size}, seeds {', '.join(map(str, seeds))}"
    )


if __name__ == "__main__":
    main()
