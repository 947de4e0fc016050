"""The worker, which answers what the site is asked: python -m cotempo.engines.flower.site.worker KIT.

It lives as long as the site is joined, so the table, its preprocessing and the methods stay in memory. Our
server holds its polls until there is a message; another is polled fast while a run goes on, then ever more slowly.
"""

import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx

from cotempo.engines.flower.processes import Backoff, Heartbeat, exit_with_parent
from cotempo.engines.flower.protocol import Envelope, Part, Verb
from cotempo.engines.flower.site.link import HEARTBEAT_SECONDS, Asked, SiteLink, is_passing
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.engines.flower.wire import SEAT, WORDS, ContentLost
from cotempo.errors import MessageError
from cotempo.threads import set_threads

POLL_SECONDS = 0.02, 3.0
RUN_OVER = 403
ROOM_SECONDS = 60.0  # between two looks at the room on the disk


def answer(service: SiteService, asked: Envelope) -> Envelope:
    """Answer in the version of the question; a coordinator that is too old or too new is told so."""
    if refusal := asked.refusal():
        service.log(f"refused: {refusal}", "refused")
        return Envelope.write(Verb.ANSWER, {Part.REFUSED: refusal.encode()})
    return Envelope.write(Verb.ANSWER, service.handle(asked.verb, asked.parts), asked.version)


def answer_message(service: SiteService, link: SiteLink, asked: Asked) -> None:
    """Read, answer and reply, unless the run is over; answer once more if the others were met at the server."""
    try:
        try:
            answered = answer(service, link.read(asked))
        except MessageError as error:
            service.log(str(error))
            answered = Envelope.write(Verb.ANSWER, {Part.REFUSED: str(error).encode()})
        meeting, service.meeting = service.meeting, None
        heard = link.reply(asked, answered, meeting)
        if meeting and SEAT in heard and (more := service.answer_met(meeting, heard[WORDS].split())) is not None:
            link.follow_up(heard[SEAT], more)
    except ContentLost:
        service.log("a question was announced and never arrived: its coordinator was killed", "connection")
    except httpx.HTTPStatusError as error:
        if error.response.status_code != RUN_OVER:
            raise


def serve(service: SiteService, link: SiteLink) -> None:
    """Answer until the connection breaks."""
    idle = Backoff(*POLL_SECONDS)
    while True:
        began, asked = time.monotonic(), link.pull()
        if asked is None:
            idle.sleep(began)
        else:
            answer_message(service, link, asked)
            idle.reset()


def main() -> None:
    """Stay joined until the parent is gone.

    A message is announced once: where a connection breaks, one may be lost. So the site signs off and, once the server
    has noticed, on again, and is asked again what it did not answer.
    """
    kit = Path(sys.argv[1])
    set_threads(1)
    exit_with_parent()
    settings = SiteSettings.from_kit(kit)
    service, link = SiteService(settings, kit / "home"), SiteLink(settings.server, kit)
    Heartbeat(link.beat, HEARTBEAT_SECONDS)
    Heartbeat(lambda: service.alerts.tell_of_room(settings.name, kit), ROOM_SECONDS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    link.join()
    try:
        while True:
            try:
                serve(service, link)
            except httpx.HTTPError as error:
                if not is_passing(error):
                    raise  # the site is not known any more; its daemon finds out why
            service.log(
                f"the connection to {settings.server} broke; this site comes back as soon as it can", "connection"
            )
            link.rejoin()
            service.log(f"joined {settings.server} again", "connection")
    finally:
        with suppress(httpx.HTTPError):  # the server is away, or does not know this site
            link.leave()


if __name__ == "__main__":
    main()
