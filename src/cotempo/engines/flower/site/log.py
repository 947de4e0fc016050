"""`SiteLog`: what happened at a site, for its people and their log collector: no data, and no paths of others."""

import json
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cotempo.errors import printable
from cotempo.storage.files import private

LONGEST_ENTRY = 8000  # letters
REFUSED = "refused: "


class SiteLog:
    """``site.log`` in a site's home, as text or as JSON lines, and ``errors.log`` beside it.

    An error's text may quote data, so that only its class and place stand in ``site.log``; the whole is in
    ``errors.log``, which is for the site's own people.
    """

    def __init__(self, home: Path, name: str, *, as_json: bool = False):
        self.home, self.name, self.as_json = home, name, as_json

    def __call__(self, text: str, event: str = "note") -> None:
        """Write an entry."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = {"time": now, "site": self.name, "event": event, "text": _shorten(text)}
        # Whoever chose a word of it must not begin a line.
        line = json.dumps(entry) if self.as_json else f"{now} {entry['text']}".replace("\n", "\n  ")
        self._append("site.log", line)

    @property
    def refusals(self) -> dict[str, str]:
        """What this site's rules refused, each with the time it did so last; the newest first."""
        path, found = self.home / "site.log", dict[str, str]()
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
            entry = _read_entry(line)
            if entry["text"].startswith(REFUSED):
                said = entry["text"].removeprefix(REFUSED)
                found.pop(said, None)
                found[said] = entry["time"]
        return dict(reversed(found.items()))

    def fail(self, error: Exception) -> None:
        """Write what error came, and where; its text and its traceback to ``errors.log``."""
        *_, place = traceback.extract_tb(error.__traceback__)
        where = f"{Path(place.filename).name}, line {place.lineno}"
        self(f"{type(error).__name__} in {where}; errors.log has the rest", "failed")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._append("errors.log", f"{now} {_shorten(''.join(traceback.format_exception(error)))}")

    def _append(self, name: str, text: str) -> None:
        """Write to a file; a site whose disk is full goes on without it."""
        with suppress(OSError):
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(self.home / name, "a", encoding="utf-8", errors="backslashreplace", opener=private) as file:
                file.write(text + "\n")


def _read_entry(line: str) -> dict[str, str]:
    """Return the time and the text of a line of the log, whether it was written as text or as JSON."""
    if line.startswith("{"):
        with suppress(ValueError):
            found: dict[str, str] = json.loads(line)
            return found
    time, _, text = line.partition(" ")
    return {"time": time, "text": text}


def _shorten(text: str) -> str:
    text = text.rstrip() if len(text) <= LONGEST_ENTRY else f"{text[:LONGEST_ENTRY]} ... of {len(text)} letters"
    return printable(text)
