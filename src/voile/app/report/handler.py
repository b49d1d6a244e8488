"""The page of an artefact, from the command to the result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from voile.app.artefact import load_artefact
from voile.app.calls import Context
from voile.app.commands.federate import WriteReport
from voile.app.report.page import write_report


@dataclass(frozen=True)
class ReportResult:
    """Where the page lies."""

    path: Path


def write(command: WriteReport, context: Context) -> ReportResult:
    """Write the page of an artefact."""
    if command.output is not None:
        context.check_overwriting([command.output], allowed=command.overwrite)
    return ReportResult(write_report(load_artefact(command.artefact), command.output))
