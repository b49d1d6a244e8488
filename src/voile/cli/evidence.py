"""`voile evidence`: what somebody who answers for data or for a model asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from voile.app.commands.evidence import CollectEvidence
from voile.cli.commands import command_line
from voile.cli.output import print_json

if TYPE_CHECKING:
    from voile.app.evidence.handler import EvidenceResult

EPILOG = "Example: voile evidence evidence-2026-03 --workspace voile.toml --answers answers"


def _show(done: EvidenceResult, *, as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(done.folder), **done.to_dict()})
        return
    from voile.core.explanation_checks import counted

    for each in done.documents:
        counts = ", ".join(f"{count} {name}" for name, count in each.counts.items())
        typer.echo(f"{each.title}: {counts}")
    typer.echo(f"decisions: {counted(len(done.decisions), 'page')}")
    for name, line in done.warnings:
        typer.echo(f"{name}: {line}")
    typer.echo(f"open {done.folder / 'index.html'}")


evidence = command_line(CollectEvidence, _show)
