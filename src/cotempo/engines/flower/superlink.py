"""Flower's SuperLink with one more lock: python -m cotempo.engines.flower.superlink OPERATOR_FILE [Flower's flags].

Flower serves sites and operators on one port, and asks only sites for a key. Here everything that is not for sites
asks for the operator's secret, so that nobody who can reach the port can start a run or let a site in.
"""

from __future__ import annotations

import hmac
import sys
from pathlib import Path

from cotempo.engines.flower import need_flower

HEADER = "x-cotempo-operator"
FOR_SITES = "/v1/fleet/"


class Lock:
    """ASGI middleware: what is not for sites needs the operator's secret."""

    def __init__(self, app, secret: str):  # type: ignore[no-untyped-def]
        self.app = app
        self.secret = secret

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and not scope["path"].startswith(FOR_SITES):
            given = dict(scope["headers"]).get(HEADER.encode(), b"").decode("latin-1")
            if not hmac.compare_digest(given, self.secret):
                await send({"type": "http.response.start", "status": 403, "headers": []})
                await send({"type": "http.response.body", "body": b"operators only"})
                return
        await self.app(scope, receive, send)


def main() -> None:
    """Serve until stopped."""
    need_flower()
    import uvicorn
    from flwr.supercore.http_logging import get_uvicorn_log_config
    from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _parse_superlink_lifespan_config
    from flwr.superlink.main import create_app

    secret = Path(sys.argv.pop(1)).read_text().strip()
    config = _parse_superlink_lifespan_config()
    app = create_app(config, SuperLinkLifespan)
    app.add_middleware(Lock, secret=secret)
    uvicorn.run(
        app, host=config.host, port=config.port, workers=1, log_config=get_uvicorn_log_config(30),
        ssl_keyfile=config.ssl_keyfile, ssl_certfile=config.ssl_certfile,
    )  # fmt: skip


if __name__ == "__main__":
    main()
