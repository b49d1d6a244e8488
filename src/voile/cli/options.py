"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DatabaseArgument = Annotated[
    str, typer.Argument(metavar="DATABASE", help="A file, or postgresql://... of a server.")
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="The log's signing key, the copy lies beside it; audit.key beside DATABASE if not "
        "given.",
    ),
]
PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Origin, keys and witnesses to trust; audit-policy.toml beside DATABASE if not given.",
    ),
]
OutOption = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Overwrite files of this name without asking.")
]
CallerOption = Annotated[str, typer.Option("--by", help="Who does this; written down.")]
WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        metavar="FILE|DIR",
        help="Whose releases NAME is looked up in; voile.toml of this folder if not given.",
    ),
]
