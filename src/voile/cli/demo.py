"""`voile demo`: the main job on built-in defaults."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from voile.cli.output import JsonOption, print_json

EPILOG = "Example: voile demo --output demo"


def demo(
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the results.")] = Path(
        "demo-output"
    ),
    as_json: JsonOption = False,
) -> None:
    """Run the main job on generated data; needs no file and no network."""
    from voile.workflows.demo import run

    if not as_json:
        run(output=output)
        return
    with redirect_stdout(sys.stderr):  # progress stays out of the way of the one JSON object
        result = run(output=output)
    files = [str(value) for value in vars(result).values() if isinstance(value, Path)]
    print_json({"output": str(output), "files": files})
