"""Sign a log's checkpoints with witnesses, and be a witness for others."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voile.cli.audit.opening import (
    as_invalid_input,
    key_in,
    known_log,
    log_in,
    open_database,
    policy_in,
)
from voile.cli.files import place_of, read_note, read_text
from voile.cli.options import DatabaseArgument, KeyOption, OutOption, PolicyOption
from voile.cli.output import ExitCode, JsonOption, as_date, print_facts

if TYPE_CHECKING:
    from voile.audit_log import Policy, RemoteWitness, SigningKey
    from voile.audit_log.publishing import Published
    from voile.core.storage import Storage

WitnessOption = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="A witness to ask instead of the policy's; repeatable."),
]


def checkpoint(
    database: DatabaseArgument,
    key: KeyOption = None,
    policy: PolicyOption = None,
    witness: WitnessOption = None,
    out: OutOption = Path("checkpoint.txt"),
    rotate_to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go over to this key (made if missing), sign with both."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why the key is rotated.")] = "rotation",
    patience: Annotated[float, typer.Option(min=0.1, help="Seconds for all witnesses.")] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Sign what the log holds, collect cosignatures as the policy asks, and publish it.

    With --rotate-to, the new key is recorded in the log and added to the policy file, and this
    checkpoint is signed with both keys; sign with the new one alone from then on.

    The log must extend the copy beside the key, and the checkpoint in --out if there is one: keep
    that file away from the database. A database that was set back is noticed here. Exit code 4 if
    cosignatures are missing: the checkpoint is signed and kept, run it again to collect them.
    """
    from voile.app.checkpoints import kept_checkpoint
    from voile.app.output_check import check_outputs, files_of
    from voile.audit_log import KeptCheckpoint, KeyChange, SigningKey, publish, rotate
    from voile.audit_log.notes import KeyKind
    from voile.core.atomic_file import replace_file

    place = place_of(database, key, policy)
    copy = kept_checkpoint(place.signing_key)  # may be named: both only go forward
    others = [path for path in files_of(place) if path != copy]
    check_outputs([out], [*others, *([] if rotate_to is None else [rotate_to])])
    rules, signer = policy_in(place.policy), SigningKey.load(place.signing_key)
    seen = read_note(out) if out.exists() else None
    asked: dict[str, Any] = {"witnesses": _remote(witness), "seen": seen, "patience": patience}
    with open_database(database) as storage:
        log = known_log(storage, place)
        if rotate_to is None:
            published = publish(storage, log, rules, [signer], **asked)
        else:
            following = key_in(rotate_to, log.origin, KeyKind.LOG)
            rules = _with_key(rules, following)
            replace_file(place.policy, str(rules).encode())
            change = KeyChange(signer, following, reason)
            published = rotate(storage, log, rules, change, **asked)
            beside = kept_checkpoint(rotate_to)  # where it is looked for from now on
            KeptCheckpoint(beside, rules).advance(bytes(published.note))
    KeptCheckpoint(out, rules).advance(bytes(published.note))
    print_facts(_facts(published) | {"checkpoint": str(out)}, as_json=as_json)
    _leave(published)


def accept_checkpoint(
    database: DatabaseArgument,
    reason: Annotated[str, typer.Option(help="Why you accept it; written into the log.")],
    key: KeyOption = None,
    policy: PolicyOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Go on with this database although its pinned checkpoint (audit.checkpoint) is lost.

    You say that the database is the current one: if it was restored from an older copy, charges
    are missing from it and the budget is spent twice. It shows how many records there are and of
    when the last one is, and asks. A pinned checkpoint that is here is never replaced.
    """
    from voile.app.custody import find_keeper
    from voile.core.errors import InvalidInput

    place = place_of(database, key, policy)
    policy_in(place.policy)
    keeper = find_keeper(place)
    assert keeper is not None  # there is a policy
    with open_database(database) as storage:
        if not yes:
            question = f"{_standing(storage)} Is this database the current one?"
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise InvalidInput(f"{question} If so, add --yes")
            typer.confirm(question, abort=True, err=True)
        accepted = keeper.accept(storage, reason)
    print_facts({"size": accepted.size, "checkpoint": str(keeper.copy)}, as_json=as_json)


def _standing(storage: Storage) -> str:
    """How far a log goes, for somebody who has to know whether that is all of it."""
    log = log_in(storage)
    size, signed = storage.submit(lambda t: (log.head(t).size, log.signed_size(t)))
    last = storage.submit(lambda t: log.records(t, first=max(0, size - 1), limit=1))
    times = "".join(f" (the last: {as_date(json.loads(record)['time'])})" for record in last)
    return f"The log holds {size} records{times}, {signed} of them are signed."


def complete(
    database: DatabaseArgument,
    receipts: Annotated[
        list[Path], typer.Argument(help="Receipts (of a record or a row) that lack cosignatures.")
    ],
    key: KeyOption = None,
    policy: PolicyOption = None,
    witness: WitnessOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the witnesses again, and write the receipts anew under the checkpoint they cosigned.

    Exit code 4 if cosignatures are still missing.
    """
    from voile.app.output_check import check_outputs, files_of
    from voile.audit_log import SigningKey, publish
    from voile.audit_log.publishing import reissue
    from voile.core.atomic_file import replace_file

    place = place_of(database, key, policy)
    check_outputs(receipts, files_of(place))
    rules, signer = policy_in(place.policy), SigningKey.load(place.signing_key)
    contents = {path: read_text(path) for path in receipts}
    with open_database(database) as storage:
        log = known_log(storage, place)
        published = publish(storage, log, rules, [signer], witnesses=_remote(witness))
        for path, content in contents.items():
            with as_invalid_input(str(path)):
                replace_file(path, reissue(storage, log, content), mode=0o600)
    print_facts(_facts(published) | {"receipts": list(map(str, receipts))}, as_json=as_json)
    _leave(published)


def witness(
    database: DatabaseArgument,
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
    from voile.audit_log import SigningKey, Witness, serve
    from voile.audit_log.notes import KeyKind
    from voile.audit_log.witness import PART
    from voile.core.storage import open_storage

    rules = [policy_in(path) for path in policy]
    signer = SigningKey.load(key) if name is None else key_in(key, name, KeyKind.WITNESS)
    logs = {item.origin: item.log_keys for item in rules}
    with open_storage(database, [PART]) as storage:
        server = serve(Witness(storage, signer, logs), host, port)
        said = {"url": server.url, "witness_key": str(signer.verifier), "logs": sorted(logs)}
        print_facts(said, as_json=as_json)
        sys.stdout.flush()
        server.serve_until_interrupted()


def _remote(urls: list[str] | None) -> list[RemoteWitness] | None:
    from voile.audit_log import RemoteWitness

    return None if not urls else [RemoteWitness(url) for url in urls]


def _facts(published: Published) -> dict[str, Any]:
    return {
        "size": published.checkpoint.size,
        "root": published.checkpoint.root.hex(),
        "witnesses": [str(answer) for answer in published.answers],
        "missing_cosignatures": published.missing,
    }


def _leave(published: Published) -> None:
    if published.missing:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def _with_key(policy: Policy, key: SigningKey) -> Policy:
    if key.verifier in policy.log_keys:
        return policy
    return replace(policy, log_keys=(*policy.log_keys, key.verifier))
