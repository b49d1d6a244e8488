"""`voile vault erase`: answers that were kept long enough, and what names people beside them.

What stays is what others rely on: charges and balances, because a budget that was spent stays
spent, and the log with its commitments, whose records receipts in other hands are proofs of.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from voile.app.calls import Context
from voile.app.commands.vault import EraseAnswers
from voile.app.keys import COMMAND_LINE
from voile.app.workspace.file import WorkspaceFile
from voile.core.errors import InvalidInput, StorageFault
from voile.records.access import PART, OldRequests, erase_requests, old_requests
from voile.records.audit_log import AnswersErasedRecord
from voile.records.checkpoints import Kept
from voile.records.ledger import OldAnswers, erase_answers, old_answers
from voile.records.storage import Reader, Transaction
from voile.records.storage.opening import file_of
from voile.records.vault import Vault, open_vault_at

_PATIENCE: Final = 10.0
"""Seconds to wait for others who use the file."""


@dataclass(frozen=True)
class ErasureResult:
    """What was erased, or would be.

    Args:
        before: seconds since 1970.
        populations: lists of keyed names of records, kept for the reconstruction watch.
        kept: the checkpoint after it; None where nothing was written.
        rewritten: the file was rewritten, so that nothing is left in it.
    """

    before: float
    answers: int
    populations: int
    repeats: int
    recipients: int
    keys: int
    kept: Kept | None = None
    rewritten: bool = False


def erase(command: EraseAnswers, context: Context) -> ErasureResult:
    """Find it, ask, erase it on record, and rewrite the file."""
    before = _moment(command.before)
    place = WorkspaceFile.read(command.workspace).place
    with open_vault_at(place, signing=None, extra_parts=(PART,)) as vault:
        found = vault.storage.read_snapshot(lambda t: _find(vault, t, before))
        if command.preview:
            return _result(found, before)
        if not command.sure:
            many = len(found[0].answers)
            context.ask(f"{many} answers are erased for ever and cannot be given again. Erase?")
        vault.storage.submit(lambda t: _erase(vault, t, found, before))
        kept = vault.keep()
    database = file_of(place.database)
    if database is None:
        context.say(
            "the server keeps erased rows until it reuses their space, and in its own logs and "
            "backups: VACUUM FULL frees it"
        )
    else:
        _rewrite(database)
    return _result(found, before, kept, rewritten=database is not None)


def _moment(text: str) -> float:
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"expected a date such as 2026-01-01, found {text!r:.40}") from None
    moment = given.replace(tzinfo=given.tzinfo or UTC).timestamp()
    if moment > time.time():
        raise InvalidInput(f"{text} is not over yet: name a date in the past")
    return moment


def _find(vault: Vault, t: Reader, before: float) -> tuple[OldAnswers, OldRequests]:
    answers = old_answers(t, before)

    def is_old(record: int) -> bool:
        return bool(json.loads(vault.log.record(t, record))["time"] < before)

    return answers, old_requests(t, before, answers.charges, is_old)


def _erase(
    vault: Vault, t: Transaction, found: tuple[OldAnswers, OldRequests], before: float
) -> None:
    answers, requests = found
    count = erase_answers(t, answers)
    erase_requests(t, requests)
    if count or answers.populations or any(requests):
        record = AnswersErasedRecord(
            time=int(vault.ledger.now()),
            before=before,
            answers=count,
            issuer=COMMAND_LINE,
        )
        vault.log.append(t, record)


def _rewrite(database: Path) -> None:
    """Deleted rows stay in a file, and in its write-ahead log, until something else is written
    there: so both are written anew."""
    try:
        with closing(sqlite3.connect(database, timeout=_PATIENCE, isolation_level=None)) as file:
            file.execute("VACUUM")
            ((busy, *_),) = file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise _left_behind(database, str(error)) from error
    if busy:
        raise _left_behind(database, "it is in use")


def _left_behind(database: Path, why: str) -> StorageFault:
    return StorageFault(
        f"{database}: the answers are erased, but the file could not be rewritten, so traces of "
        f"them are left in it ({why}). Run the same command again"
    )


def _result(
    found: tuple[OldAnswers, OldRequests],
    before: float,
    kept: Kept | None = None,
    *,
    rewritten: bool = False,
) -> ErasureResult:
    answers, requests = found
    return ErasureResult(
        before,
        len(answers.answers),
        len(answers.populations),
        len(requests.repeats),
        len(requests.recipients),
        len(requests.keys),
        kept,
        rewritten,
    )
