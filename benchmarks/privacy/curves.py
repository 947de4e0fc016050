"""What differential privacy costs at epsilon 8, 3, 1 and .5, delta 1e-6, beside no noise and learning alone.

    python benchmarks/privacy/curves.py networks    measure; or personal, rankings, events, learners, series, social
    python benchmarks/privacy/curves.py plot        draw all there are

One family a call: the benchmarks of series and posts both have a module `setting`.

Networks: F1 of edges within and across, 10 variables, 5 clients, all rows together 20,000 or 2,000. Personal: the same
of PFDBNL's own networks, 6 variables, 10 clients of 300 rows. Rankings: AUROC of EdgeRanking by Granger's statistic, 10
variables, 5 clients, 2,000 rows. Events: nats per event over each client's own constant rate, a tenth of the taxi data,
10 clients. Learners: the same of FedNeural, 100 clients, one of them hidden. Series: error of filling the last fifth of
ETTh1, half of its cells or rows missing, in half ranges; ten owners of blocks of time; alone is linear interpolation,
which needs nobody. Posts: NMI of real posts without labels, hashtags and times, 6 clients. Noise is drawn from the
seed, to be repeated. Nothing was chosen on these seeds.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), *(str(HERE.parent / name) for name in ("events", "social", "series"))]
from results import FOLDER, write_results  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.networks import FDBNL, PFDBNL, EdgeRanking, OneRound, score_network  # noqa: E402

EPSILONS = (None, 8.0, 3.0, 1.0, 0.5)
SEEDS = range(30, 35)
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


def personal() -> Iterator[Row]:
    """PFDBNL: means over clients of their own networks' F1; alone is FDBNL at each client."""
    method = PFDBNL(scaled=False, compare=False)
    for seed in SEEDS:
        clients, truth = ct.make_networks(variables=6, clients=10, samples=3000, shared=0.8, seed=seed)

        def edges(networks: Mapping[str, Any], truth: Any = truth) -> dict[str, float]:
            found = [score_network(network, truth[name]) for name, network in networks.items()]
            return {part: float(np.mean([one[f"{part}_f1"] for one in found])) for part in ("within", "across")}

        about = {"method": "PFDBNL", "rows": 3000, "clients": 10, "seed": seed}
        yield from curve(
            lambda seed, privacy, clients=clients: method.fit(clients, seed=seed, privacy=privacy),
            lambda fitted, names=tuple(clients): edges({name: fitted[name].network for name in names}),
            about, secure_sum=True, ranges=(-20.0, 20.0),
        )  # fmt: skip
        alone = FDBNL(scaled=False, compare=False)
        yield {
            **about, "epsilon": "alone",
            **edges({name: alone.fit({name: table}).network for name, table in clients.items()}),
        }  # fmt: skip


def rankings() -> Iterator[Row]:
    """EdgeRanking by moments; alone is the mean over clients."""
    method = EdgeRanking(score="granger", lags=1)
    for seed in SEEDS:
        clients, truth = ct.make_networks(variables=10, clients=5, samples=2_000, degree=0, seed=seed)
        about = {"method": "EdgeRanking", "rows": 2_000, "seed": seed}

        def score(fitted: Any, truth: Any = truth) -> dict[str, float]:
            return {"auroc": fitted.scores(truth)["auroc"]}

        yield from curve(
            lambda seed, privacy, clients=clients: method.fit(clients, seed=seed, privacy=privacy),
            score, about, secure_sum=True, ranges=(-20.0, 20.0),
        )  # fmt: skip
        alone = [score(method.fit({name: table}))["auroc"] for name, table in clients.items()]
        yield {**about, "epsilon": "alone", "auroc": float(np.mean(alone))}


def learners() -> Iterator[Row]:
    """FedNeural, one client hidden; a gain of 0 is that of each client's own constant rate.

    The secure sum would take most of the time: its noise is added without its masks.
    """
    from cotempo.events import FedNeural
    from cotempo.privacy.noise import Noise
    from cotempo.privacy.secure_sum.shamir import threshold

    method = FedNeural(rounds=5, epochs=4, learning_rate=0.01, compare=False)
    for seed in SEEDS:
        made, _ = ct.make_events(clients=100, sequences=18, length=4.0, kind="hawkes", seed=seed)
        train = {name: table.take(range(8)) for name, table in made.items()}
        test = {name: made[name].take(range(8, 18)) for name in list(made)[:20]}

        def fit(seed: int, privacy: ct.Privacy | None, train: Any = train) -> Any:
            if privacy is None:
                return method.fit(train, seed=seed)
            private = method.private(privacy)
            return private.fit(train, seed=seed, shields=[Noise(private, lambda question: threshold(len(train)))])

        def score(fitted: Any, test: Any = test) -> dict[str, float]:
            return {"gain": float(np.mean([fitted[name].score(table)["gain"] for name, table in test.items()]))}

        about = {"method": "FedNeural", "clients": 100, "unit": "client", "seed": seed}
        yield from curve(fit, score, about, unit="client", secure_sum=True)


