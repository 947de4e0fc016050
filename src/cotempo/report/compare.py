"""`write_comparison`: one HTML page that compares runs, client by client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cotempo.data.tables import pluralize
from cotempo.errors import ParameterError
from cotempo.federation.benefit import standard_error
from cotempo.federation.fitted import Fitted, plus_minus
from cotempo.report.content import Traffic
from cotempo.report.figures import plot_differences
from cotempo.report.page import render
from cotempo.report.tables import PageTable, Picture, size


def write_comparison(results: Mapping[str, Fitted], path: Path, truths: Mapping[str, Any] | None = None) -> Path:
    """Write a page that compares results by name, all of them with the first.

    Parameters
    ----------
    results
        The results by the name of their run.
    path
        The file to write.
    truths
        What the data of each run were made from, where that is known.

    Examples
    --------
    >>> import cotempo as ct, tempfile
    >>> clients, truth = ct.make_networks(variables=3, clients=3, samples=80, seed=0)
    >>> runs = {f"{lags} lags": ct.OneRound(lags=lags).fit(clients) for lags in (1, 2)}
    >>> write_comparison(runs, Path(tempfile.mkdtemp()) / "comparison.html").name
    'comparison.html'
    """
    if len(results) < 2:
        raise ParameterError(f"results must hold at least two runs to compare, got {len(results)}")
    return render("comparison.html.jinja", path, **compare(results, truths or {}))


def compare(results: Mapping[str, Fitted], truths: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything the page says about several results."""
    first = next(iter(results))
    differences, excluded = paired_differences(results)
    rows = []
    for name, found in differences.items():
        values = list(found.values())
        better = f"{sum(value > 0 for value in values)} of {len(values)}"
        error = standard_error(values) if len(values) > 1 else None
        rows.append((name, len(values), sum(values) / len(values), error, better, verdict(values)))
    metric = next((item.metric for item in results[first].benefit.values()), "")
    header = ("run", "clients", f"mean difference to {first}", "standard error", "clients better", "verdict")
    return {
        "names": list(results),
        "answer": answer(first, differences, metric),
        "notes": excluded,
        "metric": metric,
        "picture": differences
        and Picture.of("Differences, client by client", plot_differences(differences, first, metric)),
        "differences": PageTable(header, rows, "More than 0 is better; at most two standard errors show nothing."),
        "clients": client_table(results, differences),
        "settings": settings_table(results),
        "overview": overview(results, truths),
    }


def paired_differences(results: Mapping[str, Fitted]) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Return by run and client how much better it is than the first run, and sentences on what cannot be compared."""
    (first, base), *others = results.items()
    found, excluded = {}, []
    for name, fitted in others:
        values = {}
        changed = [client for client in fitted.benefit if not same_table(base, fitted, client)]
        if changed:
            excluded.append(
                f"{name} and {first} had different tables of {', '.join(changed)}: errors on different data do "
                "not tell which run is better, and are not compared."
            )
        for client, after in fitted.benefit.items():
            before = base.benefit.get(client)
            if before is not None and before.metric == after.metric and client not in changed:
                values[client] = (after.together - before.together) * (1 if after.higher_is_better else -1)
        if values:
            found[name] = values
        elif not changed:
            excluded.append(f"{name} and {first} share no client that both measured by the same metric.")
    return found, excluded


def same_table(one: Fitted, other: Fitted, client: str) -> bool:
    """Return whether two runs had the same table of a client, as far as is known."""
    hashes = {fitted.outcome.tables.get(client) for fitted in (one, other)}
    return len(hashes - {None}) < 2 or client not in one.benefit


def answer(first: str, differences: Mapping[str, Mapping[str, float]], metric: str) -> str:
    """Return in one sentence how the runs differ on the clients they share."""
    if not differences:
        return f"No run can be compared with {first} client by client."
    parts = [
        f"{name} {plus_minus(list(found.values()))} over {pluralize(len(found), 'client')}, {verdict(found.values())}"
        for name, found in differences.items()
    ]
    return f"Against {first}, by {metric} (more than 0 is better): {'; '.join(parts)}."


def verdict(differences: Iterable[float]) -> str:
    """Return what differences of clients show: their mean counts if it is more than two standard errors."""
    values = list(differences)
    mean = sum(values) / len(values)
    if len(values) > 1 and abs(mean) <= 2 * standard_error(values):
        return "no difference shown"
    return "better" if mean > 0 else "worse"


def client_table(results: Mapping[str, Fitted], differences: Mapping[str, Mapping[str, float]]) -> PageTable:
    """Return each client's metric in every run, and the differences to the first."""
    benefits = {name: fitted.benefit for name, fitted in results.items()}
    clients = sorted({client for found in differences.values() for client in found})
    rows = [
        (
            client,
            *(found[client].together if client in found else None for found in benefits.values()),
            *(found.get(client) for found in differences.values()),
        )
        for client in clients
    ]
    return PageTable(("client", *results, *(f"{name}, better by" for name in differences)), rows)


def settings_table(results: Mapping[str, Fitted]) -> PageTable:
    """Return the settings that are not the same in all runs; of one that others lack, what is not the default."""
    methods = [fitted.method for fitted in results.values()]
    rows = [("method", *(type(method).__name__ for method in methods))]
    for client in sorted({name for fitted in results.values() for name in fitted.outcome.tables}):
        hashes = [fitted.outcome.tables.get(client, "–")[:8] for fitted in results.values()]
        rows.append((f"table of {client}, its hash", *hashes))
    for key in dict.fromkeys(name for method in methods for name in type(method).model_fields):
        known = [method for method in methods if key in type(method).model_fields]
        changed = any(getattr(method, key) != type(method).model_fields[key].default for method in known)
        if changed or len({str(getattr(method, key)) for method in known}) > 1:
            rows.append((key, *(str(getattr(method, key, "–")) for method in methods)))
    for key in ("epsilon", "delta", "unit", "secure_sum"):
        values = [fitted.privacy.get(key) for fitted in results.values()]
        rows.append((f"privacy: {key}", *(str(value or "none") for value in values)))
    return PageTable(("setting", *results), [row for row in rows if len({*row[1:]}) > 1])


def overview(results: Mapping[str, Fitted], truths: Mapping[str, Any]) -> PageTable:
    """Return sizes, costs and scores of each run, a column for each."""
    columns = []
    for name, fitted in results.items():
        summary = fitted.summary(truths.get(name))
        columns.append(
            {
                "clients": f"{len(fitted.names):,}",
                "rounds": f"{fitted.rounds:,}",
                "time": f"{fitted.seconds:.3g} s",
                "left the clients": size(Traffic(fitted).up),
                "answers left out": f"{len(fitted.failures):,}",
                "joining helped": f"{summary['helped']} of {len(fitted.benefit)}" if fitted.benefit else "not measured",
                "epsilon": str(fitted.privacy.get("epsilon") or "none"),
                **{score.replace("_", " "): f"{value:.4g}" for score, value in summary["scores"].items()},
                "state": summary["digest"][:12],
            }
        )
    names = dict.fromkeys(key for column in columns for key in column)
    return PageTable(("", *results), [(key, *(column.get(key, "–") for column in columns)) for key in names])
