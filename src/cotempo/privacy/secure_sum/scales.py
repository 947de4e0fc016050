"""`ScaleBook`: the public scales that were agreed on, by phase, so that a resumed run rounds as the first one did."""

import json
from collections.abc import Mapping
from pathlib import Path

from cotempo.privacy.secure_sum.fixed_point import Layout

Scales = Mapping[str, tuple[int, int]]


class ScaleBook:
    """Agreed scales by phase and fields, each valid from a step on; kept in a file if a path is given."""

    def __init__(self, path: Path | None = None):
        self.path = path
        self._records: list[tuple[int, str, Scales | None]] = []
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    break  # cut off by a kill, before anything was summed on these scales
                self._records.append((record["step"], record["key"], record["scales"]))

    def find(self, step: int, phase: str, layout: Layout) -> Scales | None:
        """Return the scales valid at a step, `None` if there are none or they must be agreed on."""
        valid = self._valid(step, phase, layout)
        # Of two records of a step, the later one replaced the first.
        return max(enumerate(valid), key=lambda item: (item[1][0], item[0]))[1][2] if valid else None

    def has_agreed(self, step: int, phase: str, layout: Layout) -> bool:
        """Return whether scales were ever agreed on, or found to be needed, up to a step."""
        return bool(self._valid(step, phase, layout))

    def _valid(self, step: int, phase: str, layout: Layout) -> list[tuple[int, str, Scales | None]]:
        key = _key(phase, layout)
        return [record for record in self._records if record[1] == key and record[0] <= step]

    def store(self, step: int, phase: str, layout: Layout, scales: Scales | None) -> None:
        """Store scales from a step on; `None` says that they must be agreed on again."""
        key = _key(phase, layout)
        self._records.append((step, key, scales))
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, "key": key, "scales": scales}) + "\n")


def _key(phase: str, layout: Layout) -> str:
    return json.dumps([phase, [[field.name, field.shape, field.dtype] for field in layout.fields]])
