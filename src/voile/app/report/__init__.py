"""An artefact as one HTML page, and the figures on it."""

from voile.app.report.figures import compared, importance, quality, rounded_up
from voile.app.report.page import check_log, report_html, write_report
from voile.app.report.trust import exact_trust_html, write_exact_trust

__all__ = [
    "check_log",
    "compared",
    "exact_trust_html",
    "importance",
    "quality",
    "report_html",
    "rounded_up",
    "write_exact_trust",
    "write_report",
]
