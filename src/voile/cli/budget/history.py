"""What happened to accounts: who was granted what, what for, and what was refused."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from voile.cli.budget.opening import open_to_read
from voile.cli.options import DatabaseArgument
from voile.cli.output import JsonOption, console, print_json


def history(
    database: DatabaseArgument,
    account: Annotated[
        str | None, typer.Argument(metavar="ACCOUNT", help="Only this one and those below.")
    ] = None,
    last: Annotated[
        int, typer.Option(min=0, help="How many of the last lines to show; 0 for all.")
    ] = 50,
    as_json: JsonOption = False,
) -> None:
    """List openings, charges, renewals and refusals, with caller and purpose, by date.

    Who was refused is not on record: refusals are in the audit log, which names nobody.
    """
    from voile.app.budget.history import budget_history
    from voile.audit_log import AuditLog
    from voile.ledger import Ledger

    with open_to_read(database) as storage:
        found = storage.read_snapshot(
            lambda t: budget_history(Ledger(), AuditLog.open(t), t, account)
        )
    shown = found[-last:] if last else found
    if as_json:
        print_json({"acts": [asdict(act) for act in shown], "left_out": len(found) - len(shown)})
        return
    from rich.table import Table

    table = Table()
    for head in ("when (UTC)", "what", "account", "by", "for", "share of budget"):
        table.add_column(head, overflow="fold")  # to the last letter, however narrow
    for act in shown:
        when = f"{datetime.fromtimestamp(act.time, UTC):%Y-%m-%d %H:%M}"
        share = "" if act.share is None else f"{act.share:.2%}"
        table.add_row(when, act.act, act.account, act.caller, act.purpose, share)
    out = console()
    out.print(table)
    if len(found) > len(shown):
        out.print(f"and {len(found) - len(shown)} earlier (--last 0 shows all)")
