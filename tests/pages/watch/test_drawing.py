"""The small drawings: every point and step in its place."""

from __future__ import annotations

import math
import re

from cotempo.pages.watch.drawing import HEIGHT, MOST_POINTS, WIDTH, curve, strip, thinned


def points(drawing: str, kind: str) -> list[list[tuple[float, float]]]:
    found = re.findall(rf'<polyline class="{kind}" points="([^"]*)"', drawing)
    return [[(float(x), float(y)) for x, y in (pair.split(",") for pair in line.split())] for line in found]


def test_a_curve_spans_its_frame_with_the_mean_among_the_clients() -> None:
    made = curve("held_out", [(1, 2.0), (2, 3.0), (3, 4.0)], {"ash": {1: 1.0, 3: 5.0}, "once": {2: 2.0}})
    assert points(made.drawing, "own") == [[(0, HEIGHT), (WIDTH, 0)]]  # a single value is no line
    assert points(made.drawing, "mean") == [[(0, HEIGHT * 0.75), (WIDTH / 2, HEIGHT / 2), (WIDTH, HEIGHT / 4)]]
    assert (made.name, made.newest, made.low, made.high, made.clients) == ("held out", "4", "1", "5", 1)
    assert not made.is_log


def test_values_far_apart_are_drawn_on_a_log_scale_and_missing_ones_left_out() -> None:
    made = curve("loss", [(1, 1000.0), (2, math.nan), (3, 1.0), (4, math.inf)], {})
    assert made.is_log
    assert points(made.drawing, "mean") == [[(0, 0), (WIDTH, HEIGHT)]]
    flat = curve("flat", [(1, 2.0), (2, 2.0)], {})
    assert points(flat.drawing, "mean") == [[(0, HEIGHT / 2), (WIDTH, HEIGHT / 2)]]


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    long = [(step, float(step)) for step in range(1, 1002)]
    kept = thinned(long)
    assert len(kept) <= MOST_POINTS
    assert kept[-1] == (1001, 1001.0)
    assert kept == sorted(kept)
    assert thinned(long[:5]) == long[:5]


def test_a_strip_has_a_stretch_where_a_site_was_asked() -> None:
    drawn = strip([(1, 2, "answered"), (4, 4, "left out")], 5)
    assert 'viewBox="0 0 5 1"' in drawn
    assert re.findall(r'class="([\w-]+)" x="(\d)" width="(\d)"', drawn) == [
        ("answered", "0", "2"),
        ("left-out", "3", "1"),
    ]
