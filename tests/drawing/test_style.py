"""The palette can be seen by everybody, and pictures follow the page: light, dark, desk and phone."""

from __future__ import annotations

import itertools
import re
import warnings
from datetime import UTC, datetime
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cotempo.data.clock import Clock
from cotempo.drawing.style import PALETTE, SERIES, make_panels, move_apart, show_dates, styled
from cotempo.drawing.svg import NARROW, draw_svg, embed, narrow, read_data

# Machado, Oliveira and Fernandes (2009), severity 1, in linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour: str) -> NDArray[np.float64]:
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    """As WCAG 2 defines it."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (first, second))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    x, y, z = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 1e-6))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["card", "page"])
def test_texts_and_lines_stand_out(mode: int, ground: str) -> None:
    for name in ("ink", "muted", "blue", "orange", "green"):  # used for text
        assert contrast(PALETTE[name][mode], PALETTE[ground][mode]) >= 4.5, name
    for name in ("purple", "gold"):
        assert contrast(PALETTE[name][mode], PALETTE[ground][mode]) >= 3.0, name


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_of_the_first_series_are_apart_for_colour_blind_readers(mode: int, kind: str) -> None:
    """The first three, and verdicts: blue, orange, green; grey. Further ones have other dashes or numbers, too."""
    seen = {name: lab(np.array(BLINDNESS[kind]) @ linear(PALETTE[name][mode])) for name in ("blue", "orange", "green")}
    for first, second in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[first] - seen[second]) > 18, (first, second)


def test_a_picture_takes_its_colours_from_the_mode_of_the_page() -> None:
    drawing = draw_svg(example())
    ElementTree.fromstring(drawing)
    assert "prefers-color-scheme:dark" in drawing
    body = drawing.partition("</style>")[2]
    assert "var(--blue)" in body
    assert not {light for light, _ in PALETTE.values()} & {*re.findall(r"#[0-9a-f]{6}", body)}
    assert draw_svg(example()) == drawing
    assert not re.search(r'[\s"<>]', embed(example()))


def test_a_narrow_picture_has_its_panels_below_each_other() -> None:
    figure = narrow(example(panels=4))
    assert figure.get_size_inches().tolist() == [NARROW, 4 * 2.6]
    figure.draw_without_rendering()
    boxes = [axes.get_position() for axes in figure.axes]
    assert len({round(box.x0, 3) for box in boxes}) == 1
    assert all(above.y0 > below.y1 for above, below in itertools.pairwise(boxes))


def test_a_picture_gives_back_its_data() -> None:
    header, rows = read_data(example())
    assert header == ("panel", "x", "mean", "band, lower", "band, upper")
    assert rows == [["panel 0", float(x), 2.0 * x, 2.0 * x - 1, 2.0 * x + 1] for x in range(3)]


def test_data_of_a_picture_have_dates_and_names() -> None:
    figure, (axes,) = make_panels(1)
    axes.plot([datetime(2025, 3, day, tzinfo=UTC) for day in (1, 2)], [0, 1], label="when")
    axes.set_yticks([0, 1], ["nord", "süd"])
    show_dates(axes, Clock("h", "UTC"))
    assert read_data(figure)[1] == [
        ["", "2025-03-01T00:00:00+00:00", "nord"],
        ["", "2025-03-02T00:00:00+00:00", "süd"],
    ]


def test_labels_move_apart_and_stay_near() -> None:
    points = np.random.default_rng(0).normal(scale=0.02, size=(12, 2))
    placed = move_apart(points, 0.1)
    apart = np.linalg.norm(placed[:, None] - placed[None], axis=-1)[~np.eye(12, dtype=bool)]
    assert apart.min() >= 0.0999
    assert np.abs(placed - points).max() < 0.4
    far = np.array([[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(move_apart(far, 0.1), far, atol=1e-5)


@styled
def example(panels: int = 1) -> Figure:
    figure, drawn = make_panels(panels)
    for place, axes in enumerate(drawn):
        axes.plot(range(3), [0.0, 2.0, 4.0], color=SERIES[0], label="mean")
        axes.fill_between(range(3), [-1.0, 1.0, 3.0], [1.0, 3.0, 5.0], color=SERIES[1], label="band")
        axes.set_title(f"panel {place}")
    return figure


@pytest.mark.parametrize(
    "hours", [0.04, 0.5, 2.9, 20, 47, 60, 65, 71, 73, 24 * 40, 24 * 61, 24 * 89, 24 * 800, 24 * 1090]
)
def test_any_span_of_dates_has_ticks_without_a_warning(hours: float) -> None:
    figure, (axes,) = make_panels(1)
    clock = Clock("h", "UTC")
    axes.plot(clock.dates_of(np.array([480_000.3, 480_000.3 + hours])), [0, 1])
    show_dates(axes, clock)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.draw_without_rendering()
    assert 2 <= len(axes.get_xticks()) <= 8
