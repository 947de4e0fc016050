"""One self-contained HTML page about a run, or about several compared."""

from cotempo.report.compare import write_comparison
from cotempo.report.page import write_report

__all__ = ["write_comparison", "write_report"]
