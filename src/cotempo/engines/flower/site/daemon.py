"""`SiteDaemon`, a site's first process: python -m cotempo.engines.flower.site.daemon KIT.

It checks the site and watches over the `worker`, which joins and answers. When that dies, it is signed off and started
again; the server notices the lost answer and asks again.
"""

import email.utils
import http.client
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from cotempo.data import READERS, describe, detect_kind
from cotempo.engines.flower.processes import Daemon
from cotempo.engines.flower.site.service import SiteService
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.errors import CotempoError, EngineError
from cotempo.federation.registry import find_method
from cotempo.privacy.approval import RequestInbox
from cotempo.privacy.ledger import Ledger
from cotempo.storage.files import write_whole

BEHIND_SECONDS, AHEAD_SECONDS = 290.0, 6.0  # how far a site's clock may be off; Flower refuses other signatures
RESTART_SECONDS = 0.25  # pause before a site whose worker ended joins again, doubled each time, up to a minute

LEAVE_SECONDS = 5.0  # for a worker to sign off


class HealthCheck(NamedTuple):
    """One thing that was checked, whether it is well, and what was found."""

    name: str
    ok: bool
    detail: str


class SiteDaemon(Daemon):
    """A site, from its unpacked startup kit."""

    def __init__(self, kit: str | Path):
        self.kit = Path(kit).resolve()
        self.settings = SiteSettings.from_kit(self.kit)
        self.home = self.kit / "home"
        super().__init__(self.home, "client")

    def check(self) -> Iterator[HealthCheck]:
        """Check the data, the methods, the pinned keys, the connection with its clocks, and the own key."""
        for name in ("data", "methods", "peers", "server", "key"):
            try:
                yield HealthCheck(name, True, getattr(self, f"_check_{name}")())
            except (CotempoError, OSError) as error:
                yield HealthCheck(name, False, str(error))

    def _check_data(self) -> str:
        service, data = SiteService(self.settings, self.home), self.settings.data
        tables = [service.read_table(kind) for kind in ([detect_kind(data)] if isinstance(data, str) else data)]
        return "; ".join(next(iter(describe({self.settings.name: table}).lines())) for table in tables)

    def _check_methods(self) -> str:
        if not self.settings.methods:
            raise EngineError(f"{self.kit / 'site.toml'}: methods must name what you allow; now nothing could be run")
        return ", ".join(find_method(name).__name__ for name in self.settings.methods)

    def _check_peers(self) -> str:
        service = SiteService(self.settings, self.home)
        if service.keys.identity.public != service.peers.signing.get(self.settings.name):
            raise EngineError("the keys this site has pinned must hold its own; pin the coordinator's book again")
        return f"keys of {', '.join(sorted(service.peers.sites))} are pinned"

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
        if not -BEHIND_SECONDS < skew < AHEAD_SECONDS:
            raise EngineError(f"your clock must agree with the server's, it is {skew:+.0f} s off; set it, best by NTP")
        return f"{self.settings.server} shows the right certificate, clocks agree within {abs(skew) + 1:.0f} s"

    def _check_key(self) -> str:
        if self.pid is not None:
            return f"in use, this site is joined as process {self.pid}"
        self._verify_key()
        return f"{self.settings.server} knows this site as {self.settings.name}"

    def _verify_key(self) -> None:
        """Authenticate once; keep the node's id, with which a site that was killed can be signed off."""
        from cotempo.engines.flower.site.link import verify_key

        path = self.home / "node_id"
        node_id = verify_key(self.settings.server, self.kit, int(path.read_text()) if path.is_file() else 0)
        self.home.mkdir(exist_ok=True, mode=0o700)
        write_whole(path, str(node_id).encode())

    def status(self) -> dict[str, Any]:
        """Return what people at the site ask first: is it joined, what did it do, what was spent, how much room."""
        log, runs, inbox, ledger = self.home / "site.log", self.home / "runs", RequestInbox(self.home), self.ledger
        sent = [entry["bytes"] for entry in ledger.entries if entry["kind"] == "message"]
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
        return {
            "process": self.pid,
            "paused": inbox.is_paused,
            "runs": len([*runs.iterdir()]) if runs.is_dir() else 0,
            "waiting": len(inbox.pending),
            "messages": len(sent),
            "bytes": sum(sent),
            "epsilon": {kind: ledger.spent(kind) for kind in READERS if ledger.spent(kind)},
            "budget": self.settings.privacy.budget,
            "free_bytes": shutil.disk_usage(self.kit).free,
            "log": lines[-3:],
        }

    @property
    def ledger(self) -> Ledger:
        """What left this site, over all runs."""
        return Ledger(self.home / "ledger.jsonl")

    def require_healthy(self) -> None:
        """Raise `EngineError` if a check fails."""
        if wrong := [f"  {check.name}: {check.detail}" for check in self.check() if not check.ok]:
            raise EngineError("\n".join(["this site cannot join:", *wrong]))

    def start(self) -> None:
        """Check the site, and join in the background."""
        self.require_healthy()
        self.launch([sys.executable, "-m", "cotempo.engines.flower.site.daemon", str(self.kit)])

    def run_forever(self) -> NoReturn:
        """Join and stay joined until stopped; `require_healthy` must have passed just before."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        os.umask(0o077)  # what this site keeps is for its owner only
        self.write_pid(os.getpid())
        service, pause, is_verified = SiteService(self.settings, self.home), RESTART_SECONDS, True
        while True:
            began = time.monotonic()
            try:
                if not is_verified:
                    self._verify_key()
                is_verified = False
                self._run_worker()
            except (CotempoError, OSError) as error:
                service.log(str(error))
            # A site that comes and goes must not flood the server.
            pause = RESTART_SECONDS if time.monotonic() - began > 60 else min(2 * pause, 60.0)
            time.sleep(pause)

    def _run_worker(self) -> None:
        """Start the worker, and return when it has ended."""
        worker = subprocess.Popen([sys.executable, "-m", "cotempo.engines.flower.site.worker", str(self.kit)])
        try:
            worker.wait()
        finally:
            worker.terminate()
            try:
                worker.wait(LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


if __name__ == "__main__":
    SiteDaemon(sys.argv[1]).run_forever()
