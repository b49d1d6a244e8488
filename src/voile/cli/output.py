"""What every command shares: exit codes, the `--json` option, and ways to print.

With `--json` standard output holds exactly one JSON object, a result or an error. Without it,
results are printed for people on standard output, errors on standard error (`voile: error: ...`).
"""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from click.core import ParameterSource

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from voile.app.federate.join import NodeStatus
    from voile.app.federate.status import RunStatus
    from voile.records.audit_log import Report


VISIBLE: Final = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\n\t"
}
"""Control characters move a terminal's cursor, or turn a line around."""


class ExitCode(IntEnum):
    """What the exit status of `voile` means; scripts rely on it."""

    DONE = 0
    USAGE = 2
    REFUSED = 3
    VERIFICATION_FAILED = 4
    FAULT = 5
    CLAIM_REFUTED = 6
    ATTACK_BLIND = 7
    INTERRUPTED = 130
    BROKEN_PIPE = 141


JsonOption = Annotated[
    bool, typer.Option("--json", help="Print exactly one JSON object instead of text.")
]


def exit_code(error: Exception) -> ExitCode:
    """What an error means to a script."""
    from voile.core.errors import InvalidInput, Refused, VerificationFailed

    codes: dict[type[Exception], ExitCode] = {
        InvalidInput: ExitCode.USAGE,
        Refused: ExitCode.REFUSED,
        VerificationFailed: ExitCode.VERIFICATION_FAILED,
    }
    return next((code for kind, code in codes.items() if isinstance(error, kind)), ExitCode.FAULT)


def print_json(data: dict[str, Any]) -> None:
    """Print the one JSON object of this run; ASCII, so that no terminal can fail to show it."""
    sys.stdout.write(json.dumps(data, indent=2, allow_nan=False) + "\n")


def print_facts(facts: dict[str, Any], *, as_json: bool) -> None:
    """Print what was done, one fact a line."""
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        shown = "\n".join(value) if isinstance(value, list) else value
        typer.echo(f"{name.replace('_', ' ') + ':':<19} {'none' if shown in (None, '') else shown}")


def print_status(found: RunStatus | NodeStatus, *, as_json: bool) -> None:
    """Print how far a federation, or a node of it, is."""
    print_json(found.to_dict()) if as_json else typer.echo("\n".join(found.lines))


def as_date(seconds: float) -> str:
    """Seconds since 1970 as people read them."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def print_steps(report: Report) -> None:
    """Print the steps of a verification, and how many held."""
    out = console()
    styles = {"checked": "green", "failed": "bold red", "not checkable": "yellow"}
    for step in report.steps:
        line = f"{step.number:>2}  {step.outcome:<13}  {step.name:<13}  {step.detail}"
        out.print(line, style=styles[step.outcome], soft_wrap=True)
    counts = Counter(str(step.outcome) for step in report.steps)
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    out.print(f"{'verified' if report.verified else 'NOT VERIFIED'}: {said}")


def show_verified(report: Report, facts: dict[str, Any], *, as_json: bool) -> None:
    """Print a verification; the exit code says whether it failed.

    Args:
        facts: what a program reads, besides whether all held.
    """
    if as_json:
        print_json({"verified": report.verified, **facts})
    else:
        print_steps(report)
    if not report.verified:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def print_error(kind: str, message: str, code: ExitCode, *, as_json: bool) -> None:
    """Report an error in the form that was asked for."""
    if as_json:
        print_json({"error": {"kind": kind, "message": message, "exit_code": int(code)}})
    else:
        sys.stderr.write(f"voile: error: {message}\n")


def console() -> Console:
    """A rich console that prints text as it is: data may hold what looks like markup.

    Whoever is on record has chosen some of that text, so no control character of it gets through:
    nobody wipes out a line that somebody else is to read.
    """
    from rich.console import Console

    class PipeConsole(Console):
        def on_broken_pipe(self) -> NoReturn:
            raise BrokenPipeError

        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(text.translate(VISIBLE), **how)

    return PipeConsole(markup=False, emoji=False, highlight=False)


def somebody_answers() -> bool:
    """Whether questions can be asked: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def explain_by_name(folder: Path, release: str, rows: Path, *more: str) -> str:
    """The command that explains with a workspace's release, from the current folder."""
    beside = [] if folder.resolve() == Path.cwd() else ["--workspace", str(folder)]
    return shlex.join(["voile", "explain", release, str(rows), *more, *beside])


def given_options(context: typer.Context) -> dict[str, str]:
    """The options that were typed: the name of each parameter, and how it is typed."""
    found = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT):
            found[name] = parameter.opts[0]
    return found
