"""The SuperNode, Flower's link to the server: python -m cotempo.engines.flower.site.node [flags of flower-supernode].

Flower polls for messages every three seconds and for replies every half second; methods that exchange many small
messages would spend nearly all their time on that. `main` polls fast while a run is going on, and backs off to three
seconds while nothing happens.
"""

import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

import httpx
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from cotempo.engines.flower.patches import exit_on_broken_message, poll_contents_faster, poll_messages_with
from cotempo.engines.flower.processes import Backoff, exit_with_parent
from cotempo.engines.flower.site.enrolment import site_name
from cotempo.engines.flower.transport import translate_http_errors
from cotempo.errors import EngineError
from cotempo.privacy.keys import SiteKeys

FLOWERS_PAUSE = 3.0
BUSY_PAUSE = 0.02


def verify_key(address: str, kit: Path, previous: int | None = None) -> int:
    """Authenticate once with a kit's key and disconnect; return the id of the site's node.

    The server takes a site that was killed for online for another minute; sign it off first by its `previous` id.
    """
    private = SiteKeys.load(site_name(kit), kit / "keys").node
    public, authority = private.public_key(), (kit / "ca.crt").read_bytes()
    version = RuntimeVersionHttpInterceptor(component_name="SuperNode")
    request = ActivateNodeRequest(public_key=public_key_to_bytes(public), heartbeat_interval=30)
    connection = FleetHttpClient.from_server_address(
        address, False, authority, [version, NodeAuthHttpInterceptor(private, public)]
    )
    with translate_http_errors(address), connection as client:
        if previous is not None:
            with suppress(httpx.HTTPStatusError):
                client.DeactivateNode(DeactivateNodeRequest(node_id=previous))
        try:
            node_id = client.ActivateNode(request).node_id
        except httpx.HTTPStatusError as error:
            raise EngineError(
                f"the server at {address} must know this site's key, it refuses it ({error.response.status_code}): "
                "the key was never let in or was taken off the list, the site already runs elsewhere, or the clocks "
                "differ; ask the coordinator for: cotempo server status"
            ) from error
        client.DeactivateNode(DeactivateNodeRequest(node_id=node_id))
        return int(node_id)


def exit_on_thread_error(arguments: threading.ExceptHookArgs) -> None:
    """Exit when a thread dies: without heartbeats the server marks this node offline permanently."""
    sys.__excepthook__(arguments.exc_type, arguments.exc_value or arguments.exc_type(), arguments.exc_traceback)
    os._exit(1)


def main() -> None:
    """Serve until stopped."""
    exit_with_parent()
    threading.excepthook = exit_on_thread_error
    from flwr.supernode.cli import flower_supernode

    idle = Backoff(0.05, FLOWERS_PAUSE)

    def sleep(seconds: float) -> None:
        """Flower asks for three seconds between two polls for a message, and for less between two for a reply."""
        if seconds >= FLOWERS_PAUSE:
            time.sleep(idle.next())
        else:
            idle.reset()
            time.sleep(BUSY_PAUSE)

    poll_contents_faster()
    poll_messages_with(sleep)
    exit_on_broken_message()
    try:
        flower_supernode()
    except Exception:
        traceback.print_exc()
    os._exit(1)  # the thread that serves the worker would keep a node alive that has lost the server


if __name__ == "__main__":
    main()
