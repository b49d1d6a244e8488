"""What is used of a budget, what is left, and for how long."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voile.cli.budget.opening import AccountArgument, checked_place, open_to_read
from voile.cli.options import DatabaseArgument, YesOption
from voile.cli.output import (
    JsonOption,
    as_date,
    ask_before_overwriting,
    console,
    print_facts,
    print_json,
)

if TYPE_CHECKING:
    from voile.ledger import Forecast


def report(
    database: DatabaseArgument,
    account: AccountArgument,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with the curve as well.")
    ] = None,
    custodian: Annotated[
        bool, typer.Option("--custodian", help="Add the reconstruction watch; not for analysts.")
    ] = False,
    records_per_person: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="You declare that at most K records belong to one person; as voile.toml beside "
            "DATABASE declares, if not given.",
        ),
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Say what is used, what is left, how risky that is, and what would lower the risk."""
    from voile.app.budget.page import budget_html, declaring, summary, two_readings
    from voile.app.output_check import check_outputs, files_of
    from voile.app.workspace import declared_beside
    from voile.core.atomic_file import replace_file
    from voile.ledger import Ledger, budget_report

    if html is not None:
        check_outputs([html], files_of(checked_place(database)))
        ask_before_overwriting([html], yes=yes)
    with open_to_read(database) as storage:
        found = storage.read_snapshot(
            lambda t: budget_report(Ledger(), t, account, custodian=custodian)
        )
    if records_per_person is None:
        records_per_person = declared_beside(database, found)
    if records_per_person is not None:
        found = declaring(found, records_per_person)
    if html is not None:
        replace_file(html, budget_html(found, records_per_person).encode())
    if as_json:
        print_json(found.to_dict())
        return
    rows = [("risk", f"{found.risk.value}, {found.consumed:.1%} used"), *summary(found)]
    both = two_readings(found)
    _print_table(f"Privacy budget of {account}", rows)
    out = console()
    for line in (*([both] if both else []), *found.advice, *found.assumptions):
        out.print(f"- {line}", soft_wrap=True)
    for each in found.findings or ():
        out.print(f"! {each.rule} ({', '.join(each.callers)}): {each.detail}", soft_wrap=True)


def forecast(
    database: DatabaseArgument,
    account: AccountArgument,
    noise: Annotated[
        float | None, typer.Option(help="Noise multiplier of the Gaussian answers to come.")
    ] = None,
    hours: Annotated[float, typer.Option(help="How far to look back.")] = 24.0,
    as_json: JsonOption = False,
) -> None:
    """Say how many more answers fit, and when the account is used up at the recent rate."""
    from voile.ledger import Ledger
    from voile.ledger import forecast as look_ahead
    from voile.privacy.events import Gaussian

    event = None if noise is None else Gaussian(noise)
    with open_to_read(database) as storage:
        found = storage.read_snapshot(
            lambda t: look_ahead(Ledger(), t, account, event, window=3600 * hours)
        )
    if as_json:
        print_json(asdict(found))
        return
    print_facts(_in_words(found, hours), as_json=False)


def _in_words(found: Forecast, hours: float) -> dict[str, str]:
    """For people: counts and shares of a day, and a date."""
    if found.exhausted_at is None:
        ends = f"never at this rate: nothing was charged in the last {hours:g} hours"
    else:
        ends = as_date(found.exhausted_at)
    known = found.more > 0 or found.exhausted_at is not None
    return {
        "account": found.account,
        "answers left": f"{found.more:,}" if known else "unknown: say with --noise what will come",
        "answers a day": f"{24 * found.hourly_rate:,.1f}",
        "used a day": f"{24 * found.hourly_share:.2%} of the budget",
        "used up": ends,
    }


def _print_table(title: str, rows: list[tuple[str, str]]) -> None:
    from rich.table import Table

    table = Table("", "", title=title, show_header=False)
    for row in rows:
        table.add_row(*row)
    console().print(table)
