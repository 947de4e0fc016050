"""Tables made of parts: means with standard errors, and differences paired by seed."""

from __future__ import annotations

from typing import Any

import numpy as np

Part = dict[str, Any]
METRICS = ("NMI", "AMI", "ARI")


def with_error(values: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def by_method(parts: list[Part]) -> dict[str, list[Part]]:
    """The parts of each method, in the order they come."""
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part["method"], []).append(part)
    return found


def method_table(parts: list[Part], rival: str = "DAMe") -> list[dict[str, Any]]:
    """A row per method: scores, the rival's lead on the same seeds, time and traffic; one seed only if all have one."""
    best = {part["seed"]: part["NMI"] for part in parts if part["method"] == rival}
    found, table = by_method(parts), []
    least = min(2, max(map(len, found.values()), default=0))
    for name, rows in found.items():
        if len(rows) < least:
            continue
        row: dict[str, Any] = {"method": name, "seeds": len(rows)}
        for metric in METRICS:
            row[metric], row[f"{metric} error"] = with_error([part[metric] for part in rows])
        row["NMI, number unknown"] = with_error([part["unknown"] for part in rows])[0]
        lead = [best[part["seed"]] - part["NMI"] for part in rows if part["seed"] in best]
        row[f"{rival} minus it"], row["error of that"] = with_error(lead) if len(lead) == len(rows) else ("", "")
        for key in ("seconds", "bytes"):
            known = [part[key] for part in rows if key in part]
            row["bytes a round" if key == "bytes" else key] = with_error(known)[0] if known else ""
        for key, title in (("sent", "bytes down a client"), ("received", "bytes up a client")):
            known = [part[key] for part in rows if key in part]
            row[title] = max(known) if known else ""
        table.append(row)
    return table


def client_table(parts: list[Part]) -> list[dict[str, Any]]:
    """A row per method and client."""
    table = []
    for name, rows in by_method(parts).items():
        for client in sorted(rows[0]["clients"]):
            row: dict[str, Any] = {"method": name, "client": client, "seeds": len(rows)}
            for metric in METRICS:
                row[metric], row[f"{metric} error"] = with_error([part["clients"][client][metric] for part in rows])
            table.append(row)
    return table


def curve_table(parts: list[Part]) -> list[dict[str, Any]]:
    """A row per round: each trained method's best validation score so far."""
    curves = {name: np.mean([part["curve"] for part in rows], axis=0) for name, rows in by_method(parts).items()
              if "curve" in rows[0]}  # fmt: skip
    length = min((len(curve) for curve in curves.values()), default=0)
    return [
        {"round": place + 1, **{name: float(curve[place]) for name, curve in curves.items()}} for place in range(length)
    ]


def search_table(parts: list[Part]) -> list[dict[str, Any]]:
    """A row per twentieth of the weights BOLA tried: how often, how often chosen, and the mean score less that of 1."""
    found: dict[float, list[tuple[float, bool]]] = {}
    for part in parts:
        for search in part.get("searches", []):
            alone = search["scores"][search["tried"].index(1.0)]
            for weight, score in zip(search["tried"], search["scores"], strict=True):
                found.setdefault(np.floor(weight * 20 + 1e-9) / 20, []).append(
                    (score - alone, weight == search["weight"])
                )
    return [
        {"weight from": weight, "tried": len(rows), "chosen": sum(chosen for _, chosen in rows),
         "NMI less that of the own model": float(np.mean([gain for gain, _ in rows]))}
        for weight, rows in sorted(found.items())
    ]  # fmt: skip
