"""Sign a log's checkpoints with witnesses, and be a witness for others."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voile.cli.audit.opening import (
    as_invalid_input,
    key_in,
    known_log,
    open_database,
    policy_in,
)
from voile.cli.files import place_of, read_note, read_text
from voile.cli.options import DatabaseArgument, KeyOption, OutOption, PolicyOption
from voile.cli.output import ExitCode, JsonOption, print_facts

if TYPE_CHECKING:
    from voile.audit_log import Policy, RemoteWitness, SigningKey
    from voile.audit_log.publishing import Published

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
    from voile.audit_log import KeptCheckpoint, KeyChange, SigningKey, publish, rotate
    from voile.audit_log.notes import KeyKind
    from voile.core.atomic_file import replace_file
    from voile.workflows.checkpoints import kept_checkpoint
    from voile.workflows.output_check import check_outputs, files_of

    place = place_of(database, key, policy)
    copy = kept_checkpoint(place.signing_key)  # may be named: both only go forward
    others = [path for path in files_of(place) if path != copy]
    check_outputs([out], [*others, *([] if rotate_to is None else [rotate_to])])
    rules, signer = policy_in(place.policy), SigningKey.load(place.signing_key)
    seen = read_note(out) if out.exists() else None
    asked: dict[str, Any] = {"witnesses": _remote(witness), "seen": seen, "patience": patience}
    with open_database(database) as storage:
        log = known_log(storage, place.signing_key, rules)
        if rotate_to is None:
            published = publish(storage, log, rules, [signer], **asked)
        else:
            following = key_in(rotate_to, log.origin, KeyKind.LOG)
            rules = _with_key(rules, following)
            replace_file(place.policy, str(rules).encode())
            change = KeyChange(signer, following, reason)
            published = rotate(storage, log, rules, change, **asked)
    KeptCheckpoint(out, rules).advance(bytes(published.note))
    print_facts(_facts(published) | {"checkpoint": str(out)}, as_json=as_json)
    _leave(published)


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
    from voile.audit_log import SigningKey, publish
    from voile.audit_log.publishing import reissue
    from voile.core.atomic_file import replace_file
    from voile.workflows.output_check import check_outputs, files_of

    place = place_of(database, key, policy)
    check_outputs(receipts, files_of(place))
    rules, signer = policy_in(place.policy), SigningKey.load(place.signing_key)
    contents = {path: read_text(path) for path in receipts}
    with open_database(database) as storage:
        log = known_log(storage, place.signing_key, rules)
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
