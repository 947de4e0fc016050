"""What differential privacy costs at epsilon 8, 3, 1 and .5, delta 1e-6, beside no noise and learning alone.

    python benchmarks/privacy/curves.py networks events --jobs 8    measure some; `all` measures all there are
    python benchmarks/privacy/curves.py plot                        draw all that were measured

Every seed and epsilon of a family is a part, kept under runs/parts/privacy-COMMIT: what was cut short goes on when
called again.

Networks: F1 of edges within and across, 10 variables, 5 clients, all rows together 20,000 or 2,000. Personal: the same
of PFDBNL's own networks, 6 variables, 10 clients of 300 rows. Rankings: AUROC of EdgeRanking by Granger's statistic, 10
variables, 5 clients, 2,000 rows. Events: nats per event over each client's own constant rate, a tenth of the taxi data,
10 clients. Learners: the same of FedNeural, 100 clients, one of them hidden. Series: error of filling the last fifth of
ETTh1, half of its cells or rows missing, in half ranges; ten owners of blocks of time; alone is linear interpolation,
which needs nobody. Generator: Context-FID (0 is best) of windows drawn by SeriesDiffusion, one owner of the first four
fifths of ETTh1, and of windows drawn from its noised moments alone, with all of epsilon. Imputer: as series, of FedTDD
with networks far smaller than its defaults, five owners and a public block of time. Posts: NMI of real posts without
labels, hashtags and times, 6 clients. Noise is drawn from the seed, to be repeated. Nothing was chosen on these seeds.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), *(str(HERE.parent / name) for name in ("events", "social", "series"))]
from parts import FOLDER as PARTS  # noqa: E402
from parts import about as where  # noqa: E402
from parts import do_part, read_parts  # noqa: E402
from results import FOLDER, commit, write_results  # noqa: E402

import cotempo as ct  # noqa: E402
from cotempo.networks import FDBNL, PFDBNL, EdgeRanking, OneRound, score_network  # noqa: E402

EPSILONS = (None, 8.0, 3.0, 1.0, 0.5)
SEEDS = range(30, 35)
Row = dict[str, Any]
Epsilons = Sequence[float | None]


def curve(
    fit: Callable[..., Any], score: Callable[[Any], Mapping[str, float]], about: Row, epsilons: Epsilons, **privacy: Any
) -> Iterator[Row]:
    """Scores at these epsilons; `fit` is given a seed and the privacy."""
    for epsilon in epsilons:
        asked = None if epsilon is None else ct.Privacy(epsilon=epsilon, seeded=True, **privacy)
        row = {**about, "epsilon": "none" if epsilon is None else epsilon, **score(fit(about["seed"], asked))}
        print(row, flush=True)
        yield row


def networks(seed: int, epsilons: Epsilons) -> Iterator[Row]:
    """OneRound and FDBNL, with the secure sum and without."""
    for rows in (20_000, 2_000):
        clients, truth = ct.make_networks(variables=10, clients=5, samples=rows, seed=seed)

        def edges(network: Any, truth: Any = truth) -> dict[str, float]:
            found = score_network(network, truth)
            return {"within": found["within_f1"], "across": found["across_f1"]}

        for method, secure in ((OneRound(), True), (OneRound(), False), (FDBNL(scaled=False), True)):
            about = {"method": type(method).__name__, "rows": rows, "secure_sum": secure, "seed": seed}
            yield from curve(
                lambda seed, privacy, method=method, clients=clients: method.fit(clients, seed=seed, privacy=privacy),
                lambda fitted: edges(fitted.network),
                about,
                epsilons,
                secure_sum=secure,
                ranges=(-20.0, 20.0),
            )
        if None not in epsilons:
            continue
        alone = [edges(OneRound(compare=False).fit({name: table}).network) for name, table in clients.items()]
        means = {key: float(np.mean([one[key] for one in alone])) for key in alone[0]}
        yield {"method": "OneRound", "rows": rows, "secure_sum": False, "seed": seed, "epsilon": "alone", **means}


def personal(seed: int, epsilons: Epsilons) -> Iterator[Row]:
    """PFDBNL: means over clients of their own networks' F1; alone is FDBNL at each client."""
    method = PFDBNL(scaled=False, compare=False)
    clients, truth = ct.make_networks(variables=6, clients=10, samples=3000, shared=0.8, seed=seed)

    def edges(networks: Mapping[str, Any], truth: Any = truth) -> dict[str, float]:
        found = [score_network(network, truth[name]) for name, network in networks.items()]
        return {part: float(np.mean([one[f"{part}_f1"] for one in found])) for part in ("within", "across")}

    about = {"method": "PFDBNL", "rows": 3000, "clients": 10, "seed": seed}
    yield from curve(
        lambda seed, privacy, clients=clients: method.fit(clients, seed=seed, privacy=privacy),
        lambda fitted, names=tuple(clients): edges({name: fitted[name].network for name in names}),
        about, epsilons, secure_sum=True, ranges=(-20.0, 20.0),
    )  # fmt: skip
    if None not in epsilons:
        return
    alone = FDBNL(scaled=False, compare=False)
    yield {
        **about, "epsilon": "alone",
        **edges({name: alone.fit({name: table}).network for name, table in clients.items()}),
    }  # fmt: skip


