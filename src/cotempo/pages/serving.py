"""`PageServer`: serve pages to the browser of this machine, and to nobody else."""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self
from urllib.parse import parse_qsl

import jinja2
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cotempo.errors import EngineError
from cotempo.report.page import readable, style_sheet
from cotempo.report.tables import number, size

NAMES = ("127.0.0.1", "localhost")  # the second for people who forward a port over SSH
MOST_BODY = 100_000  # bytes of a form
Errors = Mapping[Any, Any]
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # with no-referrer, browsers would send forms without their origin
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


class Guard:
    """An application around another: it lets in only requests of pages of this server, and adds the headers.

    A foreign Host means that another site's name was pointed at this machine (DNS rebinding); a foreign Origin, that
    another site's page sends a form. With a `secret`, the first part of the path must be it.
    """

    def __init__(self, app: ASGIApp, secret: str = "", policy: str = POLICY):
        self.app, self.secret = app, secret
        self.headers = {**HEADERS, "content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                for name, value in self.headers.items():  # a page may bring a policy of its own
                    given.setdefault(name, value)
            await send(message)

        app: ASGIApp = self.app
        if refusal := self._refusal(scope):
            app = PlainTextResponse(*refusal)
        elif self.secret:
            scope = {**scope, "root_path": f"/{self.secret}"}
        await app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> tuple[str, int] | None:
        """Return what is wrong with a request, in words and as a status."""
        if scope["type"] != "http":
            return "not found", 404
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].partition(":")[0] not in NAMES:
            return f"open this page at http://{NAMES[0]}", 421
        first = scope["path"].split("/")[1]
        if self.secret and not hmac.compare_digest(first.encode(), self.secret.encode()):
            return "not found", 404
        if scope["method"] not in ("GET", "HEAD"):
            if headers.get("origin") != f"http://{hosts[0]}":
                return "forms must be sent from this page", 403
            if not headers.get("content-length", "").isdecimal() or int(headers["content-length"]) > MOST_BODY:
                return f"a form must have at most {MOST_BODY} bytes", 413
        return None


def make_app(
    routes: Sequence[BaseRoute], *, secret: str = "", css: str = "", script: str = "", errors: Errors | None = None
) -> ASGIApp:
    """Return an application: routes, `style.css` (the reports' with rules added) and, if there is one, `script.js`.

    `errors` says what to answer to exceptions, by their class.
    """
    files = {"style.css": ("text/css", style_sheet() + css), "script.js": ("text/javascript", script)}

    def file_route(name: str, kind: str, content: str) -> Route:
        async def answer(_: Request) -> Response:
            return Response(content, media_type=kind)

        return Route(f"/{name}", answer)

    policy = f"{POLICY}; script-src 'self'; connect-src 'self'" if script else POLICY
    own = [file_route(name, kind, content) for name, (kind, content) in files.items() if content]
    return Guard(Starlette(routes=[*routes, *own], exception_handlers=errors), secret, policy)


def make_templates() -> jinja2.Environment:
    """Return the templates of this package, and of the reports, whose values are escaped and must all be given."""
    loaders = [jinja2.PackageLoader("cotempo", package) for package in ("pages", "report")]
    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=readable,
    )
    templates.filters.update(number=number, size=size)
    return templates


def page(templates: jinja2.Environment, name: str, status: int = 200, **content: Any) -> HTMLResponse:
    """Return a page from a template."""
    return HTMLResponse(templates.get_template(name).render(**content), status)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that was sent as browsers do, the last where a name comes twice."""
    return dict(parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True))


class PageServer:
    """A server of an application on the loopback interface, in a thread of its own.

    As a context manager it serves while the block runs; port 0 takes a free one. Streams that are open at the end are
    cut after a second.

    Examples
    --------
    >>> async def hello(request):
    ...     return PlainTextResponse("hello")
    >>> with PageServer(make_app([Route("/", hello)])) as server:
    ...     server.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, app: ASGIApp, *, secret: str = "", port: int = 0):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind((NAMES[0], port))
        except OSError as error:
            self.socket.close()
            raise EngineError(f"the port must be free, {port} is not ({error.strerror}); choose another") from error
        path = f"/{secret}/" if secret else "/"
        self.url = f"http://{NAMES[0]}:{self.socket.getsockname()[1]}{path}"
        config = uvicorn.Config(
            app, http="h11", ws="none", lifespan="off", log_level="warning", access_log=False, server_header=False,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)

    def __enter__(self) -> Self:
        self.socket.listen()  # from here on a browser may connect: it waits until the thread answers
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()

    def wait(self) -> None:
        """Serve until the person at the terminal interrupts; to be called inside the block."""
        with suppress(KeyboardInterrupt):
            self.thread.join()
