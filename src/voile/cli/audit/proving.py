"""Prove what a log holds, and check proofs, offline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voile.cli.audit.anchoring import ConfirmationsOption
from voile.cli.audit.opening import as_invalid_input, log_in, open_database, policy_in
from voile.cli.files import place_of, read_note, read_text
from voile.cli.options import DatabaseArgument, KeyOption, OutOption, PolicyOption, YesOption
from voile.cli.output import (
    ExitCode,
    JsonOption,
    ask_before_overwriting,
    print_facts,
    print_json,
    print_steps,
)

if TYPE_CHECKING:
    from voile.audit_log import Anchored, Elsewhere, Policy


def prove(
    database: DatabaseArgument,
    index: Annotated[int | None, typer.Argument(help="Number of a record, for a receipt.")] = None,
    nonces: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON with the nonces of the record.")
    ] = None,
    old: Annotated[int | None, typer.Option("--from", help="Size of an earlier tree.")] = None,
    new: Annotated[int | None, typer.Option("--to", help="Size of a later tree.")] = None,
    out: OutOption = Path("receipt.tlog-proof"),
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a receipt for a record, or a proof that one tree extends another (--from, --to)."""
    from voile.app.output_check import check_outputs, files_of
    from voile.audit_log import issue_receipt
    from voile.audit_log.notes import to_base64
    from voile.core.atomic_file import replace_file
    from voile.core.errors import InvalidInput

    read = [] if nonces is None else [nonces]
    check_outputs([out], [*files_of(place_of(database)), *read])
    ask_before_overwriting([out], yes=yes)
    if (index is None) == (old is None or new is None):
        raise InvalidInput("expected the number of a record, or both --from and --to")
    with open_database(database) as storage:
        log = log_in(storage)
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
    print_facts({"written": str(out), "bytes": len(content)}, as_json=as_json)


def receipt(
    database: DatabaseArgument,
    charge: Annotated[
        str,
        typer.Argument(
            metavar="CHARGE",
            help="Name of a charge, or the number of the record of a call that cost nothing.",
        ),
    ],
    key: KeyOption = None,
    policy: PolicyOption = None,
    replay_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Key of questions; replay.key beside DATABASE if not given."
        ),
    ] = None,
    out: OutOption = Path("receipt.tlog-proof"),
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the receipt of an answer again, with what opens it, at any later time.

    A checkpoint is signed first if none covers the record yet; where the key is not here, run
    `voile audit checkpoint` where it is.
    """
    from voile.app.custody import check_named, open_custody_at, usual_place
    from voile.app.explain import ReleaseService
    from voile.app.output_check import check_outputs, files_of
    from voile.core.atomic_file import replace_file

    check_named(key, policy, replay_key)
    place = usual_place(database=database, signing_key=key, policy=policy, replay_key=replay_key)
    check_outputs([out], files_of(place))
    ask_before_overwriting([out], yes=yes)
    with open_custody_at(place, signing=None) as custody:
        service = ReleaseService(custody)
        free = charge.isdecimal()
        content = bytes(service.receipt_of_call(int(charge)) if free else service.receipt(charge))
    replace_file(out, content, mode=0o600)
    print_facts({"written": str(out), "bytes": len(content)}, as_json=as_json)


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
    rpc: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Compare with the policy's anchor, through this node of its chain."
        ),
    ] = None,
    confirmations: ConfirmationsOption = 12,
    as_json: JsonOption = False,
) -> None:
    """Check a receipt or an export, offline; exit code 4 if a step fails.

    Prints each step: checked, failed, or not checkable with what was handed in. With --rpc, the
    checkpoint on the chain is read, and --consistency leads to it unless --checkpoint is given.
    """
    from voile.audit_log import verify_export, verify_receipt, verify_row_receipt
    from voile.audit_log.row_receipt import HEADER
    from voile.core.input_file import read_file

    rules = policy_in(policy)
    elsewhere = _elsewhere(other, consistency, chain=rpc is not None)
    anchored = None
    if rpc is not None:
        anchored = _anchored(rules, rpc, confirmations, None if other else consistency)
    if proof.is_dir():
        note, records = read_note(proof / "checkpoint.txt"), _lines(proof / "records.jsonl")
        report = verify_export(records, note, rules, elsewhere=elsewhere, anchored=anchored)
    elif (content := read_text(proof)).startswith(HEADER.encode()):
        row = None if answer is None else _row(answer)
        report = verify_row_receipt(content, rules, row=row, elsewhere=elsewhere, anchored=anchored)
    else:
        report = verify_receipt(
            content,
            rules,
            query=None if query is None else read_file(query),
            answer=None if answer is None else _answer(answer),
            elsewhere=elsewhere,
            anchored=anchored,
        )
    if not report.verified and answer is not None and not proof.is_dir():
        _check_pair(proof, answer)
    if as_json:
        print_json({"verified": report.verified, **asdict(report)})
    else:
        print_steps(report)
    if not report.verified:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def _answer(path: Path) -> bytes:
    """Canonical bytes of a saved explanation; any other file is taken as canonical bytes."""
    from voile.core.errors import InvalidInput
    from voile.core.input_file import read_file

    if path.suffix.lower() in (".json", ".parquet"):
        raise InvalidInput(
            f"{path}: a copy of the numbers; a receipt commits to the explanation saved as .voile"
        )
    content = read_file(path)
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

    with as_invalid_input(str(path)):
        return parse_nonces(decode_flat(read_text(path).strip()))


def _anchored(rules: Policy, rpc: str, confirmations: int, consistency: Path | None) -> Anchored:
    from voile.app.anchoring import anchors_of
    from voile.audit_log import Anchored

    found = anchors_of(rules, rpc, confirmations).latest(rules.origin)
    return Anchored(found, b"" if consistency is None else read_text(consistency))


def _elsewhere(other: Path | None, consistency: Path | None, *, chain: bool) -> Elsewhere | None:
    from voile.audit_log import Elsewhere
    from voile.core.errors import InvalidInput

    if other is None:
        if consistency is not None and not chain:
            raise InvalidInput("--consistency needs the --checkpoint (or --rpc) it leads to")
        return None
    return Elsewhere(read_note(other), b"" if consistency is None else read_text(consistency))


def _lines(path: Path) -> Iterator[bytes]:
    from voile.audit_log import record_lines
    from voile.core.errors import UnreadableFile
    from voile.core.input_file import open_regular

    try:
        with open_regular(path) as stream:
            yield from record_lines(stream)
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read: {error.strerror}") from error
