"""Photograph a site's page at the width of a desk and of a phone, light and dark, into docs/_static/site-page.

python docs/site_screenshots.py    (needs cotempo[flower,watch], playwright, Pillow and a Chromium; about two minutes)

Four hospitals on this machine; north asks a person, who approved one run and now has another to decide on.
"""

from __future__ import annotations

import io
import shutil
import tempfile
import threading
import zipfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import cotempo as ct
from cotempo.data import Series, write_clients
from cotempo.engines.flower.coordinator.server import Server
from cotempo.engines.flower.processes import free_port, wait_until
from cotempo.engines.flower.provision import Federation, provision
from cotempo.engines.flower.site.daemon import SiteDaemon
from cotempo.engines.settings import FlowerSettings
from cotempo.errors import AwaitingApproval
from cotempo.pages.serving import PageServer
from cotempo.pages.site import make_site_app
from cotempo.privacy.approval import RequestInbox

FOLDER = Path(__file__).parent / "_static" / "site-page"
WIDTHS = {"desktop": 1100, "phone": 390}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SITES = ("north", "east", "south", "west")
COLUMNS = ("admissions", "free_beds", "staff_on_duty", "transfers", "discharges")
PURPOSE = "Learn what drives free beds from day to day, so that wards can plan ahead."


def make_consortium(root: Path) -> tuple[Server, dict[str, SiteDaemon]]:
    address = f"127.0.0.1:{free_port()}"
    federation = Federation(name="hospitals", address=address, sites=SITES, methods=("OneRound", "FDBNL"))
    provision(federation, root / "made", with_keys=True)
    clients, _ = ct.make_networks(variables=5, clients=4, samples=400, seed=3)
    found = {}
    for name, table in zip(SITES, clients.values(), strict=True):
        with zipfile.ZipFile(root / "made" / "kits" / f"{name}.zip") as kit:
            kit.extractall(root)
        for key in (root / name / "keys").iterdir():
            key.chmod(0o600)
        write_clients({name: Series.from_arrays(table.values, features=COLUMNS)}, root / name / "wards.csv")
        settings = (root / name / "site.toml").read_text().replace('data = ""', 'data = "wards.csv"')
        ask = "ask = true" if name == "north" else "ask = false"
        (root / name / "site.toml").write_text(settings.replace("ask = false", ask))
        found[name] = SiteDaemon(root / name)
    return Server(root / "made" / "server"), found


def ask(server: Server, run: Path, method: ct.federation.Method, patience: float) -> None:
    settings = FlowerSettings(server=str(server.folder), purpose=PURPOSE, patience=patience, share_result=True)
    try:
        method.fit(engine=settings, run=run, progress=False)
    except AwaitingApproval:
        print(f"{run.name} waits")


def photograph(browser: Browser, name: str, url: str) -> None:
    for size, width in WIDTHS.items():
        for scheme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": width, "height": 480}, color_scheme=scheme, java_script_enabled=False
            )
            tab = context.new_page()
            tab.goto(url)
            image = Image.open(io.BytesIO(tab.screenshot(full_page=True))).convert("RGB").quantize(128)
            image.save(FOLDER / f"{name}-{size}-{scheme}.png", optimize=True)
            context.close()


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        root = Path(folder)
        server, sites = make_consortium(root)
        inbox = RequestInbox(root / "north" / "home")
        server.start()
        try:
            for site in sites.values():
                site.start()
            first = threading.Thread(target=ask, args=(server, root / "first", ct.OneRound(), 300.0))
            first.start()
            assert wait_until(lambda: len(inbox.pending) == 1, 120)
            inbox.approve(inbox.pending[0])
            first.join()
            ask(server, root / "second", ct.OneRound(lags=2), 0.0)
            (run,) = [request.agreed.run for request in inbox.pending]
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            with PageServer(make_site_app(root / "north", "photograph"), secret="photograph") as page:
                photograph(browser, "inbox", page.url)
                photograph(browser, "request", f"{page.url}request/{run}")
                photograph(browser, "history", f"{page.url}history")
            browser.close()
        finally:
            for site in sites.values():
                site.stop()
            server.stop()


if __name__ == "__main__":
    main()
