"""Make the pictures of the family pages from those that the tutorials left behind, into docs/_static/families.

python docs/pictures.py FOLDER    (the folder in which the four scripts of examples/ were run)
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).parent / "_static" / "families"
PICTURES = {
    "events": "hospital/intensity.png",
    "series": "plants/berlin.png",
    "social": "platforms/events.png",
    "networks": "labs/network.png",
}
WIDTH, HEIGHT, MARGIN = 560, 330, 20


def main(made: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    together = Image.new("RGB", (2 * WIDTH + 3 * MARGIN, 2 * HEIGHT + 3 * MARGIN), "white")
    for number, (family, path) in enumerate(PICTURES.items()):
        with Image.open(made / path) as picture:
            image = picture.convert("RGB")
        image.thumbnail((1100, 1100))
        image.quantize(96).save(FOLDER / f"{family}.png", optimize=True)
        image.thumbnail((WIDTH, HEIGHT))
        left = MARGIN + number % 2 * (WIDTH + MARGIN) + (WIDTH - image.width) // 2
        top = MARGIN + number // 2 * (HEIGHT + MARGIN) + (HEIGHT - image.height) // 2
        together.paste(image, (left, top))
    together.quantize(96).save(FOLDER / "all.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
