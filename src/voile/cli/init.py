"""`voile init`: begin a federation with one's own files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from voile.cli.output import JsonOption, console, print_json

EPILOG = "Example: voile init hospital-a.csv hospital-b.csv --label readmitted --output study"


def init(
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA...", help="CSV or Parquet, one for each client.")
    ],
    label: Annotated[
        str | None, typer.Option(help="The column to predict; the last one if not given.")
    ] = None,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where to write.")] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Write a commented config and a schema to fill in, from the header alone.

    No value of DATA is read: what is possible in a column is for you to say.
    """
    from voile.workflows.starting import start

    started = start(data, output, label=label)
    if as_json:
        print_json(
            {
                "schema": str(started.schema),
                "config": str(started.config),
                "columns": list(started.columns),
                "label": started.label,
            }
        )
        return
    console().print(
        f"{started.schema}: fill in kind and bounds (or categories) of "
        f"{len(started.columns) - 1} features and the classes of {started.label!r}\n"
        f"{started.config}: fill in the number of rows of each client and a held-out file\n\n"
        f"Then:\n  {shlex.join(['voile', 'schema', 'show', str(started.schema)])}\n"
        f"  {shlex.join(['voile', 'federate', str(started.config)])}",
        soft_wrap=True,
    )
