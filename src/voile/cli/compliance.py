"""`voile compliance`: rules in force, what they led to, and what they would have led to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import typer

from voile.app.commands import compliance as commands
from voile.cli.commands import add_command
from voile.cli.output import ExitCode, as_date, console, exit_code, print_facts, print_json

if TYPE_CHECKING:
    from voile.app.compliance.delivery import Delivered
    from voile.app.rules import RuleCheck, RulesChange, RulesShown

app = typer.Typer(
    name="compliance",
    help="Show and check rules, try others on the history, end measures, send alerts.",
    no_args_is_help=True,
)


def _show_check(found: RuleCheck, *, as_json: bool) -> None:
    if as_json:
        print_json(found.to_dict())
    else:
        out = console()
        for each in found.outcomes:
            line = f"{as_date(each['time'])}  record {each['record']}  {each['what']}"
            out.print(line, soft_wrap=True)
        for problem in found.problems:
            out.print(f"! {problem}", style="bold red", soft_wrap=True)
        if found.without_rules:
            out.print(f"{found.without_rules} charges were made past the rules, by another version")
        what = "would have led to" if found.tried else "led to"
        out.print(
            f"{found.records} records {what} {len(found.outcomes)} alerts, measures and lifts"
        )
        if not found.tried:
            out.print("NOT VERIFIED" if found.problems else "verified: the log says so, too")
    if found.problems:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def _show_rules(found: RulesShown, *, as_json: bool) -> None:
    if as_json:
        print_json({name: list(getattr(found, name)) for name in ("rules", "measures", "waiting")})
        return
    from voile.views.tables import folded_table

    out = console()
    rules = folded_table("rule", "text")
    for each in found.rules:
        rules.add_row(each["rule"], each["text"])
    out.print(rules)
    measures = folded_table("measure", "for", "by", "since", "until", "rule")
    for each in found.measures:
        since = as_date(each["since"])
        who = (each["subject"], each["caller"])
        measures.add_row(each["action"], *who, since, str(each["until"]), each["rule"])
    out.print(measures)
    for each in found.waiting:
        problem = f" ({each['problem']})" if each["problem"] else ""
        out.print(f"{each['channel']}: {each['waiting']} to be sent{problem}")


def _show_change(done: RulesChange, *, as_json: bool) -> None:
    print_facts(done.facts | {"checkpoint": str(done.kept)}, as_json=as_json)
    if done.kept.error is not None:
        raise typer.Exit(exit_code(done.kept.error))


def _show_sent(found: Sequence[Delivered], *, as_json: bool) -> None:
    if as_json:
        print_json({"channels": [vars(each) for each in found]})
    else:
        for each in found:
            problem = f" ({each.problem})" if each.problem else ""
            typer.echo(f"{each.channel}: {each.sent} sent, {each.waiting} waiting{problem}")
        if not found:
            typer.echo("No [[notify]] in voile.toml: nobody is told")
    if any(each.problem for each in found):
        raise typer.Exit(ExitCode.FAULT)


_add = partial(add_command, app)
_add("show", commands.ShowRules, _show_rules, "--workspace voile.toml")
_add("apply", commands.PutRules, _show_change, "--workspace voile.toml")
_add("check", commands.CheckRules, _show_check, "--dry-run --rules stricter.toml")
_add("lift", commands.LiftMeasure, _show_change, '9f8cc3ff clinic --reason "checked by hand"')
_add("send", commands.SendAlerts, _show_sent, "--workspace voile.toml")
