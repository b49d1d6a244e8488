"""`voile budget`: open accounts, look at them, renew them, check them against the audit log."""

from __future__ import annotations

from collections.abc import Callable

import typer

from voile.cli.budget import accounts, checking, figures, history

app = typer.Typer(
    help="Open privacy budgets, look at them, renew them, check them against the audit log.",
    no_args_is_help=True,
)


def _add(name: str, command: Callable[..., None], example: str) -> None:
    app.command(name, epilog=f"Example: voile budget {name} {example}")(command)


_add("open", accounts.open_, "log.db clinic --dataset clinic-v1 --epsilon 3 --delta 1e-6")
_add("show", accounts.show, "log.db")
_add("report", figures.report, "log.db clinic --html budget.html")
_add("history", history.history, "log.db clinic")
_add("forecast", figures.forecast, "log.db clinic --noise 20")
_add("renew", accounts.renew, "log.db clinic --reason 'new cohort, approved'")
_add("verify", checking.verify, "log.db --key audit.key")
