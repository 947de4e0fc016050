"""`SurveyedSeries`: the figures of a client's series, and what could be wrong with them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.stats import rankdata

from cotempo.data import Series
from cotempo.data.description import shorten
from cotempo.surveys.calendar import (
    HOUR,
    clock_trials,
    daily_keys,
    date_oddities,
    date_trials,
    harmonics,
    time_figures,
    time_keys,
    wall_clock,
)  # fmt: skip
from cotempo.surveys.columns import FEWEST, NAMES, SHAPE, column_figures, corrected
from cotempo.surveys.others import LEAST_OTHERS, Key, Others
from cotempo.surveys.surveyed import NOT_COMPARED, Surveyed, vocabulary_keys
from cotempo.surveys.trials import Correction, Oddity, enough_evidence
from cotempo.surveys.units import SMALLEST_UNNAMED, named, number
from cotempo.typing import Array, Floats

#: Each column is correlated with so many that follow it in the order of names.
NEIGHBOURS = 8
LAGS = (1, 2, 3, 4, 6, 12, 24)
PAIRS = ("levels", "steps")
#: Figures that a kind of correction changes besides the shape of a column.
ALSO = {"missing": ("missing", "tail", "edge"), "cumulated": ("tail",), "coding": ("lowest",)}
MOST_SWAPPED = 40
#: What makes figures less likely than something else, but by no more than a factor of exp(NEARLY), explains as well.
NEARLY = 2.0
#: Columns from which on all may be powers of the others' together.
FEWEST_TOGETHER = 3
RATIOS_TRIED = np.geomspace(1.1, 1e6, 300)
#: Rows below which a correlation says little.
FEWEST_PAIRS = 150


class SurveyedSeries(Surveyed):
    """One client's series, by column and pair of columns."""

    table: Series

    @staticmethod
    def layout(columns: Sequence[str]) -> list[Key]:
        """Return the keys of all figures, for the columns that any client has."""
        table = [("", "step"), ("", "repeats"), ("", "cos", "phase"), ("", "sin", "phase"), *time_keys()]
        each = [(column, name) for column in columns for name in NAMES]
        daily = [key for column in columns for key in daily_keys(column)]
        pairs = [(*pair, kind) for pair in neighbours(columns) for kind in PAIRS]
        return [*table, *vocabulary_keys(columns), *each, *daily, *pairs]

    @classmethod
    def limits(cls, columns: Sequence[str], sums: Mapping[str, Floats]) -> dict[str, str]:
        """Return what is not compared, for want of sites with enough rows, and where only large ratios are told."""
        layout, found = cls.layout(columns), dict[str, str]()
        place = {key: index for index, key in enumerate(layout)}
        everyone = Others.of_sums(sums, layout, None).found
        for column in columns:
            sites = round(sums["total"][place[column, "has"]])
            looked = round(sums["known"][place[column, "missing"]])
            if looked <= LEAST_OTHERS:
                found[column] = NOT_COMPARED
                continue
            keys: list[Key] = [(column, name) for name in ("size", "spread") if (column, name) in everyone]
            others = {
                key: (everyone[key][0] - 1, *everyone[key][1:]) for key in keys if everyone[key][0] > LEAST_OTHERS
            }
            least = least_told(Others(others), len(columns))
            said = []
            if looked < sites:
                said.append(f"compared at {looked} of {sites} sites: the rest has fewer than {FEWEST} rows")
            if least > SMALLEST_UNNAMED:
                said.append(f"another unit is told if it is off by {number(math.ceil(2 * least) / 2)} times or more")
            if said:
                found[column] = "; ".join(said)
        return found

    @cached_property
    def first(self) -> Array:
        """Which rows begin a sequence."""
        names = self.table.sequence
        return np.concatenate([[True], names[1:] != names[:-1]]) if len(names) else np.zeros(0, bool)

    def column(self, name: str) -> Floats:
        """Return a column's values."""
        return self.table.values[:, self.table.features.index(name)]

    @cached_property
    def own(self) -> dict[Key, float]:
        """The figures of this table."""
        found: dict[Key, float] = {(column, "has"): float(column in self.table.features) for column in self.columns}
        if not self.table.rows:
            return found
        found |= time_figures(self.seconds) | self._sampling()
        for column in self.table.features:
            found |= {(column, name): value for name, value in column_figures(self.column(column), self.first).items()}
            waves = harmonics(self.seconds, standard(self.column(column)))
            found |= {(column, *wave, "daily"): value for wave, value in waves.items()}
        for one, two in neighbours(self.columns):
            if one in self.ranks and two in self.ranks:
                for kind, left, right in zip(PAIRS, self.ranks[one], self.ranks[two], strict=True):
                    found[one, two, kind] = agreement(left, right)
        return found

    @cached_property
    def seconds(self) -> Floats:
        """Times as clocks on the wall show them."""
        return wall_clock(self.table)

    @cached_property
    def ranks(self) -> dict[str, tuple[Floats, Floats]]:
        """Standardised ranks of the levels and of the steps of every column."""
        return {name: self._ranks(self.column(name)) for name in self.table.features}

    def _ranks(self, values: Floats) -> tuple[Floats, Floats]:
        return ranked(values), ranked(np.where(self.first, np.nan, np.diff(values, prepend=np.nan)))

    def _sampling(self) -> dict[Key, float]:
        times = self.seconds if self.table.clock.dates else self.table.time
        steps = np.diff(times)[~self.first[1:]]
        if len(steps) < 2:
            return {}
        usual = float(np.median(steps))
        cells = np.nan_to_num(self.table.values, nan=np.inf)
        found: dict[Key, float] = {
            ("", "step"): math.log(usual) if usual > 0 else math.nan,
            ("", "repeats"): 1 - len(np.unique(cells, axis=0)) / len(cells),
        }
        if self.table.clock.dates:
            angle = 2 * np.pi * self.seconds / HOUR
            found |= {
                ("", "cos", "phase"): float(np.cos(angle).mean()),
                ("", "sin", "phase"): float(np.sin(angle).mean()),
            }
        return found

    # What could be wrong.

    def trials(self, others: Others) -> Iterator[Correction]:
        """Yield corrections of columns, of pairs of columns, and of times."""
        for column in self.table.features:
            if (column, "sign") in self.own:
                yield from self._column_trials(column, others)
                yield from self._lag_trials(column)
        theirs = [name for name in self.table.features if any((name, figure) in others.found for figure in NAMES)]
        for one, two in combinations(theirs[:MOST_SWAPPED], 2):
            words = f"your {one} looks like the others' {two}, and the other way round: exchanged columns?"
            yield Correction("columns", (one, two), self._swapped(one, two), words)
        yield from self._table_trials(others)
        yield from clock_trials(self.own, list(self.table.features), others, self.table.clock.zone)
        yield from date_trials(self.seconds, self.own)
        yield from self._phase_trials(others)

    def _column_trials(self, column: str, others: Others) -> Iterator[Correction]:
        own = self.own
        factor = self._ratio(column, others)
        words = named(factor, lambda one: others.evidence(own, self._multiplied(column, one)), NEARLY)
        if words is not None:
            yield Correction("unit", (column,), self._multiplied(column, factor), f"your {column} {words}")
        for kind, values, words in corrected(self.column(column), self.first, own):
            names = (*SHAPE, *ALSO.get(kind, ()))
            figures = column_figures(values, self.first)
            changed: dict[Key, float] = {(column, name): figures[name] for name in names if name in figures}
            if kind == "logarithm" and others.evidence(own | self._multiplied(column, factor), changed) < NEARLY:
                continue  # a multiplication explains as much
            if kind == "sign" or "other way round" in words:
                turned = [key for key in own if column in key[:-1] and key[-1] in ("daily", *PAIRS)]
                changed |= {key: -own[key] for key in turned}
            yield Correction(kind, (column,), changed, f"your {column} {words}")

    def _table_trials(self, others: Others) -> Iterator[Correction]:
        """Yield logarithms of all columns, where multiplying each by a factor of its own explains less."""
        known = {name: self.column(name) for name in self.table.features if (name, "rough") in self.own}
        wide = {name: values for name, values in known.items() if np.nanmin(values) > 0 and (name, "edge") in self.own}
        if len(wide) < FEWEST_TOGETHER:
            return
        changed: dict[Key, float] = {}
        multiplied = dict(self.own)
        for name, values in wide.items():
            figures = column_figures(np.log2(values), self.first)
            changed |= {(name, figure): figures[figure] for figure in ("skew", "rough", "spread") if figure in figures}
            multiplied |= self._multiplied(name, self._ratio(name, others))
        if others.evidence(multiplied, changed) >= NEARLY:
            words = f"{shorten(list(wide))} all look like powers of the others': take their logarithm"
            yield Correction("logarithm", tuple(wide), changed, f"your {words}")

    def _ratio(self, column: str, others: Others) -> float:
        """Return the factor that brings size and spread of a column to the others'; 1 where they have none."""
        keys = [key for key in self._multiplied(column, 1.0) if key in others.found]
        precision = np.array([others.scale(key) ** -2 for key in keys])
        gaps = np.array([others.mean(key) - self.own[key] for key in keys])
        return math.exp(float(precision @ gaps / precision.sum())) if keys else 1.0

    def _multiplied(self, column: str, factor: float) -> dict[Key, float]:
        """Return the figures of a column that a multiplication changes."""
        keys = [(column, name) for name in ("size", "spread")]
        return {key: self.own[key] + math.log(factor) for key in keys if not math.isnan(self.own.get(key, math.nan))}

    def _lag_trials(self, column: str) -> Iterator[Correction]:
        pairs = [pair for pair in neighbours(self.columns) if column in pair and {*pair} <= {*self.ranks}]
        for lag in LAGS if pairs else ():
            for shift in (lag, -lag):
                moved = [self._shifted(ranks, shift) for ranks in self.ranks[column]]
                changed: dict[Key, float] = {}
                for pair in pairs:
                    other = self.ranks[pair[1] if pair[0] == column else pair[0]]
                    changed |= {(*pair, kind): agreement(moved[k], other[k]) for k, kind in enumerate(PAIRS)}
                late = "late" if shift > 0 else "early"
                words = f"your {column} comes {lag} rows too {late} beside your other columns: a delayed column?"
                yield Correction("lag", (column,), changed, words)

    def _shifted(self, values: Floats, shift: int) -> Floats:
        """Return ranks `shift` rows earlier, 0 where another sequence begins."""
        moved, names = np.roll(values, -shift), self.table.sequence
        same = np.roll(names, -shift) == names
        same[-shift if shift > 0 else 0 : None if shift > 0 else -shift] = False
        return np.where(same, moved, 0.0)

    def _swapped(self, one: str, two: str) -> dict[Key, float]:
        def exchange(key: Key) -> Key:
            names = tuple({one: two, two: one}.get(part, part) for part in key[:-1])
            if key[-1] in PAIRS and names not in self.pairs:
                names = names[::-1]
            return (*names, key[-1])

        told = [key for key in self.own if (one in key[:-1] or two in key[:-1]) and key[-1] != "has"]
        return {key: self.own[exchange(key)] for key in told if exchange(key) in self.own}

    @cached_property
    def pairs(self) -> set[tuple[str, str]]:
        """The pairs of columns that are correlated."""
        return {*neighbours(self.columns)}

    def _phase_trials(self, others: Others) -> Iterator[Correction]:
        keys = [("", "cos", "phase"), ("", "sin", "phase")]
        if not all(key in self.own and key in others.found for key in keys):
            return
        (x, y), (u, v) = [self.own[key] for key in keys], [others.mean(key) for key in keys]
        minutes = round(60 * (math.atan2(v, u) - math.atan2(y, x)) / (2 * math.pi)) % 60
        minutes = minutes - 60 if minutes > 30 else minutes
        if minutes and min(math.hypot(x, y), math.hypot(u, v)) > 0.5:
            turn = 2 * math.pi * minutes / 60
            moved = x * math.cos(turn) - y * math.sin(turn), y * math.cos(turn) + x * math.sin(turn)
            side = "behind" if minutes > 0 else "ahead of"
            words = f"your times are {abs(minutes)} minutes {side} the others' within the hour: a clock that is off?"
            yield Correction("clock", ("minutes",), dict(zip(keys, moved, strict=True)), words)

    def oddities(self) -> Iterator[Oddity]:
        """Yield figures of the table and of its columns that should not stand out."""
        yield from date_oddities()
        yield Oddity("repeats", "rows", ("", "repeats"), 0.05, "many of your rows repeat others: rows given twice?")
        for effect, side in ((math.log(1.5), "longer"), (-math.log(1.5), "shorter")):
            words = f"your steps of time are much {side} than the others': another sampling rate, or unit of time?"
            yield Oddity("sampling", "steps of time", ("", "step"), effect, words)
        for column in self.table.features:
            yield Oddity(
                "constant", column, (column, "varies"), -0.5, f"your {column} never changes, where the others' does"
            )
            yield Oddity(
                "limits", column, (column, "edge"), 0.05,
                f"many values of your {column} are exactly its largest or smallest: cut off at a limit?",
            )  # fmt: skip
            for name, digits in (("whole", "whole numbers"), ("tenth", "one decimal")):
                yield Oddity(
                    "rounding", column, (column, name), 0.5, f"your {column} is rounded to {digits}, the others' is not"
                )
            yield Oddity(
                "missing", column, (column, "missing"), 0.3, f"far more of your {column} is missing than of the others'"
            )


