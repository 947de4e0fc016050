"""Ten attacks, eight rules, up to three liars of ten, clients that are alike or differ: what is left of a result.

    python benchmarks/attacks/matrix.py --jobs 16
    python benchmarks/attacks/matrix.py --jobs 16 --default --seeds 12

Every cell is a file of its own under runs/attacks, so that a run can be cut and continued: 7,936 cells, about 100
minutes of one core. Limits of the rule `screen`, the default of every method here, were chosen on the seeds 100 to 103,
and what is reported are others. At the end the table and the heat map are written: benchmarks/results/attacks.csv and
docs/attacks.png. With --default only the plain mean and the default are measured, at a fifth of liars, for more seeds
into benchmarks/results/attacks-default.csv. Scores are points of 100: accuracy for averaging, F1 of edges for networks,
and 100 (1 - relative error of the intensity) for events, at honest clients.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

sys.path.append(str(Path(__file__).parent.parent))
from parts import about, do_part, read_parts
from results import write_results

import cotempo as ct
from cotempo.federation import Answers, Ask, Expect, Message, Method, Metrics, Question, Rng, Roster, Spec
from cotempo.robust.reducer import Robust

FOLDER = Path("runs/attacks")
PICTURE = Path(__file__).parent.parent.parent / "docs" / "attacks.png"
CLIENTS = 10
ATTACKS = (
    "sign_flip", "scaling", "gaussian", "inner_product", "alie", "mimic", "label_flip", "backdoor", "free_rider",
    "inflated_weight",
)  # fmt: skip
# At a fifth of liars these turn a plain mean round.
STRENGTHS = {"sign_flip": 5.0, "inner_product": 5.0}
SHARES = (0.1, 0.2, 0.3)
FIRST_SEED = 10
SETTINGS = ("alike", "different")
RULES: Mapping[str, Mapping[str, Any]] = {
    "mean": {"rule": "mean", "cap": None},
    "screen": {"rule": "screen", "cap": None},
    "median": {"rule": "median"},
    "trimmed_mean": {"rule": "trimmed_mean"},
    "multi_krum": {"rule": "multi_krum"},
    "geometric_median": {"rule": "geometric_median"},
    "centred_clipping": {"rule": "centred_clipping"},
    "mixed_trimmed_mean": {"rule": "trimmed_mean", "mixing": True},
}


@dataclass(frozen=True)
class LogisticState:
    """A linear classifier and the rounds it has been trained."""

    weights: np.ndarray
    round: int = 0


class LogisticAveraging(Method):
    """Federated averaging of a logistic regression: the last column's sign is what the others predict."""

    kind: ClassVar[str] = "series"
    phases: ClassVar[tuple[str, ...]] = ("train",)
    State: ClassVar[type] = LogisticState
    rounds: int = 15
    steps: int = 5
    learning_rate: float = 0.5

    def open(self, roster: Roster, public: Any, rng: Rng) -> LogisticState:
        """Begin with nothing learned."""
        return LogisticState(np.zeros(len(roster.schema.columns)))

    def ask(self, state: LogisticState, cohort: Sequence[str], rng: Rng) -> Ask | None:
        """Send the classifier round after round."""
        return Ask("train", cohort, Message({"weights": state.weights})) if state.round < self.rounds else None

    def answer(self, question: Question, prepared: Any, memory: Any, rng: Rng) -> tuple[Message, None]:
        """Take a few steps of gradient descent on the own rows."""
        inputs, labels = inputs_and_labels(prepared.values)
        weights = question.common["weights"]
        for _ in range(self.steps):
            chance = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
            weights = weights - self.learning_rate * inputs.T @ (chance - labels) / len(labels)
        return Message({"weights": weights}, weight=len(labels)), None

    def absorb(self, state: LogisticState, answers: Answers, public: Any, rng: Rng) -> tuple[LogisticState, Metrics]:
        """Take the mean."""
        return LogisticState(answers.mean("weights"), state.round + 1), {}

    def expects(self, state: LogisticState, phase: str) -> Expect:
        """Expect a classifier."""
        return Expect({"weights": Spec(state.weights.shape)}, sums=True, weight=(1, 1e12), rows=lambda message: 1.0)


