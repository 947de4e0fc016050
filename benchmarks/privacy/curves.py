"""What differential privacy costs at epsilon 8, 3, 1 and .5, delta 1e-6, beside no noise and learning alone.

    python benchmarks/privacy/curves.py networks events social    measure, one file of results each
    python benchmarks/privacy/curves.py plot                      draw the curves of all files there are

Networks: F1 of edges within and across, 10 variables, 5 clients, all rows together 20,000 or 2,000. Events: nats per
event over each client's own constant rate, a tenth of the taxi data, 10 clients. Posts: NMI
of real posts without labels, hashtags and times, 6 clients. Noise is drawn from the seed, to be repeated.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "events"), str(HERE.parent / "social")]
from results import FOLDER, write_results  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.networks import FDBNL, OneRound, score_network  # noqa: E402

EPSILONS = (None, 8.0, 3.0, 1.0, 0.5)
SEEDS = range(20, 25)
Row = dict[str, Any]


def curve(
    fit: Callable[..., Any], score: Callable[[Any], Mapping[str, float]], about: Row, **privacy: Any
) -> Iterator[Row]:
    """Scores at every epsilon; `fit` is given a seed and the privacy."""
    for epsilon in EPSILONS:
        asked = None if epsilon is None else ct.Privacy(epsilon=epsilon, seeded=True, **privacy)
        row = {**about, "epsilon": "none" if epsilon is None else epsilon, **score(fit(about["seed"], asked))}
        print(row, flush=True)
        yield row


def networks() -> Iterator[Row]:
    """OneRound and FDBNL, with the secure sum and without."""
    for seed in SEEDS:
        for rows in (20_000, 2_000):
            clients, truth = ct.make_networks(variables=10, clients=5, samples=rows, seed=seed)

            def edges(network: Any, truth: Any = truth) -> dict[str, float]:
                found = score_network(network, truth)
                return {"within": found["within_f1"], "across": found["across_f1"]}

            for method, secure in ((OneRound(), True), (OneRound(), False), (FDBNL(scaled=False), True)):
                about = {"method": type(method).__name__, "rows": rows, "secure_sum": secure, "seed": seed}
                yield from curve(
                    lambda seed, privacy, method=method, clients=clients: method.fit(
                        clients, seed=seed, privacy=privacy
                    ),
                    lambda fitted: edges(fitted.network),
                    about,
                    secure_sum=secure,
                    ranges=(-20.0, 20.0),
                )
            alone = [edges(OneRound(compare=False).fit({name: table}).network) for name, table in clients.items()]
            means = {key: float(np.mean([one[key] for one in alone])) for key in alone[0]}
            yield {"method": "OneRound", "rows": rows, "secure_sum": False, "seed": seed, "epsilon": "alone", **means}


def events() -> Iterator[Row]:
    """FedPP with the kernel of time; a gain of 0 is that of each client's own constant rate."""
    from common import cohort_score, deal

    from cotempo.events import FedPP

    for seed in SEEDS:
        train, test = deal("taxi", 10, 0.1, seed)
        tables = [*train.values(), *test.values()]
        window = float(min(one.start.min() for one in tables)), float(max(one.end.max() for one in tables))
        method = FedPP(kernel="time", window=window, compare=False)
        size = sum(table.rows for table in train.values())
        yield from curve(
            lambda seed, privacy, method=method, train=train: method.fit(train, seed=seed, privacy=privacy),
            lambda fitted, test=test: {"gain": cohort_score(fitted, test)["gain"]},
            {"method": "FedPP", "data": "taxi", "events": size, "unit": "row", "seed": seed},
            secure_sum=True,
        )


def social() -> Iterator[Row]:
    """EventDetector on real posts without labels."""
    from setting import judge, real_clients, split, without_labels

    from cotempo.social import EventDetector

    method = EventDetector(compare=False)
    for seed in SEEDS:
        learn, test = split(real_clients(250, seed, hashtags=False, times=False), seed)
        learn = {name: without_labels(posts) for name, posts in learn.items()}

        def score(fitted: Any, test: Any = test) -> dict[str, float]:
            return {"NMI": judge(test, lambda client, found, _: fitted[client].detect(found).event)["NMI"]}

        about = {"method": "EventDetector", "posts": sum(table.rows for table in learn.values()), "seed": seed}
        yield from curve(
            lambda seed, privacy, learn=learn: method.fit(learn, seed=seed, privacy=privacy),
            score, about, secure_sum=True,
        )  # fmt: skip
        alone = {name: method.fit({name: posts}, seed=seed)[name] for name, posts in learn.items()}
        yield {**about, "epsilon": "alone", **score(alone)}


def draw() -> None:
    """One panel a family: means over seeds with standard errors, and no noise as a dashed line."""
    import csv

    from matplotlib.figure import Figure

    panels = {
        "networks": ("across", ("method", "rows", "secure_sum")),
        "events": ("gain", ("data", "unit")),
        "social": ("NMI", ("method",)),
    }
    found = [name for name in panels if (FOLDER / f"privacy-{name}.csv").exists()]
    figure = Figure(figsize=(5.2 * len(found), 3.8), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(found), squeeze=False)[0], found, strict=True):
        metric, keys = panels[name]
        with open(FOLDER / f"privacy-{name}.csv") as file:
            rows = list(csv.DictReader(file))
        settings = sorted({tuple(row[key] for key in keys) for row in rows if row["epsilon"] not in ("alone", "none")})
        for setting in settings:
            mine = [row for row in rows if tuple(row[key] for key in keys) == setting]
            values = {e: [float(r[metric]) for r in mine if r["epsilon"] == e] for e in ("0.5", "1", "3", "8", "none")}
            means = [np.mean(values[e]) for e in ("0.5", "1", "3", "8")]
            errors = [np.std(values[e], ddof=1) / len(values[e]) ** 0.5 for e in ("0.5", "1", "3", "8")]
            lines = axes.errorbar([0.5, 1, 3, 8], means, errors, marker="o", markersize=3, label=", ".join(setting))
            axes.axhline(float(np.mean(values["none"])), linestyle="--", linewidth=0.8, color=lines[0].get_color())
        axes.set_xscale("log")
        axes.set_xticks([0.5, 1, 3, 8], ["0.5", "1", "3", "8"])
        axes.minorticks_off()
        axes.set_xlabel("epsilon (dashed: no noise)")
        axes.set_ylabel({"across": "F1 of edges across", "gain": "nats per event", "NMI": "NMI"}[metric])
        axes.set_title(name)
        axes.legend(fontsize=6)
    figure.savefig(FOLDER / "privacy-curves.png", dpi=110)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for family in sys.argv[1:]:
        if family == "plot":
            draw()
        else:
            measured = list({"networks": networks, "events": events, "social": social}[family]())
            write_results(f"privacy-{family}", measured, seed=list(SEEDS), note=(__doc__ or "").split("\n")[0])
