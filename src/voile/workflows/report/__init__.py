"""An artefact as one HTML page, and the figures on it."""

from voile.workflows.report.figures import importance, quality, rounded_up
from voile.workflows.report.page import check_log, report_html, write_report

__all__ = ["check_log", "importance", "quality", "report_html", "rounded_up", "write_report"]
