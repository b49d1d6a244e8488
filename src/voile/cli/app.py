"""The root command, and what becomes of errors."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import click
import typer
from typer.core import TyperGroup

from voile._version import __version__
from voile.cli import raise_interrupts
from voile.cli.output import ExitCode, exit_code, print_error
from voile.cli.progress import (
    LOG_FILE,
    SAID,
    VERBOSE,
    LogSettings,
    logged,
    taken_out,
    told_how_to_go_on,
)

_TRACEBACK = "VOILE_TRACEBACK"
_GONE_ON_WITH: Final = frozenset({"assess", "demo", "explain", "federate", "recommend", "train"})
"""Commands that take their time: who interrupts them is told what is kept, and how to go on."""
_log = logging.getLogger(SAID)

_EPILOG = """\
Exit codes:

  0 done

  2 usage or bad input

  3 refused by the privacy budget or another promise

  4 verification failed: a check did not hold

  5 fault: storage, disk, a missing package, or a bug

  6 an assessment refuted a claim

  7 an assessment was inconclusive: allow more time

  130 interrupted

Example: voile schema check clinic.toml patients.csv --json
"""


class _Root(TyperGroup):
    """Also knows commands of two words, where the first is a command by itself."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        words = " ".join(args[:2])
        if words in self.commands:
            return words, self.commands[words], args[2:]
        return super().resolve_command(ctx, args)


_COMMANDS: Final = {
    "explain": "Explain what MODEL predicts for the rows of DATA, with a guarantee and a receipt.",
    "train": "Train a model on the protected rows of ROWS, with row-level privacy.",
    "demo": "Train across eight invented hospitals, explain a patient, write a report.",
    "init": "Start a federation from tables, or a workspace (voile.toml) from a model.",
    "federate": "Train a model and its explainer across the parties of CONFIG; write an artefact.",
    "federate keygen": "",
    "node": "Take part in a federation whose server runs on another machine.",
    "assess": "Attack every charged release on invented records, and try to refute its claim.",
    "report": "Write one HTML page with the guarantee, the quality, and how to verify both.",
    "evidence": "Collect what a data-protection or model-risk officer asks for, as pages and JSON.",
    "schema": "Show a schema, check data against it, or propose one from public rows.",
    "audit": "Keep a tamper-evident log, prove what is in it, verify proofs, run a witness.",
    "budget": "Open, show and renew privacy budgets, and verify them against the audit log.",
    "compliance": "Show and check rules, try others on the history, end measures, send alerts.",
    "serve": "Answer over HTTP with the releases of a workspace, until it is told to stop.",
    "backup": (
        "Copy ledger, log and keys of a workspace into a new folder, while others go on using them."
    ),
    "restore": "Bring a backup back into a folder; compared with the newest known checkpoint.",
    "dashboard": "Write the pages of the dashboard as files. `voile serve` shows them live.",
    "vault": "Erase stored answers that were kept long enough.",
    "keys": "Issue, list and revoke keys of the HTTP service.",
    "recommend": "Train a recommender once; what users see about themselves is then free.",
    "testbed": "A SuperLink and nodes on this machine, for trying out and for tests only.",
}
"""Each with its line in `voile --help`."""
_PLACES: Final = {
    "federate keygen": "federate",
    "node": "federate",
    "report": "federate",
    "restore": "backup",
}
"""Those that do not stand in a file of their own name."""


def build(words: Sequence[str] = ()) -> typer.Typer:
    """The command `voile`; with words of a command line, without what the other commands load."""
    root = typer.Typer(
        name="voile",
        cls=_Root,
        help="Explanations of machine-learning models that are safe to publish.",
        epilog=_EPILOG,
        add_completion=False,
        no_args_is_help=True,
        suggest_commands=False,  # click suggests already
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_root)
    named = next((word for word in words if not word.startswith("-")), None)
    for name, summary in _COMMANDS.items():
        if words and name.split()[0] != named:
            root.command(name, help=summary, hidden=" " in name)(_only_listed)
            continue
        module = import_module(f"voile.cli.{_PLACES.get(name, name)}")
        if hasattr(module, "app"):
            root.add_typer(module.app, name=name)
            continue
        own = name.split()[-1]
        epilog = getattr(module, f"{own.upper()}_EPILOG", None) or module.EPILOG
        root.command(name, epilog=epilog, hidden=" " in name)(getattr(module, own))
    return root


def __getattr__(name: str) -> typer.Typer:
    if name != "app":  # all of it, for tests and for documentation
        raise AttributeError(f"module 'voile.cli.app' has no attribute {name!r}")
    return build()


def _only_listed() -> None:
    """A command that was not asked for."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"voile {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option(VERBOSE, help="Print every step with times. Can be given anywhere.")
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            LOG_FILE,
            metavar="FILE",
            help=("Append every step to this file. Can be given anywhere."),
        ),
    ] = None,
) -> None:
    """Options of `voile` itself; the last two are taken out of the command line beforehand."""


def main(arguments: list[str] | None = None) -> None:
    """Run one command and leave the process with its exit code."""
    arguments, logs = taken_out(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a plain terminal shows what it can
    plain, warnings.formatwarning = warnings.formatwarning, _warning
    try:
        code = _logged(arguments, logs)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone; what is still buffered must not be written on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.BROKEN_PIPE
    finally:
        warnings.formatwarning = plain
    sys.exit(code)


def _logged(arguments: list[str], logs: LogSettings) -> int:
    from voile.core.errors import VoileError

    try:
        with logged(logs, arguments):
            return _run(arguments)
    except VoileError as error:  # a log file that cannot be written
        return _failed(error, as_json="--json" in arguments)


def _warning(message: Warning | str, *_: object, **__: object) -> str:
    """What is said, without a path into somebody's library."""
    _log.warning("%s", message)
    return f"voile: warning: {message}\n"


def _run(arguments: list[str]) -> int:
    """Run the command and report its error, if any."""
    as_json = "--json" in arguments
    command = typer.main.get_command(build(arguments or ["--help"]))
    try:
        with (
            command.make_context("voile", list(arguments)) as context,
            told_how_to_go_on(context, _GONE_ON_WITH),
        ):
            raise_interrupts()
            command.invoke(context)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return ExitCode.USAGE
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        print_error("UsageError", _usage(error), ExitCode.USAGE, as_json=as_json)
        return ExitCode.USAGE
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        return _failed(error, as_json=as_json)
    return ExitCode.DONE


def _usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    path = "voile" if context is None else context.command_path
    return f"{error.format_message()} (see: {path} --help)"


def _failed(error: Exception, *, as_json: bool) -> int:
    from voile.core.errors import VoileError

    known = isinstance(error, VoileError | OSError)
    _log.error("%s: %s", type(error).__name__, error, exc_info=None if known else error)
    if os.environ.get(_TRACEBACK):
        traceback.print_exception(error)
    code = exit_code(error)
    name, message = type(error).__name__, str(error)
    if not known:
        message = f"unexpected {name}: {' '.join(message.split())} ({_TRACEBACK}=1 shows where)"
    print_error(name, message, code, as_json=as_json)
    return code
