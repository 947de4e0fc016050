"""A site's side: look whether all is well, join, stay joined, leave.

python -m cotempo.engines.flower.site.daemon KIT watches over two processes: Flower's SuperNode, which speaks with the
server, and the worker, which answers. When one of them dies, both are started anew: the server hears of a lost answer
and asks again.
"""

from __future__ import annotations

import email.utils
import http.client
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cotempo.data import describe
from cotempo.engines.flower import SILENCE, need_flower
from cotempo.engines.flower.processes import Daemon
from cotempo.engines.flower.site.service import Desk, SiteSettings
from cotempo.errors import CotempoError, EngineError
from cotempo.federation.registry import find_method
from cotempo.storage.files import write_whole

BEHIND, AHEAD = 290.0, 6.0  # seconds a site's clock may differ; Flower refuses signatures of other times
PAUSE = 0.25  # seconds until a site whose processes ended joins again, doubled each time, up to a minute


class Client:
    """A startup kit, unpacked."""

    def __init__(self, kit: str | Path):
        self.kit = Path(kit).resolve()
        self.settings = SiteSettings.read(self.kit)
        self.home = self.kit / "home"
        self.daemon = Daemon(self.home, "client")

    def check(self) -> Iterator[tuple[str, str | None]]:
        """Look at the data, the methods, the keys, the connection and the clock; yield what is well, or what is not.

        Each item is what was looked at and `None`, or why it is not well.
        """
        for about, look in (
            ("data", self._check_data), ("methods", self._check_methods), ("server", self._check_server),
            ("key", self._check_key),
        ):  # fmt: skip
            try:
                yield f"{about}: {look()}", None
            except (CotempoError, OSError) as error:
                yield about, str(error)

    def _check_data(self) -> str:
        desk = Desk(self.settings, self.home)
        tables = [desk.read_table(kind) for kind in self.settings.sources]
        return "; ".join(next(iter(describe({self.settings.name: table}).lines())) for table in tables)

    def _check_methods(self) -> str:
        if not self.settings.methods:
            raise EngineError(f"{self.kit / 'site.toml'}: methods must name what you allow; now nothing could be run")
        return ", ".join(find_method(name).__name__ for name in self.settings.methods)

    def _check_server(self) -> str:
        host, _, port = self.settings.server.rpartition(":")
        context = ssl.create_default_context(cafile=str(self.kit / "ca.crt"))
        connection = http.client.HTTPSConnection(host.strip("[]"), int(port), timeout=10, context=context)
        try:
            connection.request("GET", "/v1/fleet/")
            stamp = connection.getresponse().getheader("date")
        except ssl.SSLCertVerificationError as error:
            raise EngineError(
                f"the server at {self.settings.server} must show the certificate of this consortium, it does not "
                f"({error.verify_message}); do not go on, tell the coordinator"
            ) from error
        except OSError as error:
            raise EngineError(
                f"the server at {self.settings.server} must be reachable, it is not ({error}); is it running, and does "
                "a firewall let you out?"
            ) from error
        finally:
            connection.close()
        skew = time.time() - email.utils.parsedate_to_datetime(stamp).timestamp() if stamp else 0.0
        if not -BEHIND < skew < AHEAD:
            raise EngineError(f"your clock must agree with the server's, it is {skew:+.0f} s off; set it, best by NTP")
        return f"{self.settings.server} shows the right certificate, clocks agree within {abs(skew) + 1:.0f} s"

    def _check_key(self) -> str:
        if self.daemon.pid is not None:
            return f"in use, this site is joined as process {self.daemon.pid}"
        self._knock()
        return f"{self.settings.server} knows this site as {self.settings.name}"

    def _knock(self) -> None:
        """Show the key; what the server calls the site is kept, to be able to sign off after a kill."""
        need_flower()
        from cotempo.engines.flower.errors import speaking
        from cotempo.engines.flower.site.tasks import knock

        with speaking(self.settings.server):
            number = knock(self.settings.server, self.kit / "ca.crt", self.kit / "site.key", self._number())
        self.home.mkdir(exist_ok=True)
        write_whole(self.home / "number", str(number).encode())

    def _number(self) -> int | None:
        try:
            return int((self.home / "number").read_text())
        except (OSError, ValueError):
            return None

    def demand_well(self) -> None:
        """Raise where something is not well."""
        wrong = [f"  {about}: {why}" for about, why in self.check() if why]
        if wrong:
            raise EngineError("\n".join(["this site cannot join:", *wrong]))

    def start(self) -> None:
        """Look whether all is well, and join in the background."""
        self.demand_well()
        self.daemon.start([sys.executable, "-m", "cotempo.engines.flower.site.daemon", str(self.kit)], SILENCE)

    def stop(self) -> bool:
        """Leave."""
        return self.daemon.stop()

    def watch(self) -> None:
        """Join, as `demand_well` found possible, and stay joined until told to stop."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        self.daemon.note(os.getpid())
        self.home.mkdir(exist_ok=True)
        desk, pause, is_expected = Desk(self.settings, self.home), PAUSE, True  # `demand_well` has just knocked
        while True:
            began = time.monotonic()
            try:
                if not is_expected:
                    self._knock()
                is_expected = False
                self._attend()
            except (CotempoError, OSError) as error:
                desk.note(str(error))
            # A site that comes and goes must not flood the server.
            pause = PAUSE if time.monotonic() - began > 60 else min(2 * pause, 60.0)
            time.sleep(pause)

    def _attend(self) -> None:
        """Start SuperNode and worker; return when one of them has ended, and the other been ended."""
        secret = self.home / "secret"
        secret.touch(mode=0o600)
        secret.write_bytes(secrets.token_bytes(32))
        port = free_port()
        node = [
            sys.executable, "-m", "cotempo.engines.flower.site.node",
            "--superlink", self.settings.server, "--root-certificates", str(self.kit / "ca.crt"),
            "--auth-supernode-private-key", str(self.kit / "site.key"),
            "--isolation", "process", "--host", "127.0.0.1", "--port", str(port),
            "--superexec-auth-secret-file", str(secret),
        ]  # fmt: skip
        worker = [sys.executable, "-m", "cotempo.engines.flower.site.worker", str(self.kit), f"127.0.0.1:{port}"]
        environment = {**os.environ, **SILENCE, "FLWR_HOME": str(self.home / "flower")}
        processes = [subprocess.Popen(command, env=environment) for command in (node, worker)]
        try:
            while all(process.poll() is None for process in processes):
                time.sleep(0.05)
        finally:
            for process in processes:
                process.kill()
                process.wait()


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    need_flower()
    Client(sys.argv[1]).watch()