def least_told(others: Others, columns: int) -> float:
    """Return the smallest ratio that a column has to be off by to be told, 1 where it has no size."""
    means = {key: others.mean(key) for key in others.found}
    for ratio in RATIOS_TRIED if means else ():
        off = {key: mean + math.log(ratio) for key, mean in means.items()}
        if others.evidence(off, means) >= enough_evidence(columns):
            return float(ratio)
    return float(RATIOS_TRIED[-1]) if means else 1.0


def neighbours(columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of columns that are correlated: each with some that follow it."""
    return [(one, two) for place, one in enumerate(columns) for two in columns[place + 1 : place + 1 + NEIGHBOURS]]


def standard(values: Floats) -> Floats:
    """Return values in units of their spread around the median, at most 3 of them."""
    known = values[np.isfinite(values)]
    middle = np.median(known) if len(known) else 0.0
    scale = np.abs(known - middle).mean() if len(known) else 0.0
    return np.clip((values - middle) / scale, -3, 3) if scale > 0 else np.full(len(values), np.nan)


def ranked(values: Floats) -> Floats:
    """Return ranks of values, standardised; 0 where missing."""
    known = np.isfinite(values)
    found = np.zeros(len(values))
    if known.sum() > 2 and np.ptp(values[known]) > 0:
        ranks = rankdata(values[known])
        found[known] = (ranks - ranks.mean()) / ranks.std()
    return found


def agreement(one: Floats, two: Floats) -> float:
    """Return Fisher's transform of the correlation of standardised ranks; NaN where few rows have both."""
    if min(np.count_nonzero(one), np.count_nonzero(two)) < FEWEST_PAIRS:
        return math.nan
    size = math.sqrt(float(one @ one) * float(two @ two))
    return math.atanh(min(max(float(one @ two) / size, -0.97), 0.97))
