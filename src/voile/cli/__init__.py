"""The command `voile`.

`app` holds the root command and turns errors into exit codes; `options` are those that several
commands have, `output` is what they print with. Each group of commands (`audit`, `budget`,
`schema`) has a typer app of its own, added in `app`. `starting` is about Ctrl-C until then.
"""

from __future__ import annotations

from voile.cli import starting

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Run one command and leave the process with its exit code."""

    def run() -> None:
        from voile.cli import app

        app.main(arguments)

    starting.run_interruptibly(run)
