"""An artefact as one HTML page, and what stands on it."""

from voile.workflows.report.page import (
    check_log,
    importance,
    quality,
    report_html,
    rounded_up,
    write_report,
)

__all__ = ["check_log", "importance", "quality", "report_html", "rounded_up", "write_report"]
