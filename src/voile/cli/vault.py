"""`voile vault`: what a party keeps as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from voile.app.commands.vault import EraseAnswers
from voile.cli.commands import add_command
from voile.cli.output import as_date, exit_code, print_facts

if TYPE_CHECKING:
    from voile.app.erasure import ErasureResult

app = typer.Typer(
    name="vault", help="Erase stored answers that were kept long enough.", no_args_is_help=True
)


def _show(done: ErasureResult, *, as_json: bool) -> None:
    facts = {
        "before": done.before if as_json else as_date(done.before),
        "answers": done.answers,
        "populations": done.populations,
        "requests": done.repeats,
        "recipients": done.recipients,
        "keys": done.keys,
        "erased": done.kept is not None,
        "file rewritten": done.rewritten,
        "checkpoint": None if done.kept is None else str(done.kept),
    }
    if as_json:
        facts = {name.replace(" ", "_"): value for name, value in facts.items()}
    print_facts(facts, as_json=as_json)
    if done.kept is not None and done.kept.error is not None:
        raise typer.Exit(exit_code(done.kept.error))


add_command(app, "erase", EraseAnswers, _show, "--before 2026-01-01")