def series() -> Iterator[Row]:
    """FedMoments on ETTh1; without noise it is learned once, because seeds change only what is missing."""
    from moments import MASKS, fill_linear, parts_of

    from cotempo.data import Series

    train, test, half = parts_of("etth")
    clients = {f"client-{k}": Series.from_arrays(part) for k, part in enumerate(np.array_split(train, 10))}
    # Limits that are known without the data would be wider than the range: twice as wide.
    low, high = train.min(axis=0) - half, train.max(axis=0) + half
    names = next(iter(clients.values())).features
    ranges = {name: (float(a), float(b)) for name, a, b in zip(names, low, high, strict=True)}
    exact = ct.FedMoments().fit(clients)

    def score(fill: Callable[[np.ndarray], np.ndarray], seed: int) -> dict[str, float]:
        found = {}
        for name in ("cells", "rows"):
            gone = MASKS[name](test.shape, 0.5, seed)
            found[name] = float((np.abs(fill(np.where(gone, np.nan, test)) - test) / half)[gone].mean())
        return found

    for seed in SEEDS:
        about = {"method": "FedMoments", "data": "etth", "seed": seed}
        yield from curve(
            lambda seed, privacy: ct.FedMoments().fit(clients, seed=seed, privacy=privacy) if privacy else exact,
            lambda fitted, seed=seed: score(lambda holes: fitted.model.impute(Series.from_arrays(holes)).values, seed),
            about, secure_sum=True, ranges=ranges,
        )  # fmt: skip
        yield {**about, "epsilon": "alone", **score(fill_linear, seed)}


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


PANELS = {
    "networks": ("across", "F1 of edges across", ("method", "rows", "secure_sum")),
    "personal": ("across", "F1 of clients' own edges across", ("method",)),
    "rankings": ("auroc", "AUROC of edges", ("method",)),
    "events": ("gain", "nats per event", ("method",)),
    "learners": ("gain", "nats per event, a client hidden", ("method",)),
    "series": ("cells", "error of filled cells", ("method",)),
    "social": ("NMI", "NMI", ("method",)),
}


def label(row: Mapping[str, str], keys: tuple[str, ...]) -> str:
    """Return a line's name in words."""
    words = [row["method"]]
    if "rows" in keys:
        words.append(f"{int(row['rows']):,} rows")
    if row.get("secure_sum") == "False" and "secure_sum" in keys:
        words.append("no secure sum")
    return ", ".join(words)


def draw() -> None:
    """One panel a family: means over seeds with standard errors, no noise dashed and learning alone dotted."""
    import csv

    from matplotlib.figure import Figure

    found = [name for name in PANELS if (FOLDER / f"privacy-{name}.csv").exists()]
    figure = Figure(figsize=(15, 3.9 * -(-len(found) // 3)), layout="constrained")
    panels = figure.subplots(-(-len(found) // 3), 3, squeeze=False).ravel()
    for axes in panels[len(found) :]:
        axes.set_axis_off()
    for axes, name in zip(panels, found, strict=False):
        metric, title, keys = PANELS[name]
        with open(FOLDER / f"privacy-{name}.csv") as file:
            rows = list(csv.DictReader(file))
        lines: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            lines.setdefault(label(row, keys), []).append(row)
        for text, mine in lines.items():
            values = {e: [float(r[metric]) for r in mine if r["epsilon"] == e] for e in {r["epsilon"] for r in mine}}
            if "3" not in values:
                continue
            means = [np.mean(values[e]) for e in ("0.5", "1", "3", "8")]
            errors = [np.std(values[e], ddof=1) / len(values[e]) ** 0.5 for e in ("0.5", "1", "3", "8")]
            drawn = axes.errorbar([0.5, 1, 3, 8], means, errors, marker="o", markersize=3, label=text)
            colour = drawn[0].get_color()
            axes.axhline(float(np.mean(values["none"])), linestyle="--", linewidth=0.9, color=colour)
            if "alone" in values:
                axes.axhline(float(np.mean(values["alone"])), linestyle=":", linewidth=0.9, color=colour)
        axes.set_xscale("log")
        axes.set_xticks([0.5, 1, 3, 8], ["0.5", "1", "3", "8"])
        axes.minorticks_off()
        axes.set_xlabel("epsilon (dashed: no noise, dotted: alone)")
        axes.set_ylabel(title)
        axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    figure.savefig(FOLDER / "privacy-curves.png", dpi=110)


MEASURES = {
    "networks": networks, "personal": personal, "rankings": rankings, "events": events, "learners": learners,
    "series": series, "social": social,
}  # fmt: skip

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    (family,) = sys.argv[1:]
    if family == "plot":
        draw()
        sys.exit()
    measured: list[Row] = []
    for seed, rows in groupby(MEASURES[family](), key=lambda row: row["seed"]):
        measured += rows  # written seed by seed: one that was stopped leaves complete seeds
        seeds = [one for one in SEEDS if one <= seed]
        write_results(f"privacy-{family}", measured, seed=seeds, note=(__doc__ or "").split("\n")[0])
