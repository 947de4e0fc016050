"""`EXAMPLES`: how each command is called, for its --help; a test reads every line with the command's own parser."""

from typing import Any

EXAMPLES = {
    "": (
        "cotempo init --data tables/",
        "cotempo run experiment.toml --dry-run",
        "cotempo run experiment.toml",
        "cotempo watch runs/experiment",
        "cotempo --install-completion",
    ),
    "init": ("cotempo init --data tables/", "cotempo init plants.toml --data tables/ --method FedMoments --unit h"),
    "methods": ("cotempo methods", "cotempo methods FDBNL"),
    "doctor": ("cotempo doctor", "cotempo doctor --json"),
    "demo": ("cotempo demo", "cotempo demo --out shown"),
    "run": (
        "cotempo run experiment.toml --dry-run",
        "cotempo run experiment.toml --run runs/second",
        "cotempo run experiment.toml --engine flower --server plants/server",
    ),
    "resume": ("cotempo resume runs/experiment",),
    "watch": ("cotempo watch", "cotempo watch runs/experiment", "cotempo watch runs/experiment --plain"),
    "report": (
        "cotempo report runs/experiment --out page.html",
        "cotempo report runs/first runs/second --out comparison.html",
    ),
    "messages": ("cotempo messages runs/experiment --client plant-a",),
    "audit": ("cotempo audit runs/experiment", "cotempo audit runs/experiment --canaries 50"),
    "survey": ("cotempo survey tables/", "cotempo survey experiment.toml"),
    "check": ("cotempo check tables/", "cotempo check experiment.toml"),
    "make-data": ("cotempo make-data networks", "cotempo make-data networks --out tables --set clients=5"),
    "predict": ("cotempo predict runs/experiment tables/ --out ahead.csv --horizon 24",),
    "next": ("cotempo next runs/experiment --after '2025-04-07 08:00'",),
    "count": ("cotempo count runs/experiment --start 2025-04-07 --end 2025-04-08",),
    "impute": ("cotempo impute runs/experiment tables/ --out filled.csv --level 0.9",),
    "sample": ("cotempo sample runs/experiment --out drawn.csv --count 20",),
    "release": ("cotempo release runs/experiment tables/ --out shared.csv",),
    "detect": ("cotempo detect runs/experiment posts.csv --out named.csv",),
    "update": ("cotempo update runs/experiment today.csv",),
    "rename": ("cotempo rename runs/experiment found-0000 'the storm'",),
    "merge": ("cotempo merge runs/experiment storm Storm --into 'the storm' --client plant-a",),
    "split": ("cotempo split runs/experiment 'the storm' --parts 3",),
    "export": ("cotempo export runs/experiment --out results --figures svg",),
    "provision": ("cotempo provision federation.toml --out plants",),
    "server start": ("cotempo server start plants/server",),
    "server status": ("cotempo server status plants/server", "cotempo server status plants/server --json"),
    "server admit": ("cotempo server admit plants/server plant-a.enrolment.json",),
    "server add": ("cotempo server add plants/server plant-d",),
    "server pause": ("cotempo server pause plants/server plant-b", "cotempo server pause plants/server plant-b --off"),
    "server queue": ("cotempo server queue plants/server experiment.toml", "cotempo server queue plants/server"),
    "server cancel": ("cotempo server cancel plants/server 3",),
    "server key": ("cotempo server key anna",),
    "client enrol": ("cotempo client enrol plant-a", "cotempo client enrol plant-a --data pulse.csv"),
    "client pin": ("cotempo client pin plant-a book.toml",),
    "client check": ("cotempo client check plant-a",),
    "client start": ("cotempo client start plant-a", "cotempo client start plant-a --book book.toml"),
    "client page": ("cotempo client page plant-a",),
    "ledger show": ("cotempo ledger show plant-a",),
    "bench table": ("cotempo bench table events-table1",),
    "bench run": ("cotempo bench run networks-fdbnl",),
    "ledger verify": ("cotempo ledger verify plant-a",),
}


def add_examples(program: Any) -> None:
    """Show the examples at the end of each command's help."""
    for name, lines in EXAMPLES.items():
        found = program
        for word in name.split():
            found = found.commands[word]
        shown = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)  # \b keeps click from joining lines
        found.epilog = "\n\n".join(filter(None, [shown, found.epilog]))
