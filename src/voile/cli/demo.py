"""`voile demo`: the main job on built-in defaults."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voile.app.commands.workspace import RunDemo
from voile.cli.commands import command_line
from voile.cli.output import console, print_json
from voile.cli.progress import rounds_line

if TYPE_CHECKING:
    from voile.app.demo import Demo

EPILOG = "Example: voile demo --output demo"


def _show_demo(result: Demo, *, as_json: bool) -> None:
    if as_json:
        print_json(_facts(result))
    else:
        _print_result(result)


def _rounds() -> Callable[[Any], None]:
    from voile.app.demo import DELTA

    return rounds_line(DELTA)


def _facts(result: Demo) -> dict[str, Any]:
    found = asdict(result) | {"guarantee": result.guarantee.to_dict()}
    return {name: str(each) if isinstance(each, Path) else each for name, each in found.items()}


def _print_result(result: Demo) -> None:
    from voile.views.tables import demo_table

    out, promised = console(), result.guarantee
    out.print()
    out.print(demo_table(result))
    out.print(
        f"patients  {sum(result.clients.values()):,} of {len(result.clients)} hospitals; each is "
        f"protected by {promised}",
        soft_wrap=True,
    )
    out.print(
        f"logs      {result.records} records of {len(result.clients) + 1} parties, "
        "signed and verified offline"
    )
    out.print(f"patient   {result.picture} (with receipt {result.receipt.name})", soft_wrap=True)
    out.print(f"report    {result.report}", soft_wrap=True)
    city = next(name for name in result.clients if name.isalpha())
    out.print(
        f"\nNext, try:\n  cd {shlex.quote(str(result.folder))}{_path()}\n"
        "  voile explain readmitted patients.csv --plot why.png\n"
        "  voile audit verify explanation.tlog-proof --answer explanation.voile\n"
        f"  voile budget report nodes/{city}/log.db 'clinic demo v1: {city}'",
        soft_wrap=True,
    )


def _path() -> str:
    """What makes the commands below work where nobody has activated the environment."""
    if shutil.which("voile") is not None:
        return ""
    return f" && export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"


demo = command_line(RunDemo, _show_demo, bring=lambda context: replace(context, watch=_rounds()))
