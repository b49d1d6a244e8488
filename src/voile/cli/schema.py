"""`voile schema`: look at a schema, and at how data fit it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from voile.app.commands.workspace import CheckSchema, ProposeSchema, ShowSchema
from voile.cli.commands import add_command
from voile.cli.output import ExitCode, console, print_json

if TYPE_CHECKING:
    from voile.app.schemas import SchemaCheckResult, SchemaProposalResult
    from voile.core.schema import Schema, SchemaReport

app = typer.Typer(
    name="schema",
    help="Show a schema, check data against it, or propose one from public rows.",
    epilog="Example: voile schema show clinic.toml",
    no_args_is_help=True,
    suggest_commands=False,
)


def _show_checked(found: SchemaCheckResult, *, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict())
    else:
        _print_report(found.schema, found.report)
    if not found.report.fits:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def _show_schema(schema: Schema, *, as_json: bool) -> None:
    if as_json:
        print_json({"digest": schema.digest, **schema.declaration()})
        return
    from voile.views.tables import folded_table

    table = folded_table("feature", "kind", "values", "default", "semantic")
    for each in schema.features:
        values = str(each.domain), str(each.default)
        table.add_row(each.name, each.domain.kind, *values, each.group)
    out = console()
    out.print(f"schema {schema.name!r}: {len(schema.features)} features")
    out.print(table)
    if schema.label is not None:
        out.print(f"label {schema.label.name!r}: {schema.label.domain}")
    out.print(f"digest {schema.digest}")


def _show_proposed(result: SchemaProposalResult, *, as_json: bool) -> None:
    from voile.app.schemas import proposal_text

    if as_json:
        print_json(result.to_dict())
    elif result.written is None:
        typer.echo(proposal_text(result.proposal))
    else:
        console().print(f"{result.written}: check every line before you use it", soft_wrap=True)


def _print_report(schema: Schema, report: SchemaReport) -> None:
    from voile.core.schema import Problem
    from voile.views.tables import findings_table

    out = console()
    if report.missing_columns:
        out.print("missing columns: " + _names(report.missing_columns), style="red")
    if report.unexpected_columns:
        out.print("columns ignored: " + _names(report.unexpected_columns))
    if schema.label is not None and report.label is None:
        out.print(f"no column for the label {schema.label.name!r}")
    found = [(column, finding) for column in report.columns for finding in column.findings]
    told = [each for each in found if each[1].count]
    outside = [each for each in told if each[1].problem is not Problem.MISSING]
    empty = [each for each in told if each[1].problem is Problem.MISSING]
    if outside:
        out.print(findings_table("does not fit", outside))
    if empty:
        out.print(findings_table("empty", empty))
    for column in report.mostly_empty:
        share = column.count(Problem.MISSING) / report.rows
        out.print(
            f"{column.name!r}: {share:.0%} of its values are missing and would be replaced by the "
            'default. Declare a category "missing", or add a column that marks missing values',
            soft_wrap=True,
        )
    if report.empty_cells:
        out.print(f"empty cells, filled in with the schema's defaults: {report.empty_cells}")
    if report.empty_labels:
        out.print(f"rows without a label, which are not used for training: {report.empty_labels}")
    verdict = "everything fits" if report.fits else "does not fit"
    out.print(f"{report.rows} rows, schema {schema.name!r}: {verdict}")


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)


add_command(app, "check", CheckSchema, _show_checked, "clinic.toml patients.csv")
add_command(app, "show", ShowSchema, _show_schema, "clinic.toml --json")
add_command(app, "from", ProposeSchema, _show_proposed, "example-rows.csv --public --label ill")
