"""One self-contained HTML page per run."""

from cotempo.report.page import write_report

__all__ = ["write_report"]
