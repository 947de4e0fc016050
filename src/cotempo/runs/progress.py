"""`show`: a progress bar that listens to the loop."""

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cotempo.federation.method import Method
from cotempo.federation.rounds import Step


def show(steps: Iterable[Step], method: Method) -> Iterator[Step]:
    """Yield the steps unchanged, showing round, phase and metrics on standard error."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[news]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(type(method).__name__, total=getattr(method, "rounds", None), news="")
        for step in steps:
            numbers = "  ".join(f"{name} {value:.4g}" for name, value in list(step.metrics.items())[:3])
            lost = f"  {len(step.answers.failures)} left out" if step.answers.failures else ""
            bar.update(task, completed=step.round, news=f"round {step.round}  {step.phase}  {numbers}{lost}")
            yield step
