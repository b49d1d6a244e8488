"""The command `voile`.

`app` holds the root command and turns errors into exit codes; `output` is what commands print with;
each group of commands is one further file with a typer app of its own, added in `app`.
"""

from voile.cli.app import main

__all__ = ["main"]
