"""Photograph reports at the width of a desk and of a phone, light and dark, into docs/_static/report.

python docs/screenshots.py networks=run/report.html comparison=comparison.html    (needs playwright and a Chromium)
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent / "_static" / "report"
SIZES = {"desktop": (1200, 1300), "phone": (390, 1300)}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def main(pages: dict[str, Path]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, page in pages.items():
            for size, (width, height) in SIZES.items():
                for scheme in ("light", "dark"):
                    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                    tab.goto(page.resolve().as_uri())
                    image = Image.open(io.BytesIO(tab.screenshot())).convert("RGB").quantize(96)
                    image.save(FOLDER / f"{name}-{size}-{scheme}.png", optimize=True)
                    tab.close()
        browser.close()


if __name__ == "__main__":
    main({name: Path(path) for name, path in (word.split("=", 1) for word in sys.argv[1:])})
