"""`cotempo ledger`: what left a site, over all runs."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cotempo.cli.consortium.deploy import Kit
from cotempo.cli.output import Output, command

if TYPE_CHECKING:
    from cotempo.privacy.ledger import Ledger

ledger = typer.Typer(help="What left a site, over all runs.", no_args_is_help=True, rich_markup_mode=None)


def _ledger(kit: Path) -> "Ledger":
    from cotempo.engines.flower.site.enrolment import site_name
    from cotempo.privacy.ledger import Ledger

    site_name(kit)
    return Ledger(kit / "home" / "ledger.jsonl")


@command(ledger, "verify")
def verify_ledger(kit: Kit) -> Output:
    """Check, offline, that no entry of a site's ledger was changed, removed or cut off."""
    entries = _ledger(kit).verify()
    return Output([f"ok: {len(entries)} entries, each as it was written"], {"entries": len(entries)})


@command(ledger, "show")
def show_ledger(kit: Kit) -> Output:
    """List what left a site: run by run, to whom, among whom, how much of it masked, and the epsilon spent."""
    entries = _ledger(kit).verify()
    lines = []
    for run in [entry for entry in entries if entry["kind"] == "run"]:
        own = [entry for entry in entries if entry["run"] == run["run"]]
        sent = [entry for entry in own if entry["kind"] == "message"]
        masked = sum(entry["bytes"] for entry in sent if entry["is_masked"])
        clear = sum(entry["bytes"] for entry in sent) - masked
        epsilon = run["privacy"].get("epsilon")
        lines += [
            f"{run['time'][:19]}  {run['method']} on {run['data']} {run['table'][:8]}, run {run['run'][:8]}",
            f"  among {', '.join(run['participants'])}; to the coordinator with the key {run['to'][:8]}",
            f"  left: {masked:,} bytes masked, {clear:,} bytes readable by the coordinator, in {len(sent)} messages",
            f"  epsilon: {'no noise' if epsilon is None else f'{epsilon:g}'}",
            f"  approved by {run.get('approved', 'site.toml')}",
        ]
        lines += [
            f"  a sum over {', '.join(entry['participants'])} was revealed"
            for entry in own
            if entry["kind"] == "sum" and entry["participants"] != run["participants"]
        ]
    return Output(lines or ["Nothing has left."], {"entries": entries})