def rankings(seed: int, epsilons: Epsilons) -> Iterator[Row]:
    """EdgeRanking by moments; alone is the mean over clients."""
    method = EdgeRanking(score="granger", lags=1)
    clients, truth = ct.make_networks(variables=10, clients=5, samples=2_000, degree=0, seed=seed)
    about = {"method": "EdgeRanking", "rows": 2_000, "seed": seed}

    def score(fitted: Any, truth: Any = truth) -> dict[str, float]:
        return {"auroc": fitted.scores(truth)["auroc"]}

    yield from curve(
        lambda seed, privacy, clients=clients: method.fit(clients, seed=seed, privacy=privacy),
        score, about, epsilons, secure_sum=True, ranges=(-20.0, 20.0),
    )  # fmt: skip
    if None not in epsilons:
        return
    alone = [score(method.fit({name: table}))["auroc"] for name, table in clients.items()]
    yield {**about, "epsilon": "alone", "auroc": float(np.mean(alone))}


def learners(seed: int, epsilons: Epsilons) -> Iterator[Row]:
    """FedNeural, one client hidden; a gain of 0 is that of each client's own constant rate.

    The secure sum would take most of the time: its noise is added without its masks.
    """
    from cotempo.events import FedNeural
    from cotempo.privacy.noise import Noise
    from cotempo.privacy.secure_sum.shamir import threshold

    method = FedNeural(rounds=5, epochs=4, learning_rate=0.01, compare=False)
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
    yield from curve(fit, score, about, epsilons, unit="client", secure_sum=True)


def series(seed: int, epsilons: Epsilons) -> Iterator[Row]:
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

    about = {"method": "FedMoments", "data": "etth", "seed": seed}
    yield from curve(
        lambda seed, privacy: ct.FedMoments().fit(clients, seed=seed, privacy=privacy) if privacy else exact,
        lambda fitted, seed=seed: score(lambda holes: fitted.model.impute(Series.from_arrays(holes)).values, seed),
        about, epsilons, secure_sum=True, ranges=ranges,
    )  # fmt: skip
    if None in epsilons:
        yield {**about, "epsilon": "alone", **score(fill_linear, seed)}


def generator(seed: int, epsilons: Epsilons) -> Iterator[Row]:
    """SeriesDiffusion of one owner, and its noised moments alone."""
    from moments import parts_of

    from cotempo.data import Series
    from cotempo.federation import Rng
    from cotempo.series.metrics import ContextFID
    from cotempo.series.private.diffusion import learn_moments

    train, _, half = parts_of("etth")
    table, low, high = Series.from_arrays(train), train.min(axis=0) - half, train.max(axis=0) + half
    ranges = {name: (float(a), float(b)) for name, a, b in zip(table.features, low, high, strict=True)}
    method = ct.SeriesDiffusion(width=16, imputer_steps=1)
    judge = ContextFID.of(np.stack([train[k : k + 24] for k in range(0, len(train) - 24, 4)]), seed=seed)

    def score(model: Any) -> dict[str, float]:
        return {"distance": judge.score(model.sample(2000, seed=seed).values.reshape(2000, 24, -1))}

    about = {"method": "SeriesDiffusion", "data": "etth", "unit": "row", "seed": seed}
    yield from curve(
        lambda seed, privacy: method.fit(table, seed=seed, privacy=privacy, progress=False),
        score, about, epsilons, ranges=ranges,
    )  # fmt: skip
    for epsilon in epsilons:
        if epsilon is None:
            continue
        privacy = ct.Privacy(epsilon=epsilon, ranges=ranges, seeded=True)
        yield {**about, "method": "moments", "epsilon": epsilon, **score(learn_moments(table, privacy, 24, Rng(seed)))}


