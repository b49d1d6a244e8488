"""`voile audit`: keep a tamper-evident log, prove what is in it, check proofs, be a witness."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voile.cli.output import ExitCode, JsonOption, console, print_json

if TYPE_CHECKING:
    from voile.audit_log import AuditLog, Elsewhere, Policy, RemoteWitness, Report, SigningKey
    from voile.audit_log.publishing import Published
    from voile.core.storage import Storage
    from voile.workflows.custody import Place

app = typer.Typer(
    help="Keep a tamper-evident log, prove what is in it, check proofs, be a witness.",
    no_args_is_help=True,
)

DatabaseArgument = Annotated[
    str, typer.Argument(metavar="DATABASE", help="A file, or postgresql://... of a server.")
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="FILE", help="The signing key; audit.key beside DATABASE if not given."
    ),
]
PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Origin, keys and witnesses to trust; audit-policy.toml beside DATABASE if not given.",
    ),
]
OutOption = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")]


@app.command(epilog="Example: voile audit init log.db --origin example.org/clinic")
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
    from voile.audit_log import Policy
    from voile.audit_log.notes import KeyKind, VerifierKey
    from voile.workflows.log_start import check_start, start_log

    place = _place(database, key, policy)
    check_start(place)
    with _as_invalid_input("witness-key"):
        witnesses = tuple(VerifierKey.parse(text) for text in witness_key or [])
    signer = _found_or_new_key(place.signing_key, origin, KeyKind.LOG)
    with _as_invalid_input("policy"):
        rules = Policy(origin, (signer.verifier,), witnesses, threshold, tuple(witness or ()))
    log = start_log(place, signer, rules)
    said = {"origin": origin, "log_key": str(signer.verifier), "key": str(place.signing_key)}
    _say(said | {"policy": str(place.policy), "log": log}, as_json=as_json)


@app.command(epilog="Example: voile audit show log.db --last 5 --check")
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

    with _open(database) as storage:
        log = _log(storage)
        head = check_stored(storage, log) if check else storage.submit(log.head)
        first = max(0, head.size - last)
        records = storage.submit(lambda t: log.records(t, first=first, limit=last)) if last else []
        note = latest_checkpoint(storage)
    said: dict[str, Any] = {"origin": log.origin, "size": head.size, "root": head.root.hex()}
    said["checkpoint"] = None if note is None else note.decode()
    if as_json:
        shown = [{"index": first + n, **json.loads(r)} for n, r in enumerate(records)]
        print_json(said | {"checked": check, "records": shown})
        return
    _say(said, as_json=False)
    for number, record in enumerate(records, start=first):
        typer.echo(f"{number:>8}  {json.dumps(json.loads(record))}")


@app.command(epilog="Example: voile audit checkpoint log.db --witness https://w1.example/voile")
def checkpoint(
    database: DatabaseArgument,
    key: KeyOption = None,
    policy: PolicyOption = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A witness to ask instead of the policy's; repeatable."),
    ] = None,
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

    place = _place(database, key, policy)
    copy = kept_checkpoint(place.signing_key)  # may be named: both only go forward
    others = [path for path in files_of(place) if path != copy]
    check_outputs([out], [*others, *([] if rotate_to is None else [rotate_to])])
    rules, signer = _policy(place.policy), SigningKey.load(place.signing_key)
    seen = _note(out) if out.exists() else None
    asked: dict[str, Any] = {"witnesses": _remote(witness), "seen": seen, "patience": patience}
    with _open(database) as storage:
        log = _known_log(storage, place.signing_key, rules)
        if rotate_to is None:
            published = publish(storage, log, rules, [signer], **asked)
        else:
            following = _key(rotate_to, log.origin, KeyKind.LOG)
            rules = _with_key(rules, following)
            replace_file(place.policy, str(rules).encode())
            change = KeyChange(signer, following, reason)
            published = rotate(storage, log, rules, change, **asked)
    KeptCheckpoint(out, rules).advance(bytes(published.note))
    _say(_facts(published) | {"checkpoint": str(out)}, as_json=as_json)
    _leave(published)


@app.command(epilog="Example: voile audit complete log.db e.tlog-proof")
def complete(
    database: DatabaseArgument,
    receipts: Annotated[
        list[Path], typer.Argument(help="Receipts (of a record or a row) that lack cosignatures.")
    ],
    key: KeyOption = None,
    policy: PolicyOption = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A witness to ask instead of the policy's; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the witnesses again, and write the receipts anew under the checkpoint they cosigned.

    Exit code 4 if cosignatures are still missing.
    """
    from voile.audit_log import SigningKey, publish
    from voile.audit_log.publishing import reissue
    from voile.core.atomic_file import replace_file
    from voile.workflows.output_check import check_outputs, files_of

    place = _place(database, key, policy)
    check_outputs(receipts, files_of(place))
    rules, signer = _policy(place.policy), SigningKey.load(place.signing_key)
    contents = {path: _text(path) for path in receipts}
    with _open(database) as storage:
        log = _known_log(storage, place.signing_key, rules)
        published = publish(storage, log, rules, [signer], witnesses=_remote(witness))
        for path, content in contents.items():
            with _as_invalid_input(str(path)):
                replace_file(path, reissue(storage, log, content), mode=0o600)
    _say(_facts(published) | {"receipts": list(map(str, receipts))}, as_json=as_json)
    _leave(published)


