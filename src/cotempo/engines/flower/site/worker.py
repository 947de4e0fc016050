"""A site's worker: python -m cotempo.engines.flower.site.worker KIT ADDRESS. It takes the SuperNode's tasks one by one.

It lives as long as the site is joined, so the table, what was prepared of it and the methods stay warm.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from cotempo.engines.flower import need_flower
from cotempo.engines.flower.processes import Patience, follow
from cotempo.engines.flower.site.service import Desk, SiteSettings
from cotempo.errors import MessageError
from cotempo.threads import set_threads


def main() -> None:
    """Work until the parent is gone."""
    kit, address = Path(sys.argv[1]), sys.argv[2]
    set_threads(1)
    follow()
    need_flower()
    import httpx

    from cotempo.engines.flower.protocol import pack, unpack
    from cotempo.engines.flower.site.tasks import Tasks

    desk = Desk(SiteSettings.read(kit), kit / "home")
    tasks = Tasks(address, (kit / "home" / "secret").read_bytes())
    idle = Patience(0.02, 0.5)
    while True:
        try:
            task = tasks.take()
        except httpx.TransportError:
            task = None  # the SuperNode is starting
        if task is None:
            time.sleep(idle.next())
            continue
        idle.reset()
        try:
            verb, parts = unpack(task.message)
        except MessageError as error:
            verb, parts = str(error), {}  # which no desk knows
        task.reply(pack(verb, desk.handle(verb, parts)))


if __name__ == "__main__":
    main()
