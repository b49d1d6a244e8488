"""`voile explain`: explanations with a guarantee; a table for people, JSON for programs."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import typer

from voile.app.commands.explain import Explain
from voile.cli.commands import command_line
from voile.cli.output import ExitCode, console, exit_code, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from voile.app.explain_rows import ExplainResult, PreviewResult, TableResult

EPILOG = """\
Examples:

  voile explain readmission patients.csv   (a release in voile.toml)

  voile explain artefact patients.csv --output why.voile --plot why.png

  voile explain artefact one-patient.csv --page why.html

  voile explain artefact patients.csv --page why/   (a page for each of them)

  voile explain artefact 'big/*.parquet' --output explained/ --engine ray   (a table of any size)

  voile explain model.onnx applicant.csv --schema loans.toml --model-origin training.json
  --background public.csv --background-origin public

  voile explain model.onnx applicant.csv --schema loans.toml --model-origin public
  --protect background --background customers.csv --account customers --preview

  voile explain model.onnx customers.parquet --schema loans.toml --model-origin public
  --protect population --account customers --output importance.voile

  voile explain model.onnx - --schema loans.toml --model-origin public --background public.csv
  --background-origin public --protect explained-row --account people --id-column id --top 3
  < people.csv
"""


def show_explained(result: ExplainResult | PreviewResult | TableResult, *, as_json: bool) -> None:
    """An answer, or what one would cost and be like; the exit code says what went wrong."""
    from voile.app.explain_rows import PreviewResult, TableResult

    if isinstance(result, TableResult):
        print_table(result, as_json=as_json)
        return

    if isinstance(result, PreviewResult):
        print_preview(result, as_json=as_json)
        return
    print_explained(result, as_json=as_json)
    exit_with_status(result, as_json=as_json)


def print_preview(result: PreviewResult, *, as_json: bool) -> None:
    """What it would cost and be like."""
    if as_json:
        print_json(result.to_dict())
        return
    count, of = result.count, result.of
    counted = f"{count:,} {of if count != 1 else of.removesuffix('s')}"
    console().print(f"{counted}; nothing was charged\n{result.preview}", soft_wrap=True)


def print_table(result: TableResult, *, as_json: bool) -> None:
    """How strong features are in a large table, and where the rows are."""
    if as_json:
        print_json(result.to_dict())
        return
    out, answer, kept = console(), result.answer, result.kept
    for line in result.alarms:
        out.print(f"do not use it as it is: {line}", soft_wrap=True, style="bold red")
    from voile.views.tables import strength_table

    out.print(strength_table(answer.strength, answer.rows))
    for promise in answer.guarantees or ("no privacy guarantee",):
        out.print(f"guarantee: {promise}", soft_wrap=True)
    out.print(f"cost nothing; record {answer.record}", soft_wrap=True)
    out.print(f"checkpoint: {kept}", soft_wrap=True)
    out.print(f"saved: {answer.folder} ({answer.blocks} Parquet files)", soft_wrap=True)
    if answer.receipt is not None:
        about = ["--answer", str(answer.folder), "--policy", str(result.policy)]
        typed = shlex.join(["voile", "audit", "verify", str(answer.receipt), *about])
        out.print(f"verify it with: {typed}", soft_wrap=True)


def print_explained(result: ExplainResult, *, as_json: bool, table: Table | None = None) -> None:
    """What could not be written is printed instead, to the last digit.

    Args:
        table: how the values are shown to people; a line for each feature if not given.
    """
    explained, written, kept, top = result.explained, result.written, result.kept, result.top
    assert kept is not None, "a command signs what it leaves on record"
    if as_json or written.failed:
        print_json(result.to_dict())
        return
    out, described = console(), explained.describe()
    for line in described.alarms:
        out.print(f"do not use it as it is: {line}", soft_wrap=True, style="bold red")
    if table is None:
        from voile.views.tables import explanation_table

        table = explanation_table(explained, top)
    out.print(table)
    for promise in described.guarantees or ("no privacy guarantee",):
        out.print(f"guarantee: {promise}", soft_wrap=True)
    for note in described.notes:
        out.print(f"note: {note}", soft_wrap=True)
    if explained.assessed is not None:
        out.print(f"assessed: {explained.assessed}", soft_wrap=True)
    out.print(explained.payment, soft_wrap=True)
    out.print(f"checkpoint: {kept}", soft_wrap=True)
    for what, paths in written.files.items():
        shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        out.print(f"{what}: {shown}", soft_wrap=True)
    if written.unproved:
        out.print(f"receipts: {written.unproved}", soft_wrap=True)
    for receipt, answer in written.proofs:
        about = ["--answer", answer, "--policy", str(result.policy)]
        typed = shlex.join(["voile", "audit", "verify", receipt, *about])
        out.print(f"verify it with: {typed}", soft_wrap=True)


def exit_with_status(result: ExplainResult, *, as_json: bool) -> None:
    """The answer has left; what went wrong after it was paid for is the exit code."""
    written, kept = result.written, result.kept
    assert kept is not None
    if not written.failed and kept.error is None:
        return
    for line in () if as_json else written.failed:
        sys.stderr.write(f"voile: error: {line}; the answer is printed as JSON instead\n")
    raise typer.Exit(ExitCode.FAULT if kept.error is None else exit_code(kept.error))


explain = command_line(Explain, show_explained)
