"""The worker, which answers the SuperNode's tasks: python -m cotempo.engines.flower.site.worker KIT ADDRESS.

It lives as long as the site is joined, so the table, its preprocessing and the methods stay in memory.
"""

import sys
import time
from pathlib import Path

import httpx

from cotempo.engines.flower.processes import Backoff, exit_with_parent
from cotempo.engines.flower.protocol import Verb
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.engines.flower.site.tasks import Tasks
from cotempo.engines.flower.transport import pack, unpack
from cotempo.errors import MessageError
from cotempo.threads import set_threads


def main() -> None:
    """Take one task after the other until the parent is gone."""
    kit, address = Path(sys.argv[1]), sys.argv[2]
    set_threads(1)
    exit_with_parent()
    service = SiteService(SiteSettings.from_kit(kit), kit / "home")
    tasks = Tasks(address, (kit / "home" / "secret").read_bytes())
    idle = Backoff(0.02, 0.5)
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
            answer = service.handle(*unpack(task.message))
        except MessageError as error:
            answer = service.fail(error)
        task.reply(pack(Verb.ANSWER, answer))


if __name__ == "__main__":
    main()
