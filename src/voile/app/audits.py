"""The audit log, from the command to the result: started, signed, exported, proved and checked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from voile.app.calls import Context
from voile.app.commands.audit import (
    AcceptCheckpoint,
    AnchorLog,
    CompleteReceipts,
    ExportLog,
    IssueReceipt,
    NewAnchorAccount,
    ProveRecord,
    ServeWitness,
    ShowLog,
    SignCheckpoint,
    StartLog,
    VerifyProof,
)
from voile.app.explain import ReleaseService
from voile.app.explain.table import row_of_table
from voile.app.explain.table_parts import answer_in_folder
from voile.app.log_start import check_start, start_log
from voile.app.output_check import check_outputs, files_of
from voile.app.server_door import WITNESS, ServerAddress, load_server
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.explanation import Explanation, is_saved
from voile.core.input_file import LARGEST_TEXT, open_regular, read_file
from voile.records.audit_log import (
    PART,
    AnchorEvidence,
    AuditLog,
    DeliveryTerms,
    KeyChange,
    OtherCheckpoint,
    PinnedCheckpoint,
    Policy,
    RemoteWitness,
    Report,
    SigningKey,
    Witness,
    explanation_bytes,
    explanation_rows,
    issue_receipt,
    publish,
    record_lines,
    rotate,
    verify_export,
    verify_receipt,
    verify_row_receipt,
)
from voile.records.audit_log.anchor import (
    anchor_log,
    anchors_of,
    deploy_anchor,
    new_keystore,
    open_account,
)
from voile.records.audit_log.canonical import Malformed, decode_flat
from voile.records.audit_log.delivery import GWEI
from voile.records.audit_log.notes import LARGEST_NOTE, KeyKind, VerifierKey, to_base64
from voile.records.audit_log.publishing import (
    PublishedCheckpoints,
    check_stored,
    export_log,
    latest_checkpoint,
    reissue,
)
from voile.records.audit_log.receipt import parse_nonces
from voile.records.audit_log.row_receipt import HEADER
from voile.records.audit_log.witness import PART as WITNESS_PART
from voile.records.checkpoints import kept_checkpoint, read_policy
from voile.records.storage import Storage, open_storage
from voile.records.storage.opening import open_existing
from voile.records.vault import (
    Place,
    check_named,
    find_keeper,
    open_known_log,
    open_vault_at,
    usual_place,
)

_PRIVATE = 0o600


@dataclass(frozen=True)
class AuditResult:
    """What was done, by name; plain values.

    Args:
        missing: cosignatures that the policy asks for and nobody gave.
    """

    facts: dict[str, Any]
    missing: int = 0


@dataclass(frozen=True)
class LogResult:
    """How far a log goes, and its last records.

    Args:
        first: number of the first of `records`.
        checked: whether the whole tree was computed again.
    """

    facts: dict[str, Any]
    records: tuple[dict[str, Any], ...]
    first: int
    checked: bool


@dataclass(frozen=True)
class WitnessServing:
    """Where a witness answers, its public key, and the logs it watches."""

    url: str
    witness_key: str
    logs: list[str]


# --- keeping --------------------------------------------------------------------------------------


def start(command: StartLog, _context: Context) -> AuditResult:
    """Key, tables and policy of a new log."""
    place, origin = _place(command), command.origin
    check_start(place)
    with as_invalid_input("witness-key"):
        keys = tuple(VerifierKey.parse(text) for text in command.witness_keys)
    signer = found_or_new_key(place.signing_key, origin, KeyKind.LOG)
    with as_invalid_input("policy"):
        rules = Policy(origin, (signer.verifier,), keys, command.threshold, command.witnesses)
    log = start_log(place, signer, rules)
    facts = {"origin": origin, "log_key": str(signer.verifier), "key": str(place.signing_key)}
    return AuditResult({**facts, "policy": str(place.policy), "log": log})


def show(command: ShowLog, _context: Context) -> LogResult:
    """Size, root, checkpoint and the last records."""
    last = command.last
    with _log_database(command.database) as storage:
        log = storage.submit(AuditLog.open)
        head = check_stored(storage, log) if command.check else storage.submit(log.head)
        first = max(0, head.size - last)
        records = storage.submit(lambda t: log.records(t, first=first, limit=last)) if last else []
        note, signed = latest_checkpoint(storage), storage.submit(log.signed_size)
    facts: dict[str, Any] = {"origin": log.origin, "size": head.size, "root": head.root.hex()}
    facts["unsigned"] = max(0, head.size - signed)
    facts["checkpoint"] = None if note is None else note.decode()
    return LogResult(facts, tuple(map(json.loads, records)), first, command.check)


def export(command: ExportLog, _context: Context) -> AuditResult:
    """All records that the latest checkpoint covers."""
    with _log_database(command.database) as storage:
        size = export_log(storage, storage.submit(AuditLog.open), command.folder)
    return AuditResult({"folder": str(command.folder), "records": size})


# --- signing --------------------------------------------------------------------------------------


def sign(command: SignCheckpoint, _context: Context) -> AuditResult:
    """Sign, collect cosignatures, publish; with another key from now on, if that is asked for."""
    place, out, rotate_to = _place(command), command.out, command.rotate_to
    copy = kept_checkpoint(place.signing_key)  # may be named: both only go forward
    others = [path for path in files_of(place) if path != copy]
    check_outputs([out], [*others, *([] if rotate_to is None else [rotate_to])])
    rules, signer = read_policy(place.policy), SigningKey.load(place.signing_key)
    asked: dict[str, Any] = {
        "witnesses": _remote(command.witnesses),
        "seen": read_file(out, LARGEST_NOTE) if out.exists() else None,
        "patience": command.patience,
    }
    with _log_database(command.database) as storage:
        log = _known_log(storage, place)
        if rotate_to is None:
            published = publish(storage, log, rules, [signer], **asked)
        else:
            following = key_in(rotate_to, log.origin, KeyKind.LOG)
            if following.verifier not in rules.log_keys:
                rules = replace(rules, log_keys=(*rules.log_keys, following.verifier))
            replace_file(place.policy, str(rules).encode())
            change = KeyChange(signer, following, command.reason)
            published = rotate(storage, log, rules, change, **asked)
            beside = kept_checkpoint(rotate_to)  # where it is looked for from now on
            PinnedCheckpoint(beside, rules).advance(bytes(published.note))
    PinnedCheckpoint(out, rules).advance(bytes(published.note))
    return AuditResult(_published(published) | {"checkpoint": str(out)}, published.missing)


def accept(command: AcceptCheckpoint, context: Context) -> AuditResult:
    """Pin the log as it is, once somebody has said that it is the current one."""
    place = _place(command)
    read_policy(place.policy)
    keeper = find_keeper(place)
    assert keeper is not None  # there is a policy
    with _log_database(command.database) as storage:
        if not command.sure:
            context.ask(f"{_standing(storage)} Is this database the current one?")
        accepted = keeper.accept(storage, command.reason)
    return AuditResult({"size": accepted.size, "checkpoint": str(keeper.copy)})


def complete(command: CompleteReceipts, _context: Context) -> AuditResult:
    """Receipts under a checkpoint with more cosignatures."""
    place, receipts = _place(command), command.receipts
    check_outputs(receipts, files_of(place))
    rules, signer = read_policy(place.policy), SigningKey.load(place.signing_key)
    contents = {path: read_file(path, LARGEST_TEXT) for path in receipts}
    with _log_database(command.database) as storage:
        log = _known_log(storage, place)
        witnesses = _remote(command.witnesses)
        published = publish(storage, log, rules, [signer], witnesses=witnesses)
        for path, content in contents.items():
            with as_invalid_input(str(path)):
                replace_file(path, reissue(storage, log, content), mode=_PRIVATE)
    facts = _published(published) | {"receipts": list(map(str, receipts))}
    return AuditResult(facts, published.missing)


# --- on a chain -----------------------------------------------------------------------------------


def new_anchor_account(command: NewAnchorAccount, context: Context) -> AuditResult:
    """A key of its own, encrypted."""
    keystore = command.keystore
    if os.path.lexists(keystore):
        raise InvalidInput(f"{keystore}: exists already; choose another name")
    address, content = new_keystore(context.passphrase(True))
    replace_file(keystore, content, mode=_PRIVATE)
    return AuditResult({"address": address, "keystore": str(keystore)})


def anchor(command: AnchorLog, context: Context) -> AuditResult:
    """The latest checkpoint, on the chain that the policy names."""
    place, rpc, fee = _place(command), command.rpc, command.max_fee
    rules = read_policy(place.policy)
    terms = DeliveryTerms(
        command.confirmations,
        command.patience,
        most_per_gas=None if fee is None else int(fee * GWEI),
        replace=command.replace,
    )
    payer = open_account(command.keystore, context.passphrase(False))
    facts: dict[str, Any] = {}
    with _log_database(command.database) as storage:
        log = _known_log(storage, place)
        if command.deploy is not None:
            rules, mined = deploy_anchor(rpc, command.deploy, place.policy, rules, payer, terms)
            facts["deployment_gas"] = mined.gas
        anchors = anchors_of(rules, rpc, command.confirmations)
        found = anchor_log(storage, log, rules, anchors, payer, terms)
    facts |= {"anchor": str(found.address), "size": found.checkpoint.size}
    facts |= {"root": found.checkpoint.root.hex()}
    sent = found.mined
    return AuditResult(
        {**facts, "transaction": sent and sent.transaction, "gas": sent and sent.gas}
    )


# --- proving --------------------------------------------------------------------------------------


def issue(command: IssueReceipt, context: Context) -> AuditResult:
    """The receipt of an answer, once more."""
    check_named(command.signing_key, command.policy, command.replay_key)
    place, charge, out = _place(command), command.charge, command.out
    if command.replay_key is not None:
        place = replace(place, replay_key=command.replay_key)
    free, table, row = charge.isdecimal(), command.table, command.row
    if (table is None) != (row is None) or (table is not None and not free):
        raise InvalidInput("one row takes the number of a record, --table and --row")
    outputs = [out] if row is None else [out, out.with_suffix(".voile")]
    check_outputs(outputs, files_of(place))
    context.check_overwriting(outputs, allowed=command.overwrite)
    with open_vault_at(place, signing=None) as vault:
        service = ReleaseService(vault)
        if table is not None and row is not None:
            explanation, content = row_of_table(service, table, int(charge), row)
            explanation.save(outputs[1])
        else:
            content = bytes(
                service.receipt_of_call(int(charge)) if free else service.receipt(charge)
            )
    return _written(out, content, mode=_PRIVATE)


def prove(command: ProveRecord, context: Context) -> AuditResult:
    """A receipt for a record, or a proof between two trees."""
    index, out, sizes = command.index, command.out, (command.smaller, command.larger)
    read = [] if command.nonces is None else [command.nonces]
    check_outputs([out], [*files_of(usual_place(database=command.database)), *read])
    context.check_overwriting([out], allowed=command.overwrite)
    if (index is None) == (None in sizes):
        raise InvalidInput("expected a record number, or both --from and --to")
    with _log_database(command.database) as storage:
        log = storage.submit(AuditLog.open)
        if index is not None:
            content = bytes(issue_receipt(storage, log, index, _nonces(command.nonces)))
        else:
            smaller, larger = sorted(size for size in sizes if size is not None)
            path = storage.submit(lambda t: log.consistency_proof(t, smaller, larger))
            content = "".join(f"{to_base64(item)}\n" for item in path).encode()
    # A receipt holds nonces, a proof between two trees holds hashes.
    return _written(out, content, mode=0o644 if index is None else _PRIVATE)


def verify(command: VerifyProof, _context: Context) -> Report:
    """Each step: checked, failed, or not checkable with what was handed in."""
    rules, proof, answer = read_policy(command.policy), command.proof, command.answer
    elsewhere, anchored = _elsewhere(command), _anchored(command, rules)
    if proof.is_dir():
        note = read_file(proof / "checkpoint.txt", LARGEST_NOTE)
        records = _lines(proof / "records.jsonl")
        return verify_export(records, note, rules, elsewhere=elsewhere, anchored=anchored)
    content = read_file(proof, LARGEST_TEXT)
    if content.startswith(HEADER.encode()):
        row = None if answer is None else _row(answer)
        report = verify_row_receipt(content, rules, row=row, elsewhere=elsewhere, anchored=anchored)
    else:
        report = verify_receipt(
            content,
            rules,
            query=None if command.query is None else read_file(command.query),
            answer=None if answer is None else _answer(answer),
            elsewhere=elsewhere,
            anchored=anchored,
        )
    if not report.verified and answer is not None:
        _check_pair(proof, answer)
    return report


# --- what they share ------------------------------------------------------------------------------


def serve_witness(command: ServeWitness, context: Context) -> WitnessServing:
    """Answer until `context.stop` is set or a signal comes; `context.watch` is told where."""
    run = load_server(WITNESS)
    rules = [read_policy(path) for path in command.policies]
    signer = (
        key_in(command.key, command.name, KeyKind.WITNESS)
        if command.name is not None
        else SigningKey.load(command.key)
    )
    logs = {each.origin: each.log_keys for each in rules}

    def serving(url: str) -> WitnessServing:
        return WitnessServing(url, str(signer.verifier), sorted(logs))

    def started(url: str) -> None:
        context.watch(serving(url))

    with open_storage(command.database, [WITNESS_PART]) as storage:
        address = ServerAddress(command.host, command.port)
        url = run(Witness(storage, signer, logs), address, started, context.stop)
    return serving(url)


def key_in(path: Path, name: str, kind: KeyKind) -> SigningKey:
    """The key in this file, made if there is none; it must bear the name that is asked for."""
    key = found_or_new_key(path, name, kind)
    if not path.exists():
        key.save(path)
    return key


def found_or_new_key(path: Path, name: str, kind: KeyKind) -> SigningKey:
    """The same, not saved yet."""
    key = SigningKey.load(path) if path.exists() else SigningKey.generate(name, kind)
    if (key.name, key.kind) != (name, kind):
        raise InvalidInput(f"{path}: holds a key of {key.name!r}, expected one of {name!r}")
    return key


@contextmanager
def as_invalid_input(what: str) -> Iterator[None]:
    """What the pure modules call malformed is bad input here."""
    try:
        yield
    except Malformed as error:
        raise InvalidInput(f"{what}: {error}") from error


def _place(command: Any) -> Place:
    return usual_place(
        database=command.database, signing_key=command.signing_key, policy=command.policy
    )


def _log_database(database: str) -> Storage:
    return open_existing(database, [PART])


def _known_log(storage: Storage, place: Place) -> AuditLog:
    """The log, compared with the copies of its last checkpoint that are here."""
    keeper = find_keeper(place)
    return storage.submit(lambda t: open_known_log(t, place, keeper))


def _standing(storage: Storage) -> str:
    """How far a log goes, for somebody who has to know whether that is all of it."""
    log = storage.submit(AuditLog.open)
    size, signed = storage.submit(lambda t: (log.head(t).size, log.signed_size(t)))
    last = storage.submit(lambda t: log.records(t, first=max(0, size - 1), limit=1))
    dates = (datetime.fromtimestamp(json.loads(record)["time"], UTC) for record in last)
    times = "".join(f" (the last: {date:%Y-%m-%d %H:%M} UTC)" for date in dates)
    return f"The log holds {size} records{times}, {signed} of them are signed."


def _remote(urls: Sequence[str]) -> list[RemoteWitness] | None:
    return [RemoteWitness(url) for url in urls] or None


def _published(published: PublishedCheckpoints) -> dict[str, Any]:
    return {
        "size": published.checkpoint.size,
        "root": published.checkpoint.root.hex(),
        "witnesses": [str(answer) for answer in published.answers],
        "missing_cosignatures": published.missing,
    }


def _written(out: Path, content: bytes, *, mode: int) -> AuditResult:
    replace_file(out, content, mode=mode)
    return AuditResult({"written": str(out), "bytes": len(content)})


def _answer(path: Path) -> bytes:
    """Canonical bytes of a saved explanation, or of the folder of a large table; any other file is
    taken as canonical bytes."""
    if path.is_dir():
        return answer_in_folder(path)
    if path.suffix.lower() in (".json", ".parquet"):
        raise InvalidInput(
            f"{path}: a receipt belongs to the explanation saved as .voile, not to this copy; "
            "pass the .voile file"
        )
    content = read_file(path)
    return explanation_bytes(Explanation.load(path)) if is_saved(content) else content


def _check_pair(proof: Path, answer: Path) -> None:
    """Whether somebody took the explanation of all rows for that of one: no receipt is forged."""
    own = proof.with_suffix(".voile")
    if answer.suffix != ".voile" or not own.exists() or own.samefile(answer):
        return
    rows, expected = len(Explanation.load(answer)), len(Explanation.load(own))
    if rows > expected == 1:
        raise InvalidInput(
            f"{answer}: holds {rows} rows, but the receipt is for one row: use --answer {own}"
        )


def _row(path: Path) -> bytes:
    """Canonical bytes of the one row of a saved explanation."""
    explanation = Explanation.load(path)
    if len(explanation) != 1:
        raise InvalidInput(f"{path}: expected the explanation of one row, found {len(explanation)}")
    return next(explanation_rows(explanation))


def _nonces(path: Path | None) -> dict[str, bytes]:
    if path is None:
        return {}
    with as_invalid_input(str(path)):
        return parse_nonces(decode_flat(read_file(path, LARGEST_TEXT).strip()))


def _anchored(command: VerifyProof, rules: Policy) -> AnchorEvidence | None:
    if command.rpc is None:
        return None
    path = None if command.checkpoint else command.consistency
    found = anchors_of(rules, command.rpc, command.confirmations).latest(rules.origin)
    return AnchorEvidence(found, b"" if path is None else read_file(path, LARGEST_TEXT))


def _elsewhere(command: VerifyProof) -> OtherCheckpoint | None:
    path = command.consistency
    if command.checkpoint is None:
        if path is not None and command.rpc is None:
            raise InvalidInput("--consistency also needs --checkpoint or --rpc")
        return None
    proof = b"" if path is None else read_file(path, LARGEST_TEXT)
    return OtherCheckpoint(read_file(command.checkpoint, LARGEST_NOTE), proof)


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_regular(path) as stream:
            yield from record_lines(stream)
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}") from error
