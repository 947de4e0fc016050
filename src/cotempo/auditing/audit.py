"""`audit`: run a method on tables with canaries, read what the coordinator sees, and attack it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cotempo.auditing.bounds import bound_membership
from cotempo.auditing.canaries import Canaries, WindowCanaries, plant
from cotempo.auditing.differencing import difference_ledger
from cotempo.auditing.listening import Listener
from cotempo.auditing.membership import Replay, readings, score_canaries
from cotempo.auditing.reconstruction import reconstruct
from cotempo.auditing.reference import score_windows
from cotempo.auditing.result import Audit, ShieldTable
from cotempo.data import Series, Table
from cotempo.engines.settings import InProcessSettings
from cotempo.errors import DataError, ParameterError
from cotempo.federation import Method
from cotempo.federation.rounds import LoopOptions
from cotempo.privacy.private_form import PrivateForm
from cotempo.privacy.settings import Privacy
from cotempo.runs.run import Run
from cotempo.typing import Bools, Floats

CONFIDENCE = 0.95
#: Fewer cannot contradict any epsilon worth the name.
FEWEST = 8
#: Canaries as a share of the numbers that a message has: more could not be told apart.
SHARE = 0.5


def audit(
    method: Method,
    clients: Mapping[str, Any],
    *,
    privacy: Privacy | None = None,
    public: Any = None,
    weigh_rows: bool = False,
    canaries: int = 100,
    seed: int = 0,
    ledger: str | Path | None = None,
) -> Audit:
    """Attack a run of a method as a coordinator that only reads could, and return what was found.

    The first client by name puts canaries into its table, each with probability one half, and the method runs once, on
    this machine, with everything the coordinator sees written down. From that, canaries are guessed, which gives a
    lower bound of epsilon, and tables of the other clients are reconstructed. For FedTDD a second run without canaries
    is the reference. The result of the run is thrown away: canaries are in it.

    Parameters
    ----------
    method, clients, privacy, public
        As of `fit`, at least two clients.
    weigh_rows
        Whether clients weigh their rows, as sites do by default.
    canaries
        How many at most; fewer where messages hold too few numbers to tell as many apart. The more, the larger a bound
        can become: 100 that are all guessed right show that epsilon is at least 3.1.
    seed
        Of the run, the canaries and which of them are in.
    ledger
        The ledger of a site, ``KIT/home/ledger.jsonl``, whose sums of past runs are combined to isolate a client.

    Examples
    --------
    >>> import cotempo as ct
    >>> clients, _ = ct.make_networks(variables=4, clients=3, samples=300, seed=0)
    >>> found = ct.audit(ct.OneRound(compare=False), clients)
    >>> found.membership.auc, found.holds
    (1.0, True)
    """
    if canaries < FEWEST:
        raise ParameterError(f"canaries must be at least {FEWEST}, got {canaries}")
    setup = Run.of(method, clients, InProcessSettings(), LoopOptions(seed=seed), public=public).guarded(privacy)
    if len(setup.tables) < 2:
        raise DataError("there must be at least two clients, one of which has canaries, got one")
    stream = np.random.default_rng([seed, 0x0A0D])
    client = min(setup.tables)
    planted = _plant(setup.method, setup.tables[client], canaries, stream)
    included = _draw(planted.count, stream)
    tables = {**setup.tables, client: planted.insert(included)}
    if weigh_rows:
        tables = {name: _weigh(table, stream) for name, table in tables.items()}
    differences = () if ledger is None else tuple(difference_ledger(ledger))
    began = time.perf_counter()
    fitted, listener = _run(setup, tables)
    ran = time.perf_counter()
    scores = _score(setup, fitted, listener, planted, weighed=weigh_rows)
    others = {name: table for name, table in setup.tables.items() if name != client}
    recovered = reconstruct(setup.method, listener, others)
    bound = bound_membership(scores, included, setup.privacy.delta, CONFIDENCE)
    done = time.perf_counter()
    return Audit(
        type(method).__name__, describe_shields(setup.privacy, weigh_rows=weigh_rows), setup.privacy.epsilon,
        setup.privacy.delta, CONFIDENCE, planted.unit, bound, recovered, differences, ran - began, done - ran,
    )  # fmt: skip


def audit_shields(
    method: Method,
    clients: Mapping[str, Any],
    privacy: Privacy | None = None,
    *,
    public: Any = None,
    canaries: int = 100,
    seed: int = 0,
) -> ShieldTable:
    """Audit the same run without shields and with each of them: attack by shield.

    Parameters
    ----------
    privacy
        The noise to try, with its `epsilon`; without one no noise is tried.
    method, clients, public, canaries, seed
        As of `audit`.
    """
    noise = privacy if privacy is not None and privacy.epsilon is not None else None
    cases: dict[str, tuple[Privacy, bool]] = {"none": (Privacy(secure_sum=False), False)}
    if len(clients) >= 3:
        cases["secure sum"] = (Privacy(secure_sum=True), False)
    if method.kind == "series" and not hasattr(method, "common"):  # networks and moments, of which sums are sent
        cases["weights of rows"] = (Privacy(secure_sum=False), True)
    if noise:
        cases["noise"] = (noise.model_copy(update={"secure_sum": False}), False)
        if len(clients) >= 3:
            cases["noise and secure sum"] = (noise.model_copy(update={"secure_sum": True}), False)
    options = {"public": public, "canaries": canaries, "seed": seed}
    return ShieldTable(
        {
            name: audit(method, clients, privacy=guard, weigh_rows=weighed, **options)
            for name, (guard, weighed) in cases.items()
        }
    )


def describe_shields(privacy: Privacy, *, weigh_rows: bool) -> str:
    """Return what protects a run, in words."""
    on = [
        *(["secure sum"] if privacy.secure_sum else []),
        *(["weights of rows"] if weigh_rows else []),
        *([f"noise for epsilon {privacy.epsilon:g}"] if privacy.epsilon else []),
    ]
    return " and ".join(on) or "no shield"


def _plant(method: Method, table: Table, most: int, stream: np.random.Generator) -> Canaries:
    """Return canaries for a method's messages, not more than they can tell apart."""
    inner: Any = method.inner if isinstance(method, PrivateForm) else method
    if _is_learned(inner):
        assert isinstance(table, Series)
        return WindowCanaries(table, most, stream, inner.window)
    readings(method)  # refuses methods without canaries
    lags = getattr(inner, "lags", 1)
    reach = (lags if isinstance(lags, int) else 5) + 2  # so many that a client without the canary is not refused
    unit = method.privacy.unit if isinstance(method, PrivateForm) else "row"
    count = max(FEWEST, min(most, int(SHARE * _numbers(inner, table, lags))))
    return plant(table, count, stream, unit=unit, reach=reach)


