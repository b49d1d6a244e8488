"""What a report says about an artefact, collected and verified; `voile.views` makes it a page."""

from voile.app.report.figures import compared, how_to_use, importance, quality
from voile.app.report.handler import (
    CheckedLog,
    ExactTrust,
    ReportContents,
    ReportResult,
    check_log,
    exact_trust,
    report_contents,
    write_exact_trust,
    write_report,
)

__all__ = [
    "CheckedLog",
    "ExactTrust",
    "ReportContents",
    "ReportResult",
    "check_log",
    "compared",
    "exact_trust",
    "how_to_use",
    "importance",
    "quality",
    "report_contents",
    "write_exact_trust",
    "write_report",
]
