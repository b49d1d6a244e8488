"""`voile audit`: keep a tamper-evident log, prove what is in it, check proofs, anchor it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from voile.app.commands.audit import (
    AcceptCheckpoint,
    AnchorLog,
    CompleteReceipts,
    ExportLog,
    IssueReceipt,
    NewAnchorAccount,
    ProveRecord,
    ShowLog,
    SignCheckpoint,
    StartLog,
    VerifyProof,
)
from voile.cli.commands import add_command
from voile.cli.output import (
    ExitCode,
    JsonOption,
    as_date,
    print_facts,
    print_json,
    print_steps,
)

if TYPE_CHECKING:
    from voile.app.audits import AuditDone, LogShown
    from voile.audit_log import Report

_WITNESS_EPILOG: Final = (
    "Example: voile audit witness w.db --name w1.example/voile --policy log.toml"
)
_NOT_FOR_PEOPLE: Final = frozenset({"time", "kind", "version", "event", "cost"})
app = typer.Typer(
    name="audit",
    help="Keep a tamper-evident log, prove what is in it, check proofs, be a witness.",
    no_args_is_help=True,
)


def _show_done(done: AuditDone, *, as_json: bool) -> None:
    print_facts(done.facts, as_json=as_json)
    if done.missing:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def _show_log(shown: LogShown, *, as_json: bool) -> None:
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
    if as_json:
        print_json({"verified": report.verified, **asdict(report)})
    else:
        print_steps(report)
    if not report.verified:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def witness(
    database: Annotated[
        str, typer.Argument(metavar="DATABASE", help="A file, or postgresql://... of a server.")
    ],
    policy: Annotated[
        list[Path],
        typer.Option(metavar="FILE", help="Policy of a log to watch (its keys); repeatable."),
    ],
    key: Annotated[Path, typer.Option(metavar="FILE", help="The signing key.")] = Path(
        "witness.key"
    ),
    name: Annotated[str | None, typer.Option(help="Make a key with this name.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
    as_json: JsonOption = False,
) -> None:
    """Cosign checkpoints of other people's logs, as long as they only grow (C2SP tlog-witness)."""
    from voile.app.audits import key_in
    from voile.app.checkpoints import read_policy
    from voile.audit_log import SigningKey, Witness, serve
    from voile.audit_log.notes import KeyKind
    from voile.audit_log.witness import PART
    from voile.core.storage import open_storage

    rules = [read_policy(path) for path in policy]
    signer = SigningKey.load(key) if name is None else key_in(key, name, KeyKind.WITNESS)
    logs = {item.origin: item.log_keys for item in rules}
    with open_storage(database, [PART]) as storage:
        server = serve(Witness(storage, signer, logs), host, port)
        said = {"url": server.url, "witness_key": str(signer.verifier), "logs": sorted(logs)}
        print_facts(said, as_json=as_json)
        sys.stdout.flush()
        server.serve_until_interrupted()


_add = partial(add_command, app)
_add("init", StartLog, _show_done, "log.db --origin example.org/clinic")
_add("show", ShowLog, _show_log, "log.db --last 5 --check")
_add("checkpoint", SignCheckpoint, _show_done, "log.db --witness https://w1.example/voile")
_add("accept-checkpoint", AcceptCheckpoint, _show_done, 'log.db --reason "disk replaced"')
_add("complete", CompleteReceipts, _show_done, "log.db e.tlog-proof")
_add("receipt", IssueReceipt, _show_done, "log.db clinic#3 --out 3.tlog-proof")
_add("prove", ProveRecord, _show_done, "log.db 17 --nonces nonces.json --out 17.tlog-proof")
_add("verify", VerifyProof, _show_verified, "17.tlog-proof --answer explanation.voile")
app.command(epilog=_WITNESS_EPILOG)(witness)
_add("account", NewAnchorAccount, _show_done, "payer.json")
_add("anchor", AnchorLog, _show_done, "log.db --rpc http://127.0.0.1:8545 --keystore payer.json")
_add("export", ExportLog, _show_done, "log.db export && voile audit verify export")
