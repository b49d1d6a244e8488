"""Checking the ledger against the audit log, and the log against what is kept elsewhere.

Steps; a report lists all of them, in this order:

 1. Log        the records in the database hash to the tree head in it
 2. Kept copy  the log extends every checkpoint kept outside the database that was handed in
 3. Witnesses  no witness that was asked has seen more than the log holds
 4. Journal    every balance of the ledger is what the ledger's own journal adds up to
 5. Totals     every balance is, to the last bit, what the records of the log alone add up to
 6. Charges    each act is in the journal and in the log, once, and both say the same; every account
               has the terms it was opened with
 7. Costs      each cost is that of its event in the measure of the tree
 8. Bounds     no account is above its budget
 9. Answers    every charge of a release has its stored answer, unless that was erased on record;
               every stored answer its charge; with the replay key, each answer is the one that its
               record commits to
10. Newer      how much is newer than the newest checkpoint of step 2: if the database was set back
               to a state at or after that checkpoint, nothing here can notice it

Steps 4 to 9 compare ledger and log at one moment; charges go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from voile.app.budget.comparison import Comparison, Progress
from voile.core.errors import InvalidInput, VerificationFailed
from voile.records.audit_log import (
    AuditLog,
    CheckOutcome,
    Policy,
    RemoteWitness,
    Report,
    SigningKey,
    Step,
)
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.kept import signed_checkpoint
from voile.records.audit_log.notes import BadSignature, Checkpoint, Note
from voile.records.audit_log.publishing import check_stored
from voile.records.audit_log.witness_client import AskOutcome, CosignRequest, collect
from voile.records.ledger import Ledger, ReplayKey
from voile.records.storage import Reader, Storage

_MOST_SHOWN: Final = 3
_SPOILED: Final = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What reading raises where somebody wrote into the database: any column may hold anything."""


@dataclass(frozen=True)
class Evidence:
    """What the database is compared with.

    Args:
        policy: the keys to trust; without it no checkpoint can be believed.
        checkpoints: copies kept outside the database: a name for the report, and the bytes.
        key, witnesses: to ask witnesses, the log's key signs what they are asked about.
        replay_key: opens the commitments to stored answers.
    """

    policy: Policy | None = None
    checkpoints: tuple[tuple[str, bytes], ...] = ()
    key: SigningKey | None = None
    witnesses: tuple[RemoteWitness, ...] = ()
    replay_key: ReplayKey | None = None


def verify(
    storage: Storage,
    ledger: Ledger,
    log: AuditLog,
    evidence: Evidence,
    *,
    progress: Progress | None = None,
) -> Report:
    """Recompute every account from the audit log, and compare.

    Changes nothing in the database; a witness that is asked remembers what it was shown. Evidence
    about another log is bad input (`InvalidInput`), and no sign that anybody changed this one.

    Args:
        progress: told now and then how many records were compared, and how many there are.
    """
    _check_about(log, evidence)
    newest: list[int] = []
    compared: list[Comparison] = []

    def books() -> Comparison:
        if not compared:
            raise _MissingEvidence("the books could not be compared")
        return compared[0]

    def journal() -> str:
        key = evidence.replay_key
        compared.append(storage.read_snapshot(lambda t: Comparison(t, ledger, log, key, progress)))
        return _agree(books().journal, f"{books().entries} entries")

    checks: dict[str, Callable[[], str]] = {
        "log": lambda: f"{check_stored(storage, log).size} records",
        "kept copy": lambda: _kept_copies(storage, log, evidence, newest),
        "witnesses": lambda: _witnesses(storage, log, evidence),
        "journal": journal,
        "totals": lambda: _agree(books().totals, f"{books().accounts} accounts"),
        "charges": lambda: _agree(books().charges, f"{books().acts} acts"),
        "costs": lambda: _agree(books().costs, "every cost follows from its event"),
        "bounds": lambda: _agree(books().bounds, "no account is above its budget"),
        "answers": lambda: _agree(
            books().answers,
            _answers_held(books().answered, books().erased, evidence.replay_key),
        ),
        "newer": lambda: _newer(storage, log, evidence, newest),
    }
    numbered = enumerate(checks.items(), start=1)
    return Report(tuple(_step(number, name, check) for number, (name, check) in numbered))


def _check_about(log: AuditLog, evidence: Evidence) -> None:
    """Policy, key and copies are those of this log, whatever else is right or wrong about them."""
    named = [("the policy", evidence.policy.origin)] if evidence.policy else []
    named += [("the signing key", evidence.key.name)] if evidence.key else []
    for name, content in evidence.checkpoints:
        with suppress(Malformed):  # what cannot be read fails its step
            named.append((name, Checkpoint.parse(Note.parse(content).text).origin))
    for name, origin in named:
        if origin != log.origin:
            raise InvalidInput(
                f"{name} is that of {origin!r}, the log is {log.origin!r}: name this log's own "
                "files (--policy, --key, --checkpoint); nothing was compared"
            )


