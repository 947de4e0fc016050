"""`watched`: while a run is at work, tell whoever is to be told that a site is gone, refuses, or the disk gets full."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cotempo.alerts import Alerts, AlertSettings
from cotempo.errors import CotempoError
from cotempo.runs.lights import lights
from cotempo.runs.state import RunState

LOOK_SECONDS = 2.0


@contextmanager
def watched(run: Path, settings: AlertSettings) -> Iterator[None]:
    """Watch a run's folder in a thread, and tell at the end if the run failed; do nothing if nobody is to be told."""
    alerts = Alerts(settings, lambda text: warnings.warn(text, stacklevel=1))
    if not alerts.are_on:
        yield
        return
    watch, stop = RunWatch(run, alerts), threading.Event()

    def keep_looking() -> None:
        while not stop.wait(LOOK_SECONDS):
            with suppress(CotempoError, OSError):
                watch.look()

    thread = threading.Thread(target=keep_looking, name="alarms", daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        alerts.tell("run failed", run.name, f"{type(error).__name__}: {error}")
        raise
    finally:
        stop.set()
        thread.join()
        with suppress(CotempoError, OSError):
            watch.look()


class RunWatch:
    """What is wrong with a run, told as it comes and forgotten as it goes."""

    def __init__(self, run: Path, alerts: Alerts):
        self.state, self.alerts = RunState(run), alerts

    def look(self) -> None:
        """Tell what is new."""
        state, alerts = self.state.refresh(), self.alerts
        for light in lights(state):
            about = f"{state.name}: {light.client}"
            if light.word == "gone":
                alerts.tell("site gone", about, f"{light.client} is gone {light.detail}")
            else:
                alerts.over("site gone", about)
        refused = [failure for failure in state.failures if failure["kind"] == "Refused"]
        for failure in refused:
            alerts.tell("refused", f"{state.name}: {failure['client']}", f"{failure['client']}: {failure['detail']}")
        alerts.tell_of_room(state.name, state.path)
