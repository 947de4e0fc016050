"""`lock_wheels`: what sites without the Internet install, by version and hash."""

import hashlib
from collections import defaultdict
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from cotempo.errors import ParameterError
from cotempo.privacy.contract import CODE_VERSION


def lock_wheels(folder: Path) -> str:
    """Return a requirements file that pins every wheel of a folder by its hash; pip then installs nothing else.

    A package may have several wheels, for several platforms, but only one version.
    """
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.glob("*.whl")):
        try:
            name, version, *_ = parse_wheel_filename(path.name)
        except InvalidWheelFilename as error:
            raise ParameterError(f"{path} must be named as wheels are: {error}") from error
        found[name][str(version)].append(hashlib.sha256(path.read_bytes()).hexdigest())
    for needed in ("cotempo", "flwr", "torch"):
        if needed not in found:
            raise ParameterError(
                f"{folder} must hold the wheels of cotempo[flower] and of all it needs, {needed} is missing; make it "
                f"with: pip wheel 'cotempo[flower]' --wheel-dir {folder}"
            )
    if twice := [name for name, versions in found.items() if len(versions) > 1]:
        raise ParameterError(f"{folder} must hold one version of each package, it has several of {', '.join(twice)}")
    if CODE_VERSION not in found["cotempo"]:
        raise ParameterError(
            f"{folder} must hold the cotempo of this machine, {CODE_VERSION}, got {', '.join(found['cotempo'])}"
        )
    lines = []
    for package, versions in sorted(found.items()):
        ((number, digests),) = versions.items()
        extra = "[flower]" if package == "cotempo" else ""
        lines.append(" ".join([f"{package}{extra}=={number}", *(f"--hash=sha256:{digest}" for digest in digests)]))
    return "\n".join(lines) + "\n"
