"""A site that runs for long holds nothing of what is over."""

from __future__ import annotations

import gc
import ssl
import weakref
from pathlib import Path

import httpx
import pytest
from paper_consortium import RUN
from test_site_service import ask, join, make_service

from cotempo.engines.flower.protocol import Part, ResultReference, Verb
from cotempo.engines.flower.wire import Wire


def test_a_site_forgets_a_run_that_has_ended(tmp_path: Path) -> None:
    service = make_service(tmp_path)
    join(service)
    first = ask(service)
    table = weakref.ref(service._joined(RUN).site.table)
    ended = {Part.REFERENCE: ResultReference(run=RUN, version=1).to_bytes()}
    assert service.handle(Verb.RESULT, ended) == {}
    gc.collect()
    assert table() is None
    assert ask(service) == first
    assert Part.REFUSED in ask(service, 2, base=1)


def test_a_response_is_gone_once_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
    wire = Wire("server:1", b"", dict)
    answering = httpx.MockTransport(lambda request: httpx.Response(200, content=b"content"))
    wire._client = httpx.Client(base_url="https://server:1", transport=answering)
    gc.disable()
    try:
        response = wire.post("runtime/get-nodes", b"", {})
        assert response.content == b"content"
        known = weakref.ref(response)
        del response
        assert known() is None
    finally:
        gc.enable()
