"""`Alerts`: tell somebody what goes wrong, by a command or a webhook. Off unless set: nothing is sent anywhere."""

import json
import math
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from cotempo.settings import Settings

Kind = Literal["site gone", "run failed", "refused", "disk low", "budget nearly spent"]
SEND_SECONDS, AGAIN_SECONDS = 10.0, 3600.0
LEAST_FREE = 1e9  # bytes on a disk; below it is low
NEARLY_SPENT = 0.8  # of a budget
_PATH = re.compile(r"(?<![\w:/])/(?:[^\s/:;,'\"]+/)+")  # a file's folders, not the address of a page


class AlertSettings(Settings):
    """Whom to tell: a command, which reads one JSON object, or a webhook, to which it is posted."""

    command: tuple[str, ...] = Field(default=(), description="A program and its arguments; it reads the alert as JSON.")
    webhook: str | None = Field(default=None, description="An address, to which the alert is posted as JSON.")
    on: tuple[Kind, ...] = Field(
        default=("site gone", "run failed", "refused", "disk low", "budget nearly spent"),
        description="What to tell; everything by default.",
    )

    @field_validator("webhook")
    @classmethod
    def _is_address(cls, webhook: str | None) -> str | None:
        if webhook is not None and not webhook.startswith(("https://", "http://")):
            raise ValueError(f"webhook must be an address that begins with https://, got {webhook!r}")
        return webhook


SILENT = AlertSettings()


class Alerts:
    """Sends alerts in the background, each once an hour while it lasts; what cannot be sent is noted by `log`.

    An alert holds a kind, the name of the run or site it is about, and a sentence without data and folders.
    """

    def __init__(self, settings: AlertSettings, log: Callable[[str], object]):
        self.settings, self.log = settings, log
        self._told: dict[tuple[str, str], float] = {}  # when, by the monotonic clock

    @property
    def are_on(self) -> bool:
        """Whether anybody is to be told."""
        return bool(self.settings.command or self.settings.webhook)

    def tell(self, kind: Kind, about: str, text: str) -> None:
        """Send an alert, unless it was sent within the hour."""
        if not self.are_on or kind not in self.settings.on:
            return
        if time.monotonic() - self._told.get((kind, about), -math.inf) < AGAIN_SECONDS:
            return
        self._told[kind, about] = time.monotonic()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        alert = {"time": now, "kind": kind, "about": about, "text": without_folders(text)}
        # Not a daemon: a process that ends with an error waits until it is told.
        threading.Thread(target=self._send, args=(json.dumps(alert),)).start()

    def over(self, kind: Kind, about: str) -> None:
        """Note that something is well again, so that it is told at once when it comes back."""
        self._told.pop((kind, about), None)

    def tell_of_room(self, about: str, folder: Path) -> None:
        """Tell if there is little room left on a folder's disk."""
        free = shutil.disk_usage(folder).free
        if free < LEAST_FREE:
            self.tell("disk low", about, f"{free / 1e9:.2f} GB are left on the disk of {about}")
        else:
            self.over("disk low", about)

    def _send(self, alert: str) -> None:
        try:
            if self.settings.command:
                subprocess.run(
                    self.settings.command, input=alert.encode(), check=True, timeout=SEND_SECONDS,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )  # fmt: skip
            if self.settings.webhook:
                headers = {"content-type": "application/json"}
                request = urllib.request.Request(self.settings.webhook, alert.encode(), headers)
                urllib.request.urlopen(request, timeout=SEND_SECONDS).close()
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            self.log(f"an alert could not be sent: {type(error).__name__}")


def without_folders(text: str) -> str:
    """Return the first line of a text with names of files in the place of their paths.

    Examples
    --------
    >>> without_folders("/srv/anna/runs/plants must have room; see https://example.org/a/b")
    'plants must have room; see https://example.org/a/b'
    """
    return _PATH.sub("", text.partition("\n")[0])