def imputer(seed: int, epsilons: Epsilons) -> Iterator[Row]:
    """FedTDD, small: what its clients' networks make of noised moments; on a GPU where there is one."""
    import torch
    from moments import MASKS, fill_linear, parts_of

    from cotempo.data import Series

    train, test, half = parts_of("etth")
    first, *parts = (Series.from_arrays(part) for part in np.array_split(train, 6))
    clients, names = {f"client-{k}": part for k, part in enumerate(parts)}, first.features
    low, high = train.min(axis=0) - half, train.max(axis=0) + half
    ranges = {name: (float(a), float(b)) for name, a, b in zip(names, low, high, strict=True)}
    method = ct.FedTDD(
        common=names[:4], device="cuda" if torch.cuda.is_available() else "cpu", rounds=1, width=16,
        imputer_width=32, pretrain_steps=1000, token_steps=500, start_steps=0, corrector_steps=300,
        first_steps=1, last_steps=0, rough=False,
    )  # fmt: skip
    gone = MASKS["cells"](test.shape, 0.5, seed)
    holes = np.where(gone, np.nan, test)

    def error(filled: np.ndarray) -> float:
        return float((np.abs(filled - test) / half)[gone].mean())

    about = {"method": "FedTDD", "data": "etth", "seed": seed}
    yield from curve(
        lambda seed, privacy: method.fit(clients, public=first, seed=seed, privacy=privacy, progress=False),
        lambda fitted: {
            "cells": float(np.mean([error(fitted[name].impute(Series.from_arrays(holes)).values) for name in clients]))
        },
        about, epsilons, secure_sum=True, ranges=ranges,
    )  # fmt: skip
    if None in epsilons:
        yield {**about, "epsilon": "alone", "cells": error(fill_linear(holes))}


def events(seed: int, epsilons: Epsilons) -> Iterator[Row]:
    """FedPP with the kernel of time; a gain of 0 is that of each client's own constant rate."""
    from common import cohort_score, deal

    from cotempo.events import FedPP

    train, test = deal("taxi", 10, 0.1, seed)
    tables = [*train.values(), *test.values()]
    window = float(min(one.start.min() for one in tables)), float(max(one.end.max() for one in tables))
    method = FedPP(kernel="time", window=window, compare=False)
    size = sum(table.rows for table in train.values())
    yield from curve(
        lambda seed, privacy, method=method, train=train: method.fit(train, seed=seed, privacy=privacy),
        lambda fitted, test=test: {"gain": cohort_score(fitted, test)["gain"]},
        {"method": "FedPP", "data": "taxi", "events": size, "unit": "row", "seed": seed},
        epsilons,
        secure_sum=True,
    )


def social(seed: int, epsilons: Epsilons) -> Iterator[Row]:
    """EventDetector on real posts without labels."""
    from setting import judge, real_clients, split, without_labels

    from cotempo.social import EventDetector

    method = EventDetector(compare=False)
    learn, test = split(real_clients(250, seed, hashtags=False, times=False), seed)
    learn = {name: without_labels(posts) for name, posts in learn.items()}

    def score(fitted: Any, test: Any = test) -> dict[str, float]:
        return {"NMI": judge(test, lambda client, found, _: fitted[client].detect(found).event)["NMI"]}

    about = {"method": "EventDetector", "posts": sum(table.rows for table in learn.values()), "seed": seed}
    yield from curve(
        lambda seed, privacy, learn=learn: method.fit(learn, seed=seed, privacy=privacy),
        score, about, epsilons, secure_sum=True,
    )  # fmt: skip
    if None not in epsilons:
        return
    alone = {name: method.fit({name: posts}, seed=seed)[name] for name, posts in learn.items()}
    yield {**about, "epsilon": "alone", **score(alone)}


PANELS = {
    "networks": ("across", "OneRound, FDBNL: F1 of edges from one time to the next", True),
    "personal": ("across", "PFDBNL, 10 clients: F1 of clients' own edges", True),
    "rankings": ("auroc", "EdgeRanking, 2,000 rows: AUROC of edges", True),
    "events": ("gain", "FedPP, 1,300 events: nats per event over a constant rate", True),
    "learners": ("gain", "FedNeural, one of 100 clients hidden: nats per event", True),
    "series": ("cells", "FedMoments: error of filled cells", False),
    "imputer": ("cells", "FedTDD: error of filled cells", False),
    "generator": ("distance", "SeriesDiffusion: Context-FID of drawn windows", False),
    "social": ("NMI", "EventDetector, 1,200 posts: NMI", True),
}
NAMES = {"moments": "noised moments alone"}


