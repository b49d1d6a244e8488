"""`voile keys`: who may ask the HTTP service."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from voile.app.commands import serve as commands
from voile.cli.commands import add_command
from voile.cli.output import as_date, console, exit_code, print_facts, print_json

if TYPE_CHECKING:
    from voile.app.keys import KeyList, KeyResult

app = typer.Typer(
    name="keys", help="Issue, list and revoke keys of the HTTP service.", no_args_is_help=True
)


def _show_key(done: KeyResult, *, as_json: bool) -> None:
    from voile.app.keys import key_facts

    facts = key_facts(done.row)
    if done.text:
        facts = {"secret": done.text, **facts}
    if as_json:
        print_json({**facts, "checkpoint": str(done.kept)})
    else:
        dates = {name: as_date(facts[name]) for name in ("created", "expires")}
        ended = facts["revoked"] and as_date(facts["revoked"])
        print_facts({**facts, **dates, "revoked": ended}, as_json=False)
        if done.text:
            typer.echo("The secret is shown once and not stored. Keep it safe.", err=True)
    if done.kept is not None and done.kept.error is not None:
        raise typer.Exit(exit_code(done.kept.error))


def _show_keys(found: KeyList, *, as_json: bool) -> None:
    from voile.app.keys import all_facts

    facts = all_facts(found.rows)
    if as_json:
        print_json({"keys": facts})
        return
    from voile.views.tables import folded_table

    table = folded_table("key", "caller", "duties", "accounts", "expires", "revoked")
    for each in facts:
        ended = "" if each["revoked"] is None else as_date(each["revoked"])
        words = (" ".join(each["duties"]), " ".join(each["accounts"]))
        table.add_row(each["key"], each["caller"], *words, as_date(each["expires"]), ended)
    console().print(table)


_add = partial(add_command, app)
_add("add", commands.AddKey, _show_key, '"ward 3" --duty explain --account customers')
_add("list", commands.ListKeys, _show_keys, "--workspace voile.toml")
_add("revoke", commands.RevokeKey, _show_key, "3f9a10c2b4d5")
