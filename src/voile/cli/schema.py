"""`voile schema`: look at a schema, and at how data fit it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voile.cli.options import YesOption
from voile.cli.output import (
    ExitCode,
    JsonOption,
    ask_before_overwriting,
    console,
    print_json,
)

if TYPE_CHECKING:
    from rich.table import Table

    from voile.core.schema import ColumnFinding, ColumnReport, Schema, SchemaReport

app = typer.Typer(
    help="Look at a schema, at how data fit it, and propose one from public rows.",
    epilog="Example: voile schema show clinic.toml",
    no_args_is_help=True,
    suggest_commands=False,
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE")]
DataArgument = Annotated[str, typer.Argument(metavar="DATA")]


@app.command(epilog="Example: voile schema check clinic.toml patients.csv")
def check(file: FileArgument, data: DataArgument, as_json: JsonOption = False) -> None:
    """Say what in DATA falls outside the schema FILE; exit code 4 if something does.

    FILE is TOML; DATA is CSV with a header, Parquet, or - for CSV from standard input. Empty cells
    are counted, and fit: the schema's defaults stand for them.

    The output shows raw values and exact counts: for the custodian only, never for release.
    """
    from voile.core.schema import Schema
    from voile.datasets.tables import read_table

    schema = Schema.load(file)
    report = schema.check(read_table(data))
    if as_json:
        print_json({"schema": schema.name, **_verdict(report), **asdict(report)})
    else:
        _print_report(schema, report)
    if not report.fits:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


@app.command(epilog="Example: voile schema show clinic.toml --json")
def show(file: FileArgument, as_json: JsonOption = False) -> None:
    """Show what the schema FILE (TOML) declares, defaults filled in."""
    from voile.core.schema import Schema

    schema = Schema.load(file)
    if as_json:
        print_json({"digest": schema.digest, **schema.declaration()})
    else:
        _print_schema(schema)


@app.command("from", epilog="Example: voile schema from example-rows.csv --public --label ill")
def from_(
    data: DataArgument,
    public: Annotated[
        bool,
        typer.Option("--public", help="I say that DATA are public: nobody in it is protected."),
    ] = False,
    label: Annotated[
        str | None, typer.Option(help="The column to predict; the last one if not given.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it there instead of printing it.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Propose a schema from the rows of DATA, which have to be public.

    Bounds and categories that are read off rows tell about these rows: never do this with protected
    ones. `voile init` proposes nothing and reads the header alone.
    """
    from voile.app.proposing import proposal_text, propose
    from voile.core.atomic_file import check_output, replace_file
    from voile.core.errors import InvalidInput
    from voile.datasets.tables import read_table

    if not public:
        raise InvalidInput(
            f"{data}: what is read off rows tells about them. Only if nobody in it is protected, "
            "say so: --public. For anything else, voile init reads the header and leaves the rest "
            "to you"
        )
    if output is not None:
        check_output(output)
        ask_before_overwriting([output], yes=yes)
    name = "proposed" if data == "-" else Path(data).stem
    proposal = propose(name, read_table(data), label)
    if output is not None:
        replace_file(output, proposal_text(proposal).encode())
    if as_json:
        told = {
            "left_out": list(proposal.left_out),
            "coded": list(proposal.coded),
            "taken_as_missing": {name: list(words) for name, words in proposal.missing.items()},
        }
        print_json(told | proposal.schema.declaration())
    elif output is None:
        typer.echo(proposal_text(proposal))
    else:
        console().print(f"{output}: look at every line before you use it", soft_wrap=True)


def _print_report(schema: Schema, report: SchemaReport) -> None:
    from voile.core.schema import Problem

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
        out.print(_findings_table("does not fit", outside))
    if empty:
        out.print(_findings_table("empty", empty))
    for column in report.mostly_empty:
        share = column.count(Problem.MISSING) / report.rows
        out.print(
            f"{column.name!r}: {share:.0%} of its values are missing, and the default would "
            'stand for all of them; declare a category "missing" or add a column that says so',
            soft_wrap=True,
        )
    if report.empty_cells:
        out.print(f"empty cells, filled in with the schema's defaults: {report.empty_cells}")
    if report.empty_labels:
        out.print(f"rows without a label, from which nothing is learned: {report.empty_labels}")
    verdict = "everything fits" if report.fits else "does not fit"
    out.print(f"{report.rows} rows, schema {schema.name!r}: {verdict}")


def _verdict(report: SchemaReport) -> dict[str, bool | int | list[str]]:
    return {
        "ok": report.fits,
        "empty_cells": report.empty_cells,
        "empty_labels": report.empty_labels,
        "mostly_empty": [column.name for column in report.mostly_empty],
    }


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)


def _findings_table(title: str, outside: list[tuple[ColumnReport, ColumnFinding]]) -> Table:
    table = _table("column", "problem", "values", "examples (first row)")
    table.title = title
    for column, finding in outside:
        examples = ", ".join(f"{example.value} ({example.row})" for example in finding.examples)
        table.add_row(column.name, str(finding.problem), str(finding.count), examples)
    return table


def _print_schema(schema: Schema) -> None:
    table = _table("feature", "kind", "values", "default", "semantic")
    for feature in schema.features:
        table.add_row(
            feature.name,
            feature.domain.kind,
            str(feature.domain),
            str(feature.default),
            feature.group,
        )
    out = console()
    out.print(f"schema {schema.name!r}: {len(schema.features)} features")
    out.print(table)
    if schema.label is not None:
        out.print(f"label {schema.label.name!r}: {schema.label.domain}")
    out.print(f"digest {schema.digest}")


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table()
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
