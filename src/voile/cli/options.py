"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

DatabaseArgument = Annotated[
    str, typer.Argument(metavar="DATABASE", help="A file, or postgresql://... of a server.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Overwrite files of this name without asking.")
]
