"""`Posts`: short texts with a time, an author, tags, and the event they are about."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cotempo.data.clock import UNITS
from cotempo.data.description import ClientDescription
from cotempo.data.tables import Schema, Table, part_bounds, pluralize
from cotempo.errors import DataError
from cotempo.typing import Bools, Floats

FAR, MOST_FAR = 365 * 86400.0, 0.1  # seconds without a post before one is far from the others; the largest share
_BETWEEN_TAGS = re.compile(r"[\s,;|\[\]()'\"]+")  # also of a list that a dataframe wrote as text: ['a', 'b']
# A lead byte of UTF-8 read as Latin-1 or Windows-1252 and a byte that goes on; not the Ã of NÃO.
GARBLED = re.compile("[ÂÃ][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€|ðŸ|\N{REPLACEMENT CHARACTER}")
_PASSED_ON = re.compile(r"^\s*RT\b|https?\S*|@\w+:?")
OPTIONAL = ("time", "author", "hashtags", "mentions", "event")


@dataclass(frozen=True, eq=False, repr=False)
class Posts(Table):
    """One client's posts.

    Parameters
    ----------
    time
        Time of each post, NaN where unknown, ``(rows,)``; None if all are.
    text
        Text of each post.
    author
        Name of each author, None where unknown.
    hashtags, mentions
        Tags and mentioned names of each post, without their leading ``#`` or ``@``.
    event
        Label of the event a post is about, None where unlabelled; None for all without labels.
    extra
        Further columns, by name; no method uses them.
    unit
        ``"s"``, ``"h"`` or ``"D"`` since 1970-01-01 UTC; empty where time is a plain number.
    zone
        The time zone of the dates, such as ``"Europe/Berlin"`` or ``"+01:00"``; empty where they came without one.
    present
        Optional columns the source had; by default those that are not empty.

    Examples
    --------
    >>> Posts(time=[0.0, 1.0], text=("Flood!", "Bridge closed"), event=("flood", None))
    Posts(2 rows, 1 labelled, with time, event)
    """

    time: Floats
    text: tuple[str, ...]
    author: tuple[str | None, ...] = ()
    hashtags: tuple[tuple[str, ...], ...] = ()
    mentions: tuple[tuple[str, ...], ...] = ()
    event: tuple[str | None, ...] = ()
    extra: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    unit: str = ""
    zone: str = ""
    present: tuple[str, ...] | None = None
    kind: ClassVar[str] = "posts"
    row_fields: ClassVar[tuple[str, ...]] = ("text", *OPTIONAL, "extra")

    def __post_init__(self) -> None:
        rows = len(self.text)
        if self.time is None:  # as for the other columns; unknown times have no unit
            object.__setattr__(self, "time", np.full(rows, np.nan))
        self._own(time=np.float64)
        object.__setattr__(self, "text", tuple(self.text))
        for name, empty in (("author", None), ("event", None), ("hashtags", ()), ("mentions", ())):
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(() if given is None else given) or (empty,) * rows)
        for name in ("hashtags", "mentions"):
            object.__setattr__(self, name, tuple(tuple(tags) for tags in getattr(self, name)))
        extra = {str(name): tuple(values) for name, values in self.extra.items()}
        object.__setattr__(self, "extra", MappingProxyType(extra))
        for name, values in [(name, getattr(self, name)) for name in OPTIONAL] + list(extra.items()):
            if len(values) != rows:
                raise DataError(f"{name} must have one entry for each of the {rows} texts, got {len(values)}")
        if np.isinf(self.time).any():
            raise DataError("time must be finite, or NaN where it is unknown")
        if self.present is None:
            object.__setattr__(self, "present", tuple(name for name in OPTIONAL if _holds(getattr(self, name))))

    @property
    def schema(self) -> Schema:
        """Kind, optional columns that are present, unit and zone."""
        return Schema(self.kind, self.present or (), self.unit, self.zone)

    def columns(self) -> dict[str, Any]:
        """Return the present columns by name; tags are joined by spaces, as a file holds them."""
        found: dict[str, Any] = {"text": self.text}
        for name in self.present or ():
            values = getattr(self, name)
            found[name] = [" ".join(tags) for tags in values] if name in ("hashtags", "mentions") else values
        return found | dict(self.extra)

    @classmethod
    def recognizes(cls, columns: Set[str]) -> bool:
        """Return whether there is a column ``text``."""
        return "text" in columns

    def split_by_time(self, shares: Floats) -> tuple[Self, ...]:
        """Cut at fractions of the number of posts; equal times stay together in the later part."""
        if np.isnan(self.time).any():
            raise DataError(
                "every post must have a time to be split by time; leave those without one out: "
                "posts.select(np.isfinite(posts.time))"
            )
        order = np.argsort(self.time, kind="stable")
        time = self.time[order]
        bounds = part_bounds(shares, len(time))
        bounds[1:-1] = [np.searchsorted(time, time[bound]) if bound < len(time) else bound for bound in bounds[1:-1]]
        return tuple(self.select(order[bounds[part] : bounds[part + 1]]) for part in range(len(shares)))

    def labels(self) -> NDArray[np.str_]:
        """Return the event of each post, empty text for one without."""
        return np.array([label or "" for label in self.event], dtype=np.str_)

    def describe(self, client: str = "client") -> ClientDescription:
        """Return sizes, time and events, with warnings of texts repeated or garbled and of missing labels or times."""
        counts = {
            "with the text of another": sum(count - 1 for count in Counter(self.text).values()),
            "with the words of another, passed on or with another address": self._passed_on(),
            "with garbled letters, as of UTF-8 read as Latin-1": sum(map(bool, map(GARBLED.search, self.text))),
            "without a label": sum(label is None for label in self.event),
            "without a time": int(np.isnan(self.time).sum()),
        }
        warnings = tuple(f"{pluralize(count, 'post')} {words}" for words, count in counts.items() if count)
        labels = len({label for label in self.event if label is not None})
        known = self.time[np.isfinite(self.time)]
        warnings += self._far()
        start, end = self.span(known.min(), known.max()) if len(known) else (None, None)
        return ClientDescription(client, self.rows, start=start, end=end, labels=labels, warnings=warnings)

    def _passed_on(self) -> int:
        """Return how many posts have another's words and not its text, but for addresses, accounts and a leading RT."""
        own = dict.fromkeys(self.text)
        bare = Counter(" ".join(_PASSED_ON.sub(" ", text).casefold().split()) for text in own)
        return sum(count - 1 for words, count in bare.items() if words)

    def _far(self) -> tuple[str, ...]:
        """Return in words that a few dates are years away from all others: a clock that was not set, or a slip."""
        far = self.time[far_times(self.time, self.unit)]
        if not len(far):
            return ()
        first = self.clock.text(far.min())
        return (f"{pluralize(len(far), 'post')} more than a year from all others, the first of {first}: right dates?",)

    def with_markers(self, number: int) -> tuple[Self, list[float | str]]:
        """Return the table as it is, and all texts of more than 20 letters."""
        return self, [text for text in self.text if len(text) > 20]

    def __repr__(self) -> str:
        labelled = sum(label is not None for label in self.event)
        columns = ", ".join((*(self.present or ()), *self.extra))
        return f"Posts({pluralize(self.rows, 'row')}, {labelled:,} labelled{f', with {columns}' if columns else ''})"


def far_times(time: Floats, unit: str) -> Bools:
    """Return which of many dates are more than a year away from all others, ``(posts,)``; plain numbers never are.

    None is where so would be more than a tenth: those may be right.
    """
    far, known = np.zeros(len(time), dtype=bool), np.flatnonzero(np.isfinite(time))
    if not unit or not len(known):
        return far
    order = known[np.argsort(time[known], kind="stable")]
    pieces = np.split(order, np.flatnonzero(np.diff(time[order]) > FAR / UNITS[unit]) + 1)
    far[known] = True
    far[max(pieces, key=len)] = False
    return far if far.sum() <= MOST_FAR * len(known) else np.zeros(len(time), dtype=bool)


def clean_tags(value: str | Sequence[object] | None, sign: str) -> tuple[str, ...]:
    """Return tags without their leading sign, of a list or of a text with any signs between that no tag can have."""
    parts = (
        _BETWEEN_TAGS.split(value)
        if isinstance(value, str)
        else [str(part).strip() for part in value or () if part is not None]
    )
    return tuple(tag for tag in (part.lstrip(sign) for part in parts) if tag)


def _holds(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return bool(np.isfinite(values).any())
    return any(value not in (None, ()) for value in values)
