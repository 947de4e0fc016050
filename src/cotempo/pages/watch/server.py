"""`watch_server`: the live page of a folder's runs, served to the browser of this machine."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from cotempo.errors import CotempoError, EngineError
from cotempo.pages.serving import PageServer, make_app
from cotempo.pages.watch.views import WatchedRuns
from cotempo.runs.metrics import MEDIA_TYPE, exposition
from cotempo.runs.state import find_runs
from cotempo.settings import Settings
from cotempo.storage.files import write_whole

EVERY_SECONDS = 1.0
REPORT_POLICY = "frame-ancestors 'none'; connect-src 'none'; form-action 'none'; base-uri 'none'"  # beside its own
Fragments = Callable[[], Mapping[str, str]]


def make_watch_app(folder: Path, ending: threading.Event, secret: str = "") -> Any:
    """Return the application: all runs, one run, its report, two compared, and streams of what changes.

    Streams end with `ending`.
    """
    watched = WatchedRuns(folder, f"/{secret}" if secret else "")

    async def index(_: Request) -> Response:
        names = watched.names()
        if len(names) == 1:
            return RedirectResponse(watched.link("run", run=names[0]), 303)
        return HTMLResponse(await run_in_threadpool(watched.list_page))

    async def run(request: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(watched.run_page, request.query_params.get("run", "")))

    async def report(request: Request) -> Response:
        state = await run_in_threadpool(watched.state, request.query_params.get("run", ""))
        return _report(await run_in_threadpool((state.path / "report.html").read_text, "utf-8"))

    async def compare(request: Request) -> Response:
        first, second = (request.query_params.get(name, "") for name in ("first", "second"))
        html, is_report = await run_in_threadpool(watched.comparison, first, second)
        return _report(html) if is_report else HTMLResponse(html)

    async def events(request: Request) -> Response:
        name = request.query_params.get("run")
        fragments = watched.list_fragments if name is None else lambda: watched.run_fragments(name)
        await run_in_threadpool(fragments)  # a run that is not there is refused before the stream begins
        return StreamingResponse(stream(fragments, ending), media_type="text/event-stream")

    async def metrics(_: Request) -> Response:
        states = await run_in_threadpool(lambda: {name: watched.state(name) for name in watched.names()})
        return Response(exposition(states), media_type=MEDIA_TYPE)

    pages = {"": index, "run": run, "report": report, "compare": compare, "events": events, "metrics": metrics}
    routes = [Route(f"/{path}", _telling(page)) for path, page in pages.items()]
    texts = {name: files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("watch.css", "watch.js")}
    return make_app(routes, secret=secret, css=texts["watch.css"], script=texts["watch.js"])


def _report(html: str) -> Response:
    return HTMLResponse(html, headers={"content-security-policy": REPORT_POLICY})


def _telling(page: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """Return a page that says what is wrong with a request."""

    async def answer(request: Request) -> Response:
        try:
            return await page(request)  # type: ignore[no-any-return]
        except (CotempoError, OSError) as error:
            return PlainTextResponse(str(error), 404)

    return answer


async def stream(fragments: Fragments, ending: threading.Event) -> AsyncIterator[str]:
    """Yield server-sent events: each fragment when it has changed, at most once a second."""
    sent: dict[str, str] = {}
    yield "retry: 1000\n\n"
    while not ending.is_set():
        found: Mapping[str, str] = {}
        with suppress(CotempoError, OSError):  # its folder is gone; another run may take its place
            found = await run_in_threadpool(fragments)
        for name, html in found.items():
            if sent.get(name) != html:
                sent[name] = html
                yield f"event: fragment\ndata: {json.dumps({'id': name, 'html': html})}\n\n"
        yield ":\n\n"  # so that a browser that has left is noticed
        until = time.monotonic() + EVERY_SECONDS
        while time.monotonic() < until and not ending.is_set():
            await asyncio.sleep(0.1)


class Address(Settings):
    """Where the page of a folder was shown last, so that an open page goes on after a restart."""

    port: int = 0
    secret: str


class WatchServer(PageServer):
    """A server that ends its streams before it stops, so that nothing is cut."""

    def __init__(self, folder: Path, address: Address):
        self.ending = threading.Event()
        app = make_watch_app(folder, self.ending, address.secret)
        super().__init__(app, secret=address.secret, port=address.port)

    def __exit__(self, *error: object) -> None:
        self.ending.set()
        super().__exit__(*error)


def watch_server(folder: Path) -> WatchServer:
    """Return the server of a folder's page, at the address it had before if that is free.

    Others on this machine can reach the address, too, so it holds a secret that only the owner of the folder can read.
    """
    find_runs(folder)
    path = folder / ".watch.json"
    try:
        known = Address.read(json.loads(path.read_bytes()), str(path))
    except (OSError, ValueError, CotempoError):
        known = Address(secret=secrets.token_urlsafe(16))
    try:
        server = WatchServer(folder, known)
    except EngineError:  # somebody else has the port, perhaps another window of this folder
        return WatchServer(folder, Address(secret=known.secret))
    kept = Address(port=server.socket.getsockname()[1], secret=known.secret)
    with suppress(OSError):  # a folder that cannot be written to gets another address next time
        write_whole(path, kept.model_dump_json().encode())
    return server
