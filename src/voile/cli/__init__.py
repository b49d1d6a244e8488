"""The command `voile`.

`app` holds the root command and turns errors into exit codes; `options` are those that several
commands have, `output` is what they print with. Each group of commands (`audit`, `budget`,
`schema`) has a typer app of its own, added in `app`.
"""

from voile.cli.app import main

__all__ = ["main"]
