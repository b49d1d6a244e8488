"""`voile audit`: keep a tamper-evident log, prove what is in it, check proofs, anchor it."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
import typer

from voile.app.commands import audit as commands
from voile.cli.commands import AS_JSON, add_command
from voile.cli.output import ExitCode, as_date, print_facts, print_json, show_verified

if TYPE_CHECKING:
    from voile.app.audits import AuditResult, LogResult, WitnessServing
    from voile.app.calls import Context
    from voile.records.audit_log import Report

_PROVED: Final = "log.db 17 --nonces nonces.json --out 17.tlog-proof"
_ANCHORED: Final = "log.db --rpc http://127.0.0.1:8545 --keystore payer.json"
_WATCHED: Final = "w.db --name w1.example/voile --policy log.toml"
_NOT_FOR_PEOPLE: Final = frozenset({"time", "kind", "version", "event", "cost"})
app = typer.Typer(
    name="audit",
    help="Keep a tamper-evident log, prove what is in it, verify proofs, run a witness.",
    no_args_is_help=True,
)


def _show_done(done: AuditResult, *, as_json: bool) -> None:
    print_facts(done.facts, as_json=as_json)
    if done.missing:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def _show_log(shown: LogResult, *, as_json: bool) -> None:
    numbered = list(enumerate(shown.records, start=shown.first))
    if as_json:
        records = [{"index": number, **record} for number, record in numbered]
        print_json(shown.facts | {"checked": shown.checked, "records": records})
        return
    print_facts(shown.facts, as_json=False)
    for number, record in numbered:
        typer.echo(f"{number:>8}  {_in_words(record)}")


def _in_words(record: dict[str, Any]) -> str:
    """A record for people: when, what, and the facts that can be read; --json has them all."""
    said = [
        f"{name} {value}"
        for name, value in record.items()
        if name not in _NOT_FOR_PEOPLE and value is not None and not _is_digest(value)
    ]
    return "  ".join([as_date(record.get("time", 0)), str(record.get("kind")), ", ".join(said)])


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and len(value) >= 43 and " " not in value


def _show_verified(report: Report, *, as_json: bool) -> None:
    show_verified(report, asdict(report), as_json=as_json)


def _told_at_start(context: Context) -> Context:
    """Where a witness answers is needed while it runs."""
    as_json = click.get_current_context().params[AS_JSON]

    def tell(serving: WitnessServing) -> None:
        print_facts(asdict(serving), as_json=as_json)
        sys.stdout.flush()

    return replace(context, watch=tell)


def _show_ended(_serving: WitnessServing, *, as_json: bool) -> None:
    """All was told at its start."""


_add = partial(add_command, app)
_add("init", commands.StartLog, _show_done, "log.db --origin example.org/clinic")
_add("show", commands.ShowLog, _show_log, "log.db --last 5 --check")
_add("checkpoint", commands.SignCheckpoint, _show_done, "log.db --witness https://w1.example/voile")
_add("accept-checkpoint", commands.AcceptCheckpoint, _show_done, 'log.db --reason "disk replaced"')
_add("complete", commands.CompleteReceipts, _show_done, "log.db e.tlog-proof")
_add("receipt", commands.IssueReceipt, _show_done, "log.db clinic#3 --out 3.tlog-proof")
_add("prove", commands.ProveRecord, _show_done, _PROVED)
_add("verify", commands.VerifyProof, _show_verified, "17.tlog-proof --answer explanation.voile")
_add("witness", commands.ServeWitness, _show_ended, _WATCHED, bring=_told_at_start)
_add("account", commands.NewAnchorAccount, _show_done, "payer.json")
_add("anchor", commands.AnchorLog, _show_done, _ANCHORED)
_add("export", commands.ExportLog, _show_done, "log.db export && voile audit verify export")
