"""Faults 1 to 14 on a real deployment, five times each: run the tests, write the figures and the page's table."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

from results import write_results

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reliability.md"
NAMES = {
    1: "a client is killed in the middle of a round; comes back, or stays away",
    2: "a client hangs past its deadline",
    3: "an answer holds NaN",
    4: "the coordinator or the server is killed, at five points",
    5: "the disk is full at a checkpoint",
    6: "the newest checkpoint is damaged",
    7: "every answer comes twice",
    8: "an answer comes late",
    9: "a site's clock is four minutes wrong",
    10: "a client comes back without its memory",
    11: "a part of the clients each round",
    12: "the network is cut and mended",
    13: "below quorum",
    14: "a client runs out of memory",
}
EXPECTED = {
    1: "comes back, is asked again: the same bits; if it stays away, goes on without it, as if never asked",
    **dict.fromkeys((2, 3, 8, 10, 14), "goes on without that answer, as if never asked; named in the log"),
    **dict.fromkeys((4, 5, 6), "resumed to the bits of the run that was never stopped"),
    **dict.fromkeys((7, 9, 11, 12), "nothing is lost: the same bits"),
    13: "pauses with a checkpoint; resumed to the same bits",
}


def main() -> None:
    """Run every fault test, the slow ones too."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "faults.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "slow or not slow",
             f"--junitxml={report}", *sys.argv[1:], "tests/engines/flower/test_faults.py"], cwd=ROOT, check=False,
        )  # fmt: skip
        cases = ElementTree.parse(report).getroot().iter("testcase")
        found: dict[int, list[tuple[bool, float]]] = defaultdict(list)
        for case in cases:
            number = int(re.findall(r"fault_(\d+)", case.attrib["name"])[0])
            survived = case.find("failure") is None and case.find("error") is None
            if case.find("skipped") is None:
                found[number].append((survived, float(case.attrib["time"])))
    rows = [
        {
            "fault": number,
            "name": NAMES[number],
            "tries": len(found[number]),
            "survived": sum(well for well, _ in found[number]),
            "seconds": sum(seconds for _, seconds in found[number]) / max(len(found[number]), 1),
        }
        for number in NAMES
    ]
    write_results("reliability", rows, seed="0 to 4", note="real deployment on one machine: a server and three sites")
    lines = ["| | fault | what happens | tries | survived |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['fault']} | {row['name']} | {EXPECTED[int(str(row['fault']))]} | {row['tries']} | {row['survived']} |"
        for row in rows
    ]
    text = PAGE.read_text()
    start, end = "<!-- table -->\n", "<!-- end -->"
    PAGE.write_text(text[: text.index(start) + len(start)] + "\n".join(lines) + "\n" + text[text.index(end) :])


if __name__ == "__main__":
    main()
