"""The loopback server: who is let in, and what every answer carries."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from cotempo.errors import EngineError
from cotempo.pages.serving import MOST_BODY, PageServer, make_app, make_templates, page, read_form

HOME = "http://127.0.0.1:8000"


async def show(request: Request) -> PlainTextResponse:
    form = await read_form(request) if request.method == "POST" else {}
    return PlainTextResponse(f"{request.method} {form.get('word', '')} {request.url_for('home').path}")


async def fail(_: Request) -> PlainTextResponse:
    raise RuntimeError("the table of ward 7")


ROUTES = [Route("/", show, methods=["GET", "POST"], name="home"), Route("/fail", fail)]


def visitor(secret: str = "", **options: Any) -> TestClient:
    return TestClient(make_app(ROUTES, secret=secret, **options), HOME, raise_server_exceptions=False)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[::1]:8000"])
def test_a_foreign_name_for_this_machine_is_refused(host: str) -> None:
    answer = visitor().get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "GET" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:9", "localhost"])
def test_this_machine_is_let_in(host: str) -> None:
    assert visitor().get("/", headers={"host": host}).text.startswith("GET")


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://localhost:8000", "http://127.0.0.1:9", f"{HOME}.evil"]
)
def test_forms_of_other_pages_are_refused(origin: str | None) -> None:
    headers = {} if origin is None else {"origin": origin}
    assert visitor().post("/", data={"word": "x"}, headers=headers).status_code == 403


def test_own_forms_arrive_unless_they_are_too_long() -> None:
    own = {"origin": HOME}
    assert visitor().post("/", data={"word": "yes & ö"}, headers=own).text.startswith("POST yes & ö")
    assert visitor().post("/", data={"word": "x" * MOST_BODY}, headers=own).status_code == 413
    assert visitor().post("/", content=(part for part in [b"word=x"]), headers=own).status_code == 413  # of no length


@pytest.mark.parametrize("path", ["/", "/other/", "/secre", "/secret2/", "//secret/", "/style.css", "/%00/", "/ä/"])
def test_without_the_secret_nothing_is_found(path: str) -> None:
    answer = visitor("secret").get(path)
    assert (answer.status_code, answer.text) == (404, "not found")


def test_with_the_secret_pages_are_found_and_link_to_each_other() -> None:
    assert visitor("secret").get("/secret/").text == "GET  /secret/"
    assert "--ink" in visitor("secret", css=".mine{}").get("/secret/style.css").text


@pytest.mark.parametrize("path", ["/", "/nowhere", "/fail", "/style.css"])
def test_every_answer_has_the_headers(path: str) -> None:
    answer = visitor().get(path)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers
    assert "ward 7" not in answer.text


def test_only_a_page_with_a_script_may_run_one_and_only_its_own() -> None:
    assert visitor().get("/script.js").status_code == 404
    answer = visitor(script="let x = 1").get("/script.js")
    assert answer.text == "let x = 1"
    assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_templates_escape_and_miss_nothing() -> None:
    templates = make_templates()
    hostile = '<img src=x onerror="alert(1)">'
    assert "<img" not in templates.from_string("{{ name }}").render(name=hostile)
    with pytest.raises(Exception, match="'name' is undefined"):
        templates.from_string("{{ name }}").render()
    with pytest.raises(Exception, match="nowhere"):
        page(templates, "nowhere.html.jinja")


def test_it_listens_on_the_loopback_only_and_stops_with_streams_open() -> None:
    async def forever(_: Request) -> StreamingResponse:
        async def chunks() -> Any:
            import anyio

            yield b"data: 1\n\n"
            await anyio.sleep_forever()

        return StreamingResponse(chunks(), media_type="text/event-stream")

    with PageServer(make_app([Route("/", forever)])) as server:
        assert server.socket.getsockname()[0] == "127.0.0.1"
        port = server.socket.getsockname()[1]
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.read(9) == b"data: 1\n\n"
        assert "uvicorn" not in str(answer.headers)
        with pytest.raises(EngineError, match=f"the port must be free, {port} is not"):
            PageServer(Starlette(), port=port)
    connection.close()
    assert not server.thread.is_alive()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()


def test_without_the_extra_people_are_told_what_to_install() -> None:
    code = "import importlib.util as u; u.find_spec = lambda name: None; import cotempo.pages"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'cotempo[watch]'" in ended.stderr
