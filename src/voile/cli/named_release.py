"""Which release of which workspace a command is about, if it is about one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from voile.cli.output import given_options

if TYPE_CHECKING:
    from voile.app.workspace import WorkspaceFile

_BESIDE_A_NAME: Final = frozenset(
    {"model", "data", "workspace", "purpose", "by", "fresh", "preview", "yes", "as_json"}
    | {"output", "plot", "page", "receipt", "row_receipts"}
)
"""What may be said beside a name: nothing that changes what is released, or where it is kept."""


def named_release(
    context: typer.Context, workspace: Path | None, name: str
) -> WorkspaceFile | None:
    """The workspace with a release of this name; None if the name is that of a model.

    A name in a workspace precedes a path. Options that a release states are refused beside it: two
    truths about one promise are one too many.
    """
    from voile.app.custody import WORKSPACE
    from voile.core.errors import InvalidInput

    if workspace is None and not os.path.lexists(WORKSPACE):
        return None
    from voile.app.workspace import WorkspaceFile

    found = WorkspaceFile.read(workspace or Path(WORKSPACE))
    is_model = ":" in name or Path(name).exists()
    if workspace is None and is_model and name not in found.releases:
        return None
    found.spec(name)  # refuses a name that is not there
    for option, typed in given_options(context).items():
        if option not in _BESIDE_A_NAME:
            raise InvalidInput(
                f"{typed}: for {name!r} this is decided by {found.path}; change it there, or write "
                "a release of another name"
            )
    found.check_files()
    return found
