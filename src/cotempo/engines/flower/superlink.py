"""The server's process, Flower's SuperLink: python -m cotempo.engines.flower.superlink OPERATOR_FILE [Flower's flags].

Flower serves sites and operators on one port and authenticates sites only. `OperatorAuth` asks for the operator's
secret on every other path, so that nobody who can reach the port can start a run or admit a site.
"""

import hmac
import sys
from pathlib import Path

from cotempo.engines.flower.patches import superlink_config

HEADER = "x-cotempo-operator"
SITE_PATHS = "/v1/fleet/"


class OperatorAuth:
    """ASGI middleware that demands the operator's secret on every path that is not for sites."""

    def __init__(self, app, secret: str):  # type: ignore[no-untyped-def]
        self.app = app
        self.secret = secret

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and not scope["path"].startswith(SITE_PATHS):
            given = dict(scope["headers"]).get(HEADER.encode(), b"").decode("latin-1")
            if not hmac.compare_digest(given, self.secret):
                await send({"type": "http.response.start", "status": 403, "headers": []})
                await send({"type": "http.response.body", "body": b"operators only"})
                return
        await self.app(scope, receive, send)


def main() -> None:
    """Serve until stopped."""
    import uvicorn
    from flwr.supercore.http_logging import get_uvicorn_log_config
    from flwr.superlink.cli.flower_superlink import SuperLinkLifespan
    from flwr.superlink.main import create_app

    secret = Path(sys.argv.pop(1)).read_text().strip()
    config = superlink_config()
    app = create_app(config, SuperLinkLifespan)
    app.add_middleware(OperatorAuth, secret=secret)
    uvicorn.run(
        app, host=config.host, port=config.port, workers=1, log_config=get_uvicorn_log_config(30),
        ssl_keyfile=config.ssl_keyfile, ssl_certfile=config.ssl_certfile,
    )  # fmt: skip


if __name__ == "__main__":
    main()
