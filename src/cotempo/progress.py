"""`Progress`: how far something has come; a bar in a terminal, now and then a line elsewhere."""

import sys
import time
from typing import Any, Self

EVERY_SECONDS = 10.0


class Progress:
    """Show how far something has come, on standard error; use it in a `with` statement and call it.

    In a terminal it is a bar, with the time left where the total is known. Anywhere else, a log file or a notebook, it
    is a plain line at most every ten seconds: something that takes less says nothing.

    Parameters
    ----------
    title
        What is shown first, such as the name of a method.
    show
        `False` shows nothing; `True` shows a line at once where there is no terminal; `None` decides by itself.

    Examples
    --------
    >>> with Progress("Walk", show=False) as progress:
    ...     progress(1, 2, "first half")
    """

    def __init__(self, title: str, show: bool | None = None):
        self.title, self.show = title, show
        self.began = self.said = time.monotonic()
        self.bar: Any = None
        if show:
            self.said -= EVERY_SECONDS

    def __enter__(self) -> Self:
        if self.show is not False and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            texts = TextColumn("{task.description}"), TextColumn("{task.fields[news]}", markup=False)
            times = TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn()
            console = Console(stderr=True)
            self.bar = Bar(SpinnerColumn(), texts[0], BarColumn(bar_width=24), *times, texts[1], console=console,
                           transient=True)  # fmt: skip
            self.task = self.bar.add_task(self.title, total=None, news="")
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar:
            self.bar.stop()

    def __call__(self, done: float, total: float | None, news: str = "") -> None:
        """Say that `done` of `total` is done, in any unit; `total` is `None` where nobody can know it."""
        if self.bar:
            self.bar.update(self.task, completed=done, total=total, news=news)
        elif self.show is not False and time.monotonic() - self.said >= EVERY_SECONDS:
            self.said = time.monotonic()
            print(self.line(done, total, news), file=sys.stderr, flush=True)

    def line(self, done: float, total: float | None, news: str) -> str:
        """Return what a plain line says."""
        spent = time.monotonic() - self.began
        parts = [self.title]
        if total:
            parts.append(f"{min(done / total, 1.0):.0%}")
        parts += [news] if news else []
        parts.append(f"{duration(spent)} so far")
        if total and 0 < done < total:
            parts.append(f"about {duration(spent * (total - done) / done)} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """Return a time span as people say it.

    Examples
    --------
    >>> duration(9), duration(75), duration(3700)
    ('9 s', '1 min 15 s', '1 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
