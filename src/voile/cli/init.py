"""`voile init`: begin with one's own files. Tables start a federation, a model a workspace."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from voile.app.commands.workspace import Start
from voile.cli.commands import command_line
from voile.cli.output import console, explain_by_name, print_json

if TYPE_CHECKING:
    from voile.app.federate.starting import SplitFederation, StartedFederation
    from voile.app.workspace import StartedWorkspace

EPILOG = """\
Examples:

  voile init hospital-a.csv hospital-b.csv --label readmitted --name "clinics 2026" --output study

  voile init risk.onnx --schema clinic.toml --model-origin public --background harbour.csv
  --protect background --dataset "harbour 2026" --epsilon 3 --delta 1e-5

  voile init scoring.models:risk --schema loans.toml --model-origin training.json
  --background public.csv --background-origin public

  voile init output/artefact --output study
"""


def _show_started(
    started: StartedWorkspace | StartedFederation | SplitFederation, *, as_json: bool
) -> None:
    from voile.app.federate.starting import SplitFederation
    from voile.app.workspace import StartedWorkspace

    if isinstance(started, StartedWorkspace):
        _show_workspace(started, as_json=as_json)
    elif isinstance(started, SplitFederation):
        _show_split(started, as_json=as_json)
    else:
        _show_federation(started, as_json=as_json)


def _show_federation(started: StartedFederation, *, as_json: bool) -> None:
    schema, config = str(started.schema), str(started.config)
    columns, label = list(started.columns), started.label
    if as_json:
        print_json({"schema": schema, "config": config, "columns": columns, "label": label})
        return
    checks = [shlex.join(["voile", "schema", "check", schema, str(t)]) for t in started.tables]
    folder = started.config.parent
    console().print(
        f"{schema}: fill in kind and bounds (or categories) of "
        f"{len(columns) - 1} features and the classes of {label!r}\n"
        f"{config}: fill in the number of rows of each party; it is public\n"
        f"{folder / 'server.toml'}: name a held-out file, which nobody protects\n"
        f"{folder / 'nodes'}: what stays with each party\n\n"
        f"Then:\n  {shlex.join(['voile', 'schema', 'show', schema])}\n"
        + "".join(f"  {check}\n" for check in checks)
        + f"  {shlex.join(['voile', 'federate', config, '--preview'])}\n"
        f"  {shlex.join(['voile', 'federate', config])}\n\n"
        "The checks are for each party's own eyes: of protected rows that cannot be read, nothing "
        "is told later.",
        soft_wrap=True,
    )


def _show_split(started: SplitFederation, *, as_json: bool) -> None:
    config = started.config
    if as_json:
        print_json({"config": str(config)})
        return
    console().print(
        f"{config}: what all parties agree on\n"
        f"{config.parent}: the server's file, and a folder with books and keys for each party\n\n"
        f"Then:\n  {shlex.join(['voile', 'federate', str(config)])}",
        soft_wrap=True,
    )


def _show_workspace(started: StartedWorkspace, *, as_json: bool) -> None:
    file, release, example = str(started.file), started.release, str(started.example)
    more = ("--preview",) if started.costs else ()
    following = explain_by_name(started.file.parent, release, started.example, *more)
    if as_json:
        print_json({"workspace": file, "release": release, "example": example, "next": following})
        return
    paid = " (without --preview it is charged)" if started.costs else ""
    console().print(
        f"{file}: models, schemas, backgrounds, accounts and releases by name\n"
        f"{example}: a row of the schema's defaults\n\n"
        f"Then, with rows of your own{paid}:\n  {following}",
        soft_wrap=True,
    )


init = command_line(Start, _show_started)