@app.command(epilog="Example: voile audit prove log.db 17 --nonces nonces.json --out 17.tlog-proof")
def prove(
    database: DatabaseArgument,
    index: Annotated[int | None, typer.Argument(help="Number of a record, for a receipt.")] = None,
    nonces: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON with the nonces of the record.")
    ] = None,
    old: Annotated[int | None, typer.Option("--from", help="Size of an earlier tree.")] = None,
    new: Annotated[int | None, typer.Option("--to", help="Size of a later tree.")] = None,
    out: OutOption = Path("receipt.tlog-proof"),
    as_json: JsonOption = False,
) -> None:
    """Write a receipt for a record, or a proof that one tree extends another (--from, --to)."""
    from voile.audit_log import issue_receipt
    from voile.audit_log.notes import to_base64
    from voile.core.atomic_file import replace_file
    from voile.core.errors import InvalidInput
    from voile.workflows.output_check import check_outputs, files_of

    read = [] if nonces is None else [nonces]
    check_outputs([out], [*files_of(_place(database)), *read])
    if (index is None) == (old is None or new is None):
        raise InvalidInput("expected the number of a record, or both --from and --to")
    with _open(database) as storage:
        log = _log(storage)
        if index is not None:
            content = bytes(issue_receipt(storage, log, index, _nonces(nonces)))
        else:
            assert old is not None
            assert new is not None
            smaller, larger = sorted((old, new))
            path = storage.submit(lambda t: log.consistency_proof(t, smaller, larger))
            content = "".join(f"{to_base64(item)}\n" for item in path).encode()
    # A receipt holds nonces, a proof between two trees holds hashes.
    replace_file(out, content, mode=0o644 if index is None else 0o600)
    _say({"written": str(out), "bytes": len(content)}, as_json=as_json)


