"""`cotempo doctor`: what this machine has of what cotempo needs, and what is wrong, in words."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import socket
import sys
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cotempo.cli.output import Output

LEAST_FREE = 1e9  # bytes, for a run's folder and its checkpoints
OK, NOTE, FAILED = "ok", "note", "FAILED"


class Diagnosis(NamedTuple):
    """One thing that was looked at: whether it is fine, could be better or is wrong, and what was found."""

    name: str
    grade: str
    detail: str


def examine() -> Output:
    """Check this machine: versions, packages, GPU, threads, disk, time zones, network; say what is wrong and why."""
    found = [finding for check in CHECKS for finding in attempt(check)]
    wrong = [finding for finding in found if finding.grade == FAILED]
    width = max(len(finding.name) for finding in found)
    lines = [f"{finding.grade:6}  {finding.name:{width}}  {finding.detail}" for finding in found]
    verdict = f"{len(wrong)} of {len(found)} must be mended." if wrong else "Nothing is in the way of a run."
    record = {"ok": not wrong, "findings": [finding._asdict() for finding in found]}
    return Output([*lines, verdict], record, code=1 if wrong else 0)


def attempt(check: Callable[[], Iterator[Diagnosis]]) -> list[Diagnosis]:
    """Return what a check found; one that breaks is a finding of its own."""
    try:
        return list(check())
    except Exception as error:
        return [Diagnosis(check.__name__.removeprefix("check_"), FAILED, f"{type(error).__name__}: {error}")]


def check_python() -> Iterator[Diagnosis]:
    """Look at Python, the system and cotempo."""
    import cotempo

    fits = sys.version_info >= (3, 11)
    yield Diagnosis("cotempo", OK, f"{cotempo.__version__} in {Path(cotempo.__file__).parent}")
    advice = "" if fits else "; install Python 3.11 or newer"
    yield Diagnosis("python", OK if fits else FAILED, f"{platform.python_version()} in {sys.prefix}{advice}")
    is_posix = os.name == "posix"
    yield Diagnosis("system", OK if is_posix else NOTE, platform.platform() + ("" if is_posix else "; tested on POSIX"))


def requirements() -> dict[str, dict[str, str]]:
    """Return by extra the packages that cotempo asks for and their least versions; by '' those always needed."""
    found: dict[str, dict[str, str]] = {}
    for line in importlib.metadata.requires("cotempo") or ():
        package, _, rest = line.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)", rest)
        name = re.match(r"[\w.-]+", package)
        if name and name[0] != "cotempo":
            least = re.search(r">=\s*([\d.]+)", package)
            found.setdefault(extra[1] if extra else "", {})[name[0]] = least[1] if least else "0"
    return found


def problem_with(package: str, least: str) -> str:
    """Return what is wrong with an installed package, empty if nothing is."""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return f"{package} is missing"
    numbers = [tuple(map(int, re.findall(r"\d+", text.split("+")[0])))[:3] for text in (version, least)]
    return "" if numbers[0] >= numbers[1] else f"{package} is {version}, older than {least}"


def check_packages() -> Iterator[Diagnosis]:
    """Look at the packages that are always needed."""
    needed = requirements().get("", {})
    problems = [problem for problem in (problem_with(*item) for item in needed.items()) if problem]
    advice = f"{', '.join(problems)}; mend with: pip install --upgrade cotempo"
    yield Diagnosis("packages", FAILED if problems else OK, advice if problems else f"all {len(needed)} are there")


def check_extras() -> Iterator[Diagnosis]:
    """Look at the extras."""
    for extra, needed in requirements().items():
        if extra not in ("", "dev"):
            lacks = [problem for problem in (problem_with(*item) for item in needed.items()) if problem]
            advice = f"not installed ({', '.join(lacks)}); if you need it: pip install 'cotempo[{extra}]'"
            yield Diagnosis(f"extra {extra}", NOTE if lacks else OK, advice if lacks else "installed")


def check_gpu() -> Iterator[Diagnosis]:
    """Look for a GPU that torch can use."""
    import torch

    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count()))
        yield Diagnosis("gpu", OK, f"{names}; methods use it with device='cuda'")
    else:
        yield Diagnosis("gpu", NOTE, f"torch {torch.__version__} finds none; everything runs on the CPU")


def check_threads() -> Iterator[Diagnosis]:
    """Look at cores and at variables that change how many threads libraries use."""
    from cotempo.threads import VARIABLES

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wrong = [f"{name}={os.environ[name]}" for name in VARIABLES if not os.environ.get(name, "1").isdigit()]
    detail = f"{cores} cores; a run uses one thread a process unless [engine] threads says more"
    cure = f"{', '.join(wrong)} must be a number; correct or unset it"
    yield Diagnosis("threads", FAILED if wrong else OK, cure if wrong else detail)


def check_disk() -> Iterator[Diagnosis]:
    """Look whether runs can be kept in this folder."""
    here, free = Path.cwd(), shutil.disk_usage(Path.cwd()).free
    if not os.access(here, os.W_OK):
        yield Diagnosis("disk", FAILED, f"{here} cannot be written to; runs need a folder that can: --run FOLDER")
    elif free < LEAST_FREE:
        yield Diagnosis("disk", NOTE, f"{free / 1e9:.2f} GB free in {here}; long runs may need more")
    else:
        yield Diagnosis("disk", OK, f"{free / 1e9:.0f} GB free in {here}")


def check_zones() -> Iterator[Diagnosis]:
    """Look whether names of time zones are known, and what the clock shows."""
    now = datetime.now().astimezone()
    yield Diagnosis("clock", OK, f"{now:%Y-%m-%d %H:%M:%S %Z}; sites and server must agree within 5 minutes")
    try:
        zoneinfo.ZoneInfo("Europe/Berlin")
    except zoneinfo.ZoneInfoNotFoundError:
        yield Diagnosis("time zones", FAILED, "dates of a named zone cannot be read; mend with: pip install tzdata")
    else:
        yield Diagnosis("time zones", OK, f"{len(zoneinfo.available_timezones())} known")


def check_ports() -> Iterator[Diagnosis]:
    """Look whether processes of this machine can talk to each other, as pages and servers do."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        cure = "a firewall or a container forbids it"
        yield Diagnosis("network", FAILED, f"no connection to a port of this machine ({error}); {cure}")
    else:
        yield Diagnosis("network", OK, f"ports of this machine can be used, tried {port}")


CHECKS = (check_python, check_packages, check_extras, check_gpu, check_threads, check_disk, check_zones, check_ports)
