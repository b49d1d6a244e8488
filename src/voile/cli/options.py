"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

YesOption = Annotated[
    bool, typer.Option("--yes", help="Overwrite files of this name without asking.")
]