@app.command(epilog="Example: voile audit verify 17.tlog-proof --answer explanation.voile")
def verify(
    proof: Annotated[
        Path, typer.Argument(help="A receipt (of a record or a row), or the folder of an export.")
    ],
    policy: Annotated[
        Path, typer.Option(metavar="FILE", help="Origin, keys and witnesses to trust.")
    ] = Path("audit-policy.toml"),
    query: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Canonical bytes of what was asked.")
    ] = None,
    answer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The explanation, as it was saved.")
    ] = None,
    other: Annotated[
        Path | None,
        typer.Option("--checkpoint", metavar="FILE", help="A checkpoint you have from elsewhere."),
    ] = None,
    consistency: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Proof between both, from `voile audit prove --from`."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a receipt or an export, offline; exit code 4 if a step fails.

    Prints each step: checked, failed, or not checkable with what was handed in.
    """
    from voile.audit_log import verify_export, verify_receipt, verify_row_receipt
    from voile.audit_log.row_receipt import HEADER

    rules = _policy(policy)
    elsewhere = _elsewhere(other, consistency)
    if proof.is_dir():
        note, records = _note(proof / "checkpoint.txt"), _lines(proof / "records.jsonl")
        report = verify_export(records, note, rules, elsewhere=elsewhere)
    elif (content := _text(proof)).startswith(HEADER.encode()):
        row = None if answer is None else _row(answer)
        report = verify_row_receipt(content, rules, row=row, elsewhere=elsewhere)
    else:
        report = verify_receipt(
            content,
            rules,
            query=None if query is None else _read(query),
            answer=None if answer is None else _answer(answer),
            elsewhere=elsewhere,
        )
    if not report.verified and answer is not None and not proof.is_dir():
        _check_pair(proof, answer)
    if as_json:
        print_json({"verified": report.verified, **asdict(report)})
    else:
        _print_report(report)
    if not report.verified:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


@app.command(epilog="Example: voile audit witness w.db --name w1.example/voile --policy log.toml")
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

    rules = [_policy(path) for path in policy]
    signer = SigningKey.load(key) if name is None else _key(key, name, KeyKind.WITNESS)
    logs = {item.origin: item.log_keys for item in rules}
    with open_storage(database, [PART]) as storage:
        server = serve(Witness(storage, signer, logs), host, port)
        said = {"url": server.url, "witness_key": str(signer.verifier), "logs": sorted(logs)}
        _say(said, as_json=as_json, flush=True)
        server.serve_until_interrupted()


@app.command(epilog="Example: voile audit export log.db export && voile audit verify export")
def export(
    database: DatabaseArgument,
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    as_json: JsonOption = False,
) -> None:
    """Write all records that the latest checkpoint covers, and the checkpoint, for others to check.

    Records are public facts and commitments: the folder holds nothing protected.
    """
    from voile.audit_log.publishing import export_log

    with _open(database) as storage:
        size = export_log(storage, _log(storage), folder)
    _say({"folder": str(folder), "records": size}, as_json=as_json)


# --- what the commands share ---------------------------------------------------------------------


@contextmanager
def _as_invalid_input(what: str) -> Iterator[None]:
    """What the pure modules call malformed is, on a command line, bad input."""
    from voile.audit_log.canonical import Malformed
    from voile.core.errors import InvalidInput

    try:
        yield
    except Malformed as error:
        raise InvalidInput(f"{what}: {error}") from error


def _place(database: str, key: Path | None = None, policy: Path | None = None) -> Place:
    from voile.workflows.custody import usual_place

    return usual_place(database=database, signing_key=key, policy=policy)


def _open(database: str) -> Storage:
    from voile.audit_log import PART
    from voile.core.storage.opening import open_existing

    return open_existing(database, [PART])


def _log(storage: Storage) -> AuditLog:
    from voile.audit_log import AuditLog

    return storage.submit(AuditLog.open)


def _known_log(storage: Storage, key: Path, policy: Policy) -> AuditLog:
    """The log, compared with the copy of its last checkpoint beside the key."""
    from voile.audit_log import KeptCheckpoint
    from voile.workflows.checkpoints import kept_checkpoint

    log = _log(storage).known_by(KeptCheckpoint(kept_checkpoint(key), policy))
    storage.submit(log.check)
    return log


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


def _key(path: Path, name: str, kind: Any) -> SigningKey:
    """The key in this file, made if there is none; it must bear the name that is asked for."""
    key = _found_or_new_key(path, name, kind)
    if not path.exists():
        key.save(path)
    return key


def _found_or_new_key(path: Path, name: str, kind: Any) -> SigningKey:
    """The same, not saved yet."""
    from voile.audit_log import SigningKey
    from voile.core.errors import InvalidInput

    key = SigningKey.load(path) if path.exists() else SigningKey.generate(name, kind)
    if (key.name, key.kind) != (name, kind):
        raise InvalidInput(f"{path}: holds a key of {key.name!r}, expected one of {name!r}")
    return key


def _with_key(policy: Policy, key: SigningKey) -> Policy:
    if key.verifier in policy.log_keys:
        return policy
    return replace(policy, log_keys=(*policy.log_keys, key.verifier))


def _policy(path: Path) -> Policy:
    from voile.workflows.checkpoints import read_policy

    return read_policy(path)


def _read(path: Path) -> bytes:
    from voile.core.input_file import read_file

    return read_file(path)


def _note(path: Path) -> bytes:
    from voile.audit_log.notes import LARGEST_NOTE
    from voile.core.input_file import read_file

    return read_file(path, LARGEST_NOTE)


def _text(path: Path) -> bytes:
    from voile.core.input_file import LARGEST_TEXT, read_file

    return read_file(path, LARGEST_TEXT)


def _lines(path: Path) -> Iterator[bytes]:
    """One after the other: a long log does not fit into memory."""
    from voile.core.errors import UnreadableFile
    from voile.core.input_file import LARGEST_TEXT, open_regular

    try:
        with open_regular(path) as stream:
            while line := stream.readline(LARGEST_TEXT):
                yield line.removesuffix(b"\n")
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}") from error


def _answer(path: Path) -> bytes:
    """Canonical bytes of a saved explanation; any other file is taken as canonical bytes."""
    from voile.core.errors import InvalidInput

    if path.suffix.lower() in (".json", ".parquet"):
        raise InvalidInput(
            f"{path}: a copy of the numbers; a receipt commits to the explanation saved as .voile"
        )
    content = _read(path)
    if not content.startswith(b"PK"):
        return content
    from voile import Explanation
    from voile.audit_log import explanation_bytes

    return explanation_bytes(Explanation.load(path))


def _check_pair(proof: Path, answer: Path) -> None:
    """Whether somebody took the explanation of all rows for that of one: no receipt is forged."""
    from voile import Explanation
    from voile.core.errors import InvalidInput

    own = proof.with_suffix(".voile")
    if answer.suffix != ".voile" or not own.exists() or own.samefile(answer):
        return
    rows, expected = len(Explanation.load(answer)), len(Explanation.load(own))
    if rows > expected == 1:
        raise InvalidInput(
            f"{answer}: an explanation of {rows} rows, the receipt is for one: use --answer {own}"
        )


def _row(path: Path) -> bytes:
    """Canonical bytes of the one row of a saved explanation."""
    from voile import Explanation
    from voile.audit_log import explanation_rows
    from voile.core.errors import InvalidInput

    explanation = Explanation.load(path)
    if len(explanation) != 1:
        raise InvalidInput(f"{path}: expected the explanation of one row, found {len(explanation)}")
    return next(explanation_rows(explanation))


def _nonces(path: Path | None) -> dict[str, bytes]:
    if path is None:
        return {}
    from voile.audit_log.canonical import decode_flat
    from voile.audit_log.receipt import parse_nonces

    with _as_invalid_input(str(path)):
        return parse_nonces(decode_flat(_text(path).strip()))


def _elsewhere(other: Path | None, consistency: Path | None) -> Elsewhere | None:
    from voile.audit_log import Elsewhere
    from voile.core.errors import InvalidInput

    if other is None:
        if consistency is not None:
            raise InvalidInput("--consistency needs the --checkpoint it leads to")
        return None
    return Elsewhere(_note(other), b"" if consistency is None else _text(consistency))


def _say(said: dict[str, Any], *, as_json: bool, flush: bool = False) -> None:
    if as_json:
        print_json(said)
    else:
        for name, value in said.items():
            shown = "\n".join(value) if isinstance(value, list) else value
            typer.echo(f"{name + ':':<13} {'none' if shown in (None, '') else shown}")
    if flush:
        sys.stdout.flush()


def _print_report(report: Report) -> None:
    out = console()
    styles = {"checked": "green", "failed": "bold red", "not checkable": "yellow"}
    for step in report.steps:
        line = f"{step.number:>2}  {step.outcome:<13}  {step.name:<13}  {step.detail}"
        out.print(line, style=styles[step.outcome], soft_wrap=True)
    counts = Counter(str(step.outcome) for step in report.steps)
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    out.print(f"{'verified' if report.verified else 'NOT VERIFIED'}: {said}")