def _numbers(method: Any, table: Table, lags: Any) -> int:
    """Return how many numbers a message has that canaries add to."""
    if table.kind == "events":
        return int(method.cells)
    if table.kind == "posts":
        return int(method.buckets)
    rows = getattr(method, "window", None) or (lags if isinstance(lags, int) else 5) + 1
    side = len(table.schema.columns) * rows
    return 2 * side if hasattr(method, "lambda_within") else side * (side + 1) // 2  # FDBNL sums no products


def _is_learned(method: Method) -> bool:
    """Say whether clients learn models that no sum of a message tells about: FedTDD's."""
    return any(cls.__name__ == "FedTDD" for cls in type(method).__mro__)


def _draw(count: int, stream: np.random.Generator) -> Bools:
    """Return which canaries are in, each by itself with probability one half; some are in and some are not."""
    while True:
        included = stream.random(count) < 0.5
        if included.any() and not included.all():
            return np.asarray(included)


def _weigh(table: Table, stream: np.random.Generator) -> Table:
    if not isinstance(table, Series):
        raise ParameterError(f"weigh_rows must be False for tables of {table.kind}: only rows of series are weighed")
    return table.weigh_rows(stream)


def _run(setup: Run, tables: Mapping[str, Table]) -> tuple[Any, Listener]:
    """Run on other tables, and return what was learned and what the coordinator saw."""
    listener = Listener(setup.options.reducer)
    started = replace(setup, tables=tables, options=replace(setup.options, reducer=listener))
    return started.start(progress=False), listener


def _score(setup: Run, fitted: Any, listener: Listener, planted: Canaries, *, weighed: bool) -> Floats:
    client = min(setup.tables)
    if isinstance(planted, WindowCanaries):
        nobody = {**setup.tables, client: planted.insert(np.zeros(planted.count, np.bool_))}
        plain = LoopOptions(public=setup.options.public, seed=setup.options.seed)
        reference = Run(setup.method, nobody, setup.engine, plain).start(progress=False)
        return score_windows(fitted, reference, planted, client)
    return score_canaries(Replay(setup.method, listener), planted, client, setup.tables, weighed=weighed)
