"""`voile demo`: the main job on built-in defaults."""

from __future__ import annotations

import math
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voile.cli.output import JsonOption, console, print_json

if TYPE_CHECKING:
    from voile.workflows.demo import Demo

EPILOG = "Example: voile demo --output demo"


def demo(
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the results.")] = Path(
        "demo-output"
    ),
    as_json: JsonOption = False,
) -> None:
    """Run the main job on generated data; needs no file and no network."""
    from voile.workflows.demo import run

    with redirect_stdout(sys.stderr):  # progress stays out of the way of the result
        result = run(output=output)
    if as_json:
        print_json({"output": str(output), **_facts(result)})
    else:
        _print_result(result)


def _facts(result: Demo) -> dict[str, Any]:
    explanation = result.explanation
    return {
        "saved": str(result.saved),
        "picture": str(result.picture),
        "noise_scale": result.noise_scale,
        "guarantees": [guarantee.to_dict() for guarantee in explanation.guarantees],
        "attributions": dict(
            zip(explanation.feature_names, explanation.values[0, :, 0].tolist(), strict=True)
        ),
    }


def _print_result(result: Demo) -> None:
    file = shlex.quote(str(result.saved))
    within = result.noise_scale * math.log(20)  # Laplace noise exceeds b·ln 20 once in 20 times
    text = f"""\
What each feature adds to a patient's risk score, on average over a clinic's private records.
Safe to publish:

{result.explanation!r}

Each figure carries Laplace noise of scale {result.noise_scale:.2g}: 19 out of 20 are off by less
than {within:.2g}.

saved    {result.saved}
picture  {result.picture}

Next, try:
  python -c "import sys, voile; print(voile.Explanation.load(sys.argv[1]))" {file}
  voile --help"""
    console().print(text, soft_wrap=True)  # a command that was wrapped could not be copied