def inputs_and_labels(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the other columns with a constant one, and whether the last column is positive."""
    return np.hstack([values[:, :-1], np.ones((len(values), 1))]), (values[:, -1] > 0).astype(float)


def classes(setting: str, seed: int) -> tuple[dict[str, Any], Callable[[Any, Sequence[str]], float]]:
    """Return two classes of points; where clients differ, in shares of the classes, means and numbers of rows."""
    stream = np.random.default_rng(seed)
    truth = stream.normal(size=12)

    def draw(rows: int, shift: float) -> np.ndarray:
        inputs = stream.normal(size=(rows, 12)) + shift
        return np.hstack([inputs, (inputs @ truth + stream.normal(size=rows))[:, None]])

    different = setting == "different"
    tables = {
        f"client-{k}": ct.Series.from_arrays(
            draw(int(120 * 2 ** stream.uniform(-1.5, 1.5)) if different else 120, stream.normal(0, 0.4 * different))
        )
        for k in range(CLIENTS)
    }
    inputs, labels = inputs_and_labels(draw(2000, 0.0))

    def score(fitted: Any, honest: Sequence[str]) -> float:
        return 100 * float(((inputs @ fitted.state.weights > 0) == labels).mean())

    return tables, score


def networks(setting: str, seed: int) -> tuple[dict[str, Any], Callable[[Any, Sequence[str]], float]]:
    """Return series of one network; where clients differ, in noise and numbers of rows."""
    clients, truth = ct.make_networks(variables=5, clients=CLIENTS, samples=4000, seed=seed)
    if setting == "different":
        stream = np.random.default_rng(seed)
        for name, table in clients.items():
            rows = int(len(table) * stream.uniform(0.25, 1.0))
            clients[name] = replace(
                table.select(np.arange(rows)), values=table.values[:rows] * stream.uniform(0.6, 1.6)
            )
    return clients, lambda fitted, honest: 100 * float(ct.score_network(fitted.network, truth)["f1"])


def events(setting: str, seed: int) -> tuple[dict[str, Any], Callable[[Any, Sequence[str]], float]]:
    """Return events whose intensity has one shape; where clients differ, their rates differ much."""
    spread = 0.8 if setting == "different" else 0.2
    clients, truth = ct.make_events(clients=CLIENTS, sequences=6, spread=spread, seed=seed)
    times = np.linspace(0.25, 9.75, 40)

    def score(fitted: Any, honest: Sequence[str]) -> float:
        wanted = {name: truth.intensity(name, times) for name in honest}
        errors = [
            np.abs(fitted[name].intensity(times).mean - wanted[name]).mean() / wanted[name].mean() for name in honest
        ]
        return 100 * (1 - min(float(np.mean(errors)), 1.0))

    return clients, score


METHODS: Mapping[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "FedAvg": (LogisticAveraging, classes),
    "OneRound": (lambda: ct.OneRound(compare=False, restarts=0), networks),
    "FDBNL": (lambda: ct.FDBNL(compare=False, rounds=30, scaled=False), networks),
    "FedPP": (lambda: ct.FedPP(kernel="time", compare=False, window=(0.0, 10.0), cells=48), events),
}


def measure(method: str, setting: str, rule: str, attack: str, share: float, seed: int) -> dict[str, Any]:
    """Return the score of one run, and whether it came to its end."""
    make, data = METHODS[method]
    tables, score = data(setting, seed)
    lie = ct.Attack(attack, share=share, strength=STRENGTHS.get(attack)) if share else None
    reducer = Robust(**{"share": max(share, 0.1), **RULES[rule]})
    honest = sorted({*tables} - {*(lie.liars(tables, seed) if lie else ())})
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            fitted = make().fit(tables, attack=lie, reducer=reducer, seed=seed, progress=False)
            return {"score": score(fitted, honest), "ended": True}
    except Exception as error:  # a run that a liar ends is worth nothing
        return {"score": 0.0, "ended": False, "error": type(error).__name__}


def do_cell(cell: Mapping[str, Any]) -> None:
    """Measure one cell into its file."""
    do_part(FOLDER, cell, lambda: measure(**cell))


def cells(
    methods: Sequence[str], seeds: Sequence[int], rules: Sequence[str] = (*RULES,), shares: Sequence[float] = SHARES
) -> list[dict[str, Any]]:
    """Return every cell; without liars all attacks are the same."""
    lies = [("none", 0.0), *product(ATTACKS, shares)]
    return [
        {"method": method, "setting": setting, "rule": rule, "attack": attack, "share": share, "seed": seed}
        for method, setting, rule, (attack, share), seed in product(methods, SETTINGS, rules, lies, seeds)
    ]


def summarise(seeds: range, rules: Sequence[str] = (*RULES,), shares: Sequence[float] = SHARES) -> list[dict[str, Any]]:
    """Return per cell the mean over seeds of the score and of the points lost against the honest plain mean."""
    scores = {
        tuple(part[name] for name in ("method", "setting", "rule", "attack", "share", "seed")): part["score"]
        for part in read_parts(FOLDER)
    }
    rows = []
    for method, setting, rule, (attack, share) in product(
        METHODS, SETTINGS, rules, [("none", 0.0), *product(ATTACKS, shares)]
    ):
        found = [scores.get((method, setting, rule, attack, share, seed)) for seed in seeds]
        clean = [scores.get((method, setting, "mean", "none", 0.0, seed)) for seed in seeds]
        pairs = [(one, plain) for one, plain in zip(found, clean, strict=True) if one is not None and plain is not None]
        if pairs:
            lost = np.array([plain - one for one, plain in pairs])
            error = lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else 0.0
            rows.append(
                {
                    "method": method, "setting": setting, "rule": rule, "attack": attack, "share": share,
                    "score": float(np.mean([one for one, _ in pairs])), "lost": float(lost.mean()),
                    "standard_error": float(error), "seeds": len(pairs),
                }
            )  # fmt: skip
    return rows


def held(rows: Sequence[Mapping[str, Any]], most: float = 5.0) -> list[dict[str, Any]]:
    """Return by method, setting and rule the clean cost, and how many attacks of ten cost at most so many points."""
    found = []
    for method, setting, rule in product(METHODS, SETTINGS, dict.fromkeys(row["rule"] for row in rows)):
        own = [row for row in rows if (row["method"], row["setting"], row["rule"]) == (method, setting, rule)]
        clean = next((row["lost"] for row in own if row["share"] == 0), float("nan"))
        for share in sorted({row["share"] for row in own} - {0.0}):
            count = sum(row["lost"] <= most for row in own if row["share"] == share)
            found.append(
                {"method": method, "setting": setting, "rule": rule, "share": share, "clean_cost": clean, "held": count}
            )
    return found


def draw(rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw points lost at 20 % liars: attacks by rules, for every method and setting."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(SETTINGS), len(METHODS), figsize=(16, 9), sharex=True, sharey=True)
    lost = {(r["method"], r["setting"], r["rule"], r["attack"]): r["lost"] for r in rows if r["share"] in (0.0, 0.2)}
    labels = ("none", *ATTACKS)
    for (i, setting), (j, method) in product(enumerate(SETTINGS), enumerate(METHODS)):
        values = np.array([[lost.get((method, setting, r, a), np.nan) for r in RULES] for a in labels])
        axis = axes[i, j]
        image = axis.imshow(values, vmin=0, vmax=40, cmap="Reds", aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                axis.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=7)
        axis.set_title(f"{method}, {setting} clients", fontsize=10)
        axis.set_xticks(range(len(RULES)), [r.replace("_", " ") for r in RULES], rotation=60, ha="right", fontsize=8)
        axis.set_yticks(range(len(labels)), [a.replace("_", " ") for a in labels], fontsize=8)
    figure.colorbar(image, ax=axes, label="points lost against the honest mean, 2 liars of 10", shrink=0.6)
    figure.savefig(PICTURE, dpi=90, bbox_inches="tight")


def main() -> None:
    """Measure what is missing, then write table and picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--methods", nargs="*", default=[*METHODS], choices=[*METHODS])
    parser.add_argument("--default", action="store_true", help="only the plain mean and the default, 20 % liars")
    parser.add_argument("--only", type=int, help="measure so many cells, chosen evenly, to try it out")
    given = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
    wanted = (("mean", "screen"), (0.2,)) if given.default else ((*RULES,), SHARES)
    todo = cells(given.methods[::-1], seeds, *wanted)  # FedPP takes longest
    todo = todo[:: max(1, len(todo) // given.only)] if given.only else todo
    if given.jobs == 1:
        for cell in todo:
            do_cell(cell)
    else:
        with ProcessPoolExecutor(given.jobs) as pool:
            for done in as_completed([pool.submit(do_cell, cell) for cell in todo]):
                done.result()
    rows = summarise(seeds, *wanted)
    if not rows:
        print("no honest run is there to compare with yet")
        return
    for line in held(rows):
        print("{method:9} {setting:9} {rule:19} {share:.0%} clean cost {clean_cost:6.1f} held {held}".format(**line))
    if not given.only and {*given.methods} == {*METHODS}:
        name = "attacks-default" if given.default else "attacks"
        note = about([part for part in read_parts(FOLDER) if part["seed"] in seeds])
        print(write_results(name, rows, seed=list(seeds), note=note))
        if given.default:
            print(write_results("attacks-default-held", held(rows), seed=list(seeds), note=note))
        else:
            draw(rows)


if __name__ == "__main__":
    main()
