"""Write a software bill of materials, CycloneDX 1.6 as JSON: cotempo[flower] and all it needs, as installed here.

Run: make sbom
"""

import json
import sys
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def needed(name: str, extras: frozenset[str], found: dict[str, Distribution]) -> None:
    """Add a package and, by the markers that hold here, everything it needs."""
    key = canonicalize_name(name)
    if key in found and not extras:
        return
    found[key] = package = distribution(name)
    for line in package.requires or ():
        requirement = Requirement(line)
        wanted = [
            extra for extra in ("", *extras) if not requirement.marker or requirement.marker.evaluate({"extra": extra})
        ]
        if wanted and canonicalize_name(requirement.name) not in found:
            needed(requirement.name, frozenset(requirement.extras), found)


def component(package: Distribution) -> dict[str, object]:
    """Describe a package."""
    about = package.metadata
    licence = about.get("License-Expression") or about.get("License") or ""
    name = canonicalize_name(about["Name"])
    entry: dict[str, object] = {
        "type": "library", "name": name, "version": package.version, "purl": f"pkg:pypi/{name}@{package.version}",
        "bom-ref": f"{name}@{package.version}",
    }  # fmt: skip
    if licence and len(licence) < 100:
        entry["licenses"] = [{"license": {"name": licence}}]
    return entry


def main() -> None:
    """Print the bill."""
    found: dict[str, Distribution] = {}
    needed("cotempo", frozenset({"flower"}), found)
    own = found.pop("cotempo")
    bill = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": {**component(own), "type": "application"}},
        "components": [component(found[name]) for name in sorted(found)],
    }  # fmt: skip
    json.dump(bill, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
