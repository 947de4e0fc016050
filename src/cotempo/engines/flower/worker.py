"""A site's worker: python -m cotempo.engines.flower.worker KIT ADDRESS. It takes the SuperNode's tasks one by one.

It lives as long as the site is joined, so the table, what was prepared of it and the methods stay warm.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from cotempo.engines.flower import need_flower
from cotempo.engines.flower.desk import Desk, SiteSettings
from cotempo.threads import limit_threads

POLL = 0.1


def main() -> None:
    """Work until the parent is gone."""
    kit, address = Path(sys.argv[1]), sys.argv[2]
    follow(os.getppid())
    need_flower()
    import httpx

    from cotempo.engines.flower.records import pack, unpack
    from cotempo.engines.flower.runtime import Tasks

    desk = Desk(SiteSettings.read(kit), kit / "home")
    tasks = Tasks(address, (kit / "home" / "secret").read_bytes())
    with limit_threads(1):
        while True:
            try:
                task = tasks.take()
            except httpx.TransportError:
                task = None  # the SuperNode is starting
            if task is None:
                time.sleep(POLL)
                continue
            verb, parts = unpack(task.message)
            task.reply(pack(verb, desk.handle(verb, parts)))


def follow(parent: int) -> None:
    """End when the parent ends, however it ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