def label(row: Mapping[str, str]) -> str:
    """Return a line's name in words."""
    words = [NAMES.get(row["method"], row["method"])]
    if row.get("secure_sum"):
        words += [f"{int(row['rows']):,} rows"] + ["noise at each client"] * (row["secure_sum"] == "False")
    return ", ".join(words)


def draw() -> None:
    """One panel a family: means over seeds with standard errors, no noise dashed and learning alone dotted."""
    import csv

    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    found = [name for name in PANELS if (FOLDER / f"privacy-{name}.csv").exists()]
    figure = Figure(figsize=(15, 4.1 * -(-len(found) // 3)), layout="constrained")
    panels = figure.subplots(-(-len(found) // 3), 3, squeeze=False).ravel()
    for axes in panels[len(found) :]:
        axes.set_axis_off()
    for axes, name in zip(panels, found, strict=False):
        metric, title, high = PANELS[name]
        with open(FOLDER / f"privacy-{name}.csv") as file:
            rows = list(csv.DictReader(file))
        lines: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            lines.setdefault(label(row), []).append(row)
        for text, mine in lines.items():
            values = {e: [float(r[metric]) for r in mine if r["epsilon"] == e] for e in {r["epsilon"] for r in mine}}
            means = [np.mean(values[e]) for e in ("0.5", "1", "3", "8")]
            errors = [np.std(values[e], ddof=1) / len(values[e]) ** 0.5 for e in ("0.5", "1", "3", "8")]
            drawn = axes.errorbar([0.5, 1, 3, 8], means, errors, marker="o", markersize=3, label=text)
            for epsilon, style in (("none", "--"), ("alone", ":")):
                if epsilon in values:
                    level = float(np.mean(values[epsilon]))
                    axes.axhline(level, linestyle=style, linewidth=0.9, color=drawn[0].get_color())
        axes.set_xscale("log")
        axes.set_xticks([0.5, 1, 3, 8], ["0.5", "1", "3", "8"])
        axes.minorticks_off()
        axes.set_xlabel("epsilon: less noise to the right")
        axes.set_ylabel("higher is better" if high else "lower is better")
        axes.set_title(title, fontsize=10)
        if len(lines) > 1:
            axes.legend(fontsize=8)
    keys = [("-", "with noise, mean and standard error over seeds"), ("--", "all together, without noise")]
    keys += [(":", "alone, or what needs nobody else (interpolation)")]
    handles = [Line2D([], [], color="grey", linestyle=style, label=text) for style, text in keys]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=10)
    figure.savefig(FOLDER / "privacy-curves.png", dpi=110)


MEASURES = {
    "networks": networks, "personal": personal, "rankings": rankings, "events": events, "learners": learners,
    "series": series, "generator": generator, "imputer": imputer, "social": social,
}  # fmt: skip


def measure(job: tuple[str, int, float | None]) -> None:
    """Measure one part in a process of its own: benchmarks of series and posts share names of modules."""
    family, seed, epsilon = job
    warnings.simplefilter("ignore")
    key = {"family": family, "seed": seed, "epsilon": epsilon}
    do_part(folder(), key, lambda: {"rows": list(MEASURES[family](seed, [epsilon]))})


def folder() -> Path:
    """Where the parts of this commit are."""
    return PARTS / f"privacy-{commit().strip('+')}"


def main() -> None:
    """Measure what is asked for, and write the results of every family that is complete."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("families", nargs="+", choices=[*MEASURES, "all", "plot"])
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    if asked.families == ["plot"]:
        draw()
        return
    families = [*MEASURES] if "all" in asked.families else asked.families
    with get_context("spawn").Pool(asked.jobs, maxtasksperchild=1) as pool:
        jobs = [(family, seed, epsilon) for family in families for seed in SEEDS for epsilon in EPSILONS]
        pool.map(measure, jobs, chunksize=1)
    for family in families:
        parts = read_parts(folder(), family=family)
        parts.sort(key=lambda part: (part["seed"], EPSILONS.index(part["epsilon"])))
        rows = [row for part in parts for row in part["rows"]]
        note = f"{(__doc__ or '').split(chr(10))[0]} {where(parts)}"
        write_results(f"privacy-{family}", rows, seed=sorted({part["seed"] for part in parts}), note=note)


if __name__ == "__main__":
    main()
