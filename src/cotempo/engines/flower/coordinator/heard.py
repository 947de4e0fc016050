"""`LastHeard`: when the server last heard of each site. Flower takes a site that was killed for online for a minute."""

import asyncio
import json
import os
import time
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

from cotempo.storage.files import private

HEARD = "heard.json"
KEY = b"flwr-public-key"  # the header in which a site shows its key, which Flower verifies
WRITE_SECONDS = 1.0
SILENT_SECONDS = 7.0  # a site's poll is held open or repeated, also while it computes


class LastHeard:
    """ASGI middleware that notes in a file when each site's key last made a request that Flower accepted."""

    def __init__(self, app: Any, path: Path):
        self.app = app
        self.path = path
        self.heard: dict[str, float] = {}
        self.written = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on; while one of a key that was accepted before is held, its site is there."""
        key = dict(scope.get("headers", ())).get(KEY, b"").decode("ascii", "replace")

        async def noted(message: Any) -> None:
            if key and message["type"] == "http.response.start" and message["status"] < 400:
                self.note(key)
            await send(message)

        held = asyncio.ensure_future(self._hold(key)) if key in self.heard else None
        try:
            await self.app(scope, receive, noted)
        finally:
            if held:
                held.cancel()

    async def _hold(self, key: str) -> None:
        while True:
            self.note(key)
            await asyncio.sleep(WRITE_SECONDS)

    def note(self, key: str) -> None:
        """Note that a key was heard of now; the file is written once a second at most."""
        self.heard[key] = time.time()
        if time.monotonic() - self.written >= WRITE_SECONDS:
            self.written = time.monotonic()
            temporary = self.path.with_name(f".{self.path.name}.part")
            with suppress(OSError):
                with open(temporary, "w", opener=private) as file:
                    json.dump(self.heard, file)
                os.replace(temporary, self.path)


def silent_sites(server: Path, names: Iterable[str]) -> dict[str, float]:
    """Return the sites that a server has not heard of for seconds, and when it last did, in seconds since 1970.

    Empty while nobody is heard of at all: then it is the server that is not known to run.
    """
    try:
        heard = json.loads((server / "state" / HEARD).read_bytes())
    except (OSError, ValueError):
        return {}
    newest = max(heard.values(), default=0.0)
    found = {}
    for name in names:
        with suppress(OSError, ValueError):
            last = heard.get(shown_key(server, name), 0.0)
            if newest - last > SILENT_SECONDS:
                found[name] = last
    return found


def shown_key(server: Path, name: str) -> str:
    """Return how a site shows its key."""
    key = load_ssh_public_key((server / "sites" / f"{name}.pub").read_bytes())
    return b64encode(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)).decode("ascii")
