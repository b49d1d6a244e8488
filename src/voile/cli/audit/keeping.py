"""Start a log, show it, export it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from voile.cli.audit.opening import as_invalid_input, found_or_new_key, log_in, open_database
from voile.cli.files import place_of
from voile.cli.options import DatabaseArgument, KeyOption, PolicyOption
from voile.cli.output import JsonOption, as_date, print_facts, print_json

_NOT_FOR_PEOPLE = frozenset({"time", "kind", "version", "event", "cost"})


def init(
    database: DatabaseArgument,
    origin: Annotated[str, typer.Option(help="The log's name, best a URL without https://.")],
    key: KeyOption = None,
    policy: PolicyOption = None,
    witness_key: Annotated[
        list[str] | None, typer.Option(metavar="VKEY", help="A witness to trust; repeatable.")
    ] = None,
    threshold: Annotated[int, typer.Option(help="How many witnesses must cosign.")] = 0,
    witness: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Where a witness answers; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a log: its key (made unless the file exists), its tables, its policy file.

    A start that was broken off is finished by the same command.
    """
    from voile.app.log_start import check_start, start_log
    from voile.audit_log import Policy
    from voile.audit_log.notes import KeyKind, VerifierKey

    place = place_of(database, key, policy)
    check_start(place)
    with as_invalid_input("witness-key"):
        witnesses = tuple(VerifierKey.parse(text) for text in witness_key or [])
    signer = found_or_new_key(place.signing_key, origin, KeyKind.LOG)
    with as_invalid_input("policy"):
        rules = Policy(origin, (signer.verifier,), witnesses, threshold, tuple(witness or ()))
    log = start_log(place, signer, rules)
    said = {"origin": origin, "log_key": str(signer.verifier), "key": str(place.signing_key)}
    print_facts(said | {"policy": str(place.policy), "log": log}, as_json=as_json)


def show(
    database: DatabaseArgument,
    last: Annotated[int, typer.Option(min=0, help="How many of the last records to show.")] = 10,
    check: Annotated[
        bool, typer.Option("--check", help="Recompute the whole tree from the records.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show size, root, latest checkpoint and last records of a log."""
    from voile.audit_log.publishing import check_stored, latest_checkpoint

    with open_database(database) as storage:
        log = log_in(storage)
        head = check_stored(storage, log) if check else storage.submit(log.head)
        first = max(0, head.size - last)
        records = storage.submit(lambda t: log.records(t, first=first, limit=last)) if last else []
        note, signed = latest_checkpoint(storage), storage.submit(log.signed_size)
    said: dict[str, Any] = {"origin": log.origin, "size": head.size, "root": head.root.hex()}
    said["unsigned"] = max(0, head.size - signed)
    said["checkpoint"] = None if note is None else note.decode()
    if as_json:
        shown = [{"index": first + n, **json.loads(r)} for n, r in enumerate(records)]
        print_json(said | {"checked": check, "records": shown})
        return
    print_facts(said, as_json=False)
    for number, record in enumerate(records, start=first):
        typer.echo(f"{number:>8}  {_in_words(json.loads(record))}")


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


def export(
    database: DatabaseArgument,
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    as_json: JsonOption = False,
) -> None:
    """Write all records that the latest checkpoint covers, and the checkpoint, for others to check.

    Records are public facts and commitments: the folder holds nothing protected.
    """
    from voile.audit_log.publishing import export_log

    with open_database(database) as storage:
        size = export_log(storage, log_in(storage), folder)
    print_facts({"folder": str(folder), "records": size}, as_json=as_json)