class _MissingEvidence(Exception):
    """What a step needs is not there."""


def _step(number: int, name: str, check: Callable[[], str]) -> Step:
    try:
        return Step(number, name, CheckOutcome.CHECKED, check())
    except _MissingEvidence as missing:
        return Step(number, name, CheckOutcome.NOT_CHECKABLE, str(missing))
    except (VerificationFailed, InvalidInput, Malformed, BadSignature) as error:
        return Step(number, name, CheckOutcome.FAILED, str(error))
    except _SPOILED as error:
        return Step(number, name, CheckOutcome.FAILED, f"cannot be read: {error!r}")


def _agree(problems: list[str], otherwise: str) -> str:
    if problems:
        more = len(problems) - _MOST_SHOWN
        said = "; ".join(problems[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise VerificationFailed(said)
    return otherwise


def _answers_held(count: int, erased: int, key: ReplayKey | None) -> str:
    gone = f"; {erased} more were erased on record" if erased else ""
    if key is None:
        return (
            f"{count} answers; not compared with what the log commits to: no replay key was "
            f"handed in (--replay-key FILE){gone}"
        )
    return f"{count} answers, each the one on record{gone}"


# --- steps 2, 3 and 10: the log against what is elsewhere -----------------------------------------


def _kept_copies(storage: Storage, log: AuditLog, evidence: Evidence, newest: list[int]) -> str:
    if not evidence.checkpoints or evidence.policy is None:
        raise _MissingEvidence(
            "no checkpoint from outside the database was handed in: a database restored from an "
            "old backup would not show"
        )
    for name, content in evidence.checkpoints:
        newest.append(_extends(storage, log, evidence.policy, name, content))
    return f"the log extends {len(newest)} copies, the newest of {max(newest)} records"


def _extends(storage: Storage, log: AuditLog, policy: Policy, name: str, content: bytes) -> int:
    """The copy's size, if it is signed and the log begins with what it covers."""
    try:
        kept = signed_checkpoint(content, policy)
    except VerificationFailed as error:
        raise VerificationFailed(f"{name}: {error}") from None

    def compare(t: Reader) -> bool:
        size = log.head(t).size
        if kept.size > size:
            raise VerificationFailed(
                f"{name}: the checkpoint covers {kept.size} records, the database holds {size}: it "
                "was set back (restored from an old backup?); charges since then are missing, do "
                "not answer from it"
            )
        return log.extends(t, kept)

    if not storage.submit(compare):
        raise VerificationFailed(f"{name}: the database holds another history than was signed")
    return kept.size


def _witnesses(storage: Storage, log: AuditLog, evidence: Evidence) -> str:
    if not evidence.witnesses or evidence.policy is None or evidence.key is None:
        raise _MissingEvidence("no witness was asked")
    head = storage.submit(log.head)
    checkpoint = Checkpoint(log.origin, head.size, head.root)
    note = Note(checkpoint.text, (evidence.key.sign(checkpoint.text),))

    def prove(old_size: int) -> tuple[bytes, ...]:
        return storage.submit(lambda t: log.consistency_proof(t, old_size, head.size))

    rules = replace(evidence.policy, threshold=0)  # every answer counts here, not their number
    inquiry = CosignRequest(note, checkpoint, 0, prove, rules)
    _, answers = collect(inquiry, evidence.witnesses)
    said = "; ".join(map(str, answers))
    against = (AskOutcome.AHEAD, AskOutcome.CONTRADICTED, AskOutcome.REFUSED)
    if any(answer.outcome in against for answer in answers):
        raise VerificationFailed(said)
    if not all(answer.outcome is AskOutcome.COSIGNED for answer in answers):
        raise _MissingEvidence(said)
    return said


def _newer(storage: Storage, log: AuditLog, evidence: Evidence, newest: list[int]) -> str:
    if not evidence.checkpoints or evidence.policy is None:
        raise _MissingEvidence("no copy to count from; records that were lost cannot be noticed")
    if len(newest) < len(evidence.checkpoints):
        raise _MissingEvidence("not counted: the log does not extend every copy handed in (step 2)")
    size = storage.submit(log.head).size
    raise _MissingEvidence(
        f"{size - max(newest)} of {size} records are newer than the newest copy handed in; records "
        "that were lost after it cannot be noticed"
    )
