"""`voile assess` as it is typed, with the exit code that the process would have."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from voile.cli.app import app
from voile.cli.output import exit_code
from voile.core.errors import VoileError


def run(*arguments: object) -> Any:
    done = CliRunner().invoke(app, ["assess", *map(str, arguments)])
    if isinstance(done.exception, VoileError):
        done.exit_code = exit_code(done.exception)
    return done
