"""Photograph pages at the width of a desk and of a phone, light and dark, into folders of docs/_static.

It needs playwright and a Chromium. The live page is one that `cotempo watch` shows while it is photographed:

python docs/screenshots.py report/networks=run/report.html watch/run=http://127.0.0.1:35849/...
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent / "_static"
SIZES = {"desktop": (1200, 1300), "phone": (390, 1300)}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def main(pages: dict[str, str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, page in pages.items():
            for size, (width, height) in SIZES.items():
                for scheme in ("light", "dark"):
                    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                    tab.goto(page if page.startswith("http") else Path(page).resolve().as_uri())
                    if page.startswith("http"):
                        tab.wait_for_timeout(3000)  # for what the stream brings
                    shown = min(height, tab.evaluate("Math.ceil(document.querySelector('main').offsetHeight)"))
                    tab.set_viewport_size({"width": width, "height": shown})
                    image = Image.open(io.BytesIO(tab.screenshot())).convert("RGB").quantize(96)
                    path = FOLDER / f"{name}-{size}-{scheme}.png"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    image.save(path, optimize=True)
                    tab.close()
        browser.close()


if __name__ == "__main__":
    main(dict(word.split("=", 1) for word in sys.argv[1:]))
