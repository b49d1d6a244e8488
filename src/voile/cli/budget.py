"""`voile budget`: open accounts, look at them, renew them, check them against the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import typer

from voile.app.commands import budget as commands
from voile.cli.commands import add_command
from voile.cli.output import (
    as_date,
    console,
    exit_code,
    print_facts,
    print_json,
    show_verified,
)

if TYPE_CHECKING:
    from voile.app.budget_rules import Allocation, BudgetPlan
    from voile.app.budgets import AccountUse, BudgetResult, ForecastResult, HistoryResult
    from voile.records.audit_log import Report
    from voile.records.ledger import ApprovalRow, BudgetReport

_OPENED: Final = "log.db clinic --dataset clinic-v1 --epsilon 3 --delta 1e-6"
app = typer.Typer(
    name="budget",
    help="Open, show and renew privacy budgets, and verify them against the audit log.",
    no_args_is_help=True,
)


def _show_done(done: BudgetResult, *, as_json: bool) -> None:
    """What was done is done, whatever became of the checkpoint after it."""
    kept = done.kept
    more = {"checkpoint": str(kept), "missing_cosignatures": kept.missing}
    print_facts(done.facts | more, as_json=as_json)
    if kept.error is not None:
        raise typer.Exit(exit_code(kept.error))


def _show_accounts(accounts: Sequence[AccountUse], *, as_json: bool) -> None:
    if as_json:
        print_json({"accounts": [each.to_dict() for each in accounts]})
        return
    from voile.views.tables import accounts_table

    console().print(accounts_table(accounts))


def _show_report(found: BudgetReport, *, as_json: bool) -> None:
    from voile.views.text import summary, two_readings

    if as_json:
        print_json(found.to_dict())
        return
    from rich.table import Table

    table = Table("", "", title=f"Privacy budget of {found.account}", show_header=False)
    rows = [("risk", f"{found.risk.value}, {found.consumed:.1%} used"), *summary(found)]
    for row in rows:
        table.add_row(*row)
    out, both = console(), two_readings(found)
    out.print(table)
    for line in (*([both] if both else []), *found.advice, *found.assumptions):
        out.print(f"- {line}", soft_wrap=True)
    for each in found.findings or ():
        out.print(f"! {each.rule} ({', '.join(each.callers)}): {each.detail}", soft_wrap=True)


def _show_forecast(result: ForecastResult, *, as_json: bool) -> None:
    found = result.forecast
    if as_json:
        print_json(asdict(found))
        return
    if found.exhausted_at is None:
        ends = f"never at this rate: no charge in the last {result.hours:g} hours"
    else:
        ends = as_date(found.exhausted_at)
    known = found.more > 0 or found.exhausted_at is not None
    facts = {
        "account": found.account,
        "answers left": f"{found.more:,}" if known else "unknown: pass --noise to estimate it",
        "answers a day": f"{24 * found.hourly_rate:,.1f}",
        "used a day": f"{24 * found.hourly_share:.2%} of the budget",
        "used up": ends,
    }
    print_facts(facts, as_json=False)


def _show_history(found: HistoryResult, *, as_json: bool) -> None:
    if as_json:
        print_json({"acts": [asdict(act) for act in found.acts], "left_out": found.left_out})
        return
    from voile.views.tables import folded_table

    table = folded_table("when (UTC)", "what", "account", "by", "for", "share of budget")
    for act in found.acts:
        when = f"{datetime.fromtimestamp(act.time, UTC):%Y-%m-%d %H:%M}"
        share = "" if act.share is None else f"{act.share:.2%}"
        table.add_row(when, act.act, act.account, act.caller, act.purpose, share)
    out = console()
    out.print(table)
    if found.left_out:
        out.print(f"and {found.left_out} earlier (--last 0 shows all)")


def _show_approvals(rows: Sequence[ApprovalRow], *, as_json: bool) -> None:
    if as_json:
        print_json({"requests": [row._asdict() for row in rows]})
        return
    from voile.views.tables import folded_table

    table = folded_table("request", "asked by", "for", "event", "approved by", "charge")
    for row in rows:
        table.add_row(row.number, row.caller, row.purpose, row.event, row.approver, row.charge)
    console().print(table)


def _show_plan(found: BudgetPlan, *, as_json: bool) -> None:
    if as_json:
        print_json(_plan_facts(found))
        return
    from voile.views.tables import folded_table

    names = [each.policy for each in found.allocations]
    table = folded_table("question", *(f"{name}: ε, noise" for name in names))
    for number in _shown(found.questions):
        table.add_row(str(number + 1), *(_one(each, number) for each in found.allocations))
    out = console()
    out.print(table)
    noise = found.allocations[0].events[0]
    for each in found.allocations:
        used = "more than is left" if each.used is None else f"{each.used:.1%} of the account"
        count = 0 if noise is None else each.within(noise.noise_multiplier)
        of = f"{count} of {len(each.events)} answers"
        out.print(f"{each.policy}: uses {used}; {of} are at least as precise as with equal noise")
    out.print(f"ε of each answer by itself at δ = {found.delta:.3g}; nothing was spent")


def _shown(count: int) -> list[int]:
    """The first ten and the last."""
    return sorted({*range(min(count, 10)), count - 1})


def _one(each: Allocation, number: int) -> str:
    event = each.events[number]
    if event is None:
        return "nothing left"
    return f"{each.epsilons[number]:.3g}, {event.noise_multiplier:.4g}"


def _plan_facts(found: BudgetPlan) -> dict[str, object]:
    plans = {
        each.policy: {
            "epsilons": list(each.epsilons),
            "noise": [None if event is None else event.noise_multiplier for event in each.events],
            "used": each.used,
        }
        for each in found.allocations
    }
    return {"account": found.account, "delta": found.delta, "policies": plans}


def _show_verified(found: Report, *, as_json: bool) -> None:
    show_verified(found, {"steps": [asdict(step) for step in found.steps]}, as_json=as_json)


_add = partial(add_command, app)
_add("open", commands.OpenBudget, _show_done, _OPENED)
_add("show", commands.ShowBudgets, _show_accounts, "log.db")
_add("report", commands.ReportBudget, _show_report, "log.db clinic --html budget.html")
_add("history", commands.BudgetHistory, _show_history, "log.db clinic")
_add("forecast", commands.ForecastBudget, _show_forecast, "log.db clinic --noise 20")
_add("renew", commands.RenewBudget, _show_done, "log.db clinic --reason 'new cohort, approved'")
_add("policy", commands.SetBudgetPolicy, _show_done, "log.db clinic --renew monthly --reason rules")
_add("request", commands.RequestCharge, _show_done, "log.db clinic --noise 5 --purpose review")
_add("approve", commands.ApproveCharge, _show_done, "log.db clinic 7 --caller grace")
_add("approvals", commands.ListApprovals, _show_approvals, "log.db clinic")
_add("plan", commands.PlanBudget, _show_plan, "log.db clinic --questions 20")
_add("verify", commands.VerifyBudgets, _show_verified, "log.db --key audit.key")
