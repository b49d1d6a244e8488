"""Checking the ledger against the audit log, and the log against what is kept elsewhere.

Steps; a report lists all of them, in this order:

 1. Log        the records in the database hash to the tree head in it
 2. Kept copy  the log extends every checkpoint kept outside the database that was handed in
 3. Witnesses  no witness that was asked has seen more than the log holds
 4. Journal    every balance of the ledger is what the ledger's own journal adds up to
 5. Totals     every balance is, to the last bit, what the records of the log alone add up to
 6. Charges    each act is in the journal and in the log, once, and both say the same
 7. Costs      each cost is that of its event in the measure of the tree
 8. Bounds     no account is above its budget
 9. Newer      how much is newer than the newest checkpoint of step 2: if the database was set back
               to a state at or after that checkpoint, nothing here can notice it

Steps 4 to 8 compare ledger and log at one moment; charges go on meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from voile.audit_log import (
    AuditLog,
    BudgetOpened,
    BudgetRenewed,
    Outcome,
    Participation,
    Policy,
    Release,
    RemoteWitness,
    Report,
    SigningKey,
    Step,
    decode_record,
)
from voile.audit_log.canonical import Malformed
from voile.audit_log.merkle import is_consistent
from voile.audit_log.notes import BadSignature, Checkpoint, Note
from voile.audit_log.publishing import check_stored
from voile.audit_log.witness_client import Answered, Inquiry, collect
from voile.core.errors import InvalidInput, VerificationFailed
from voile.core.storage import Reader, Storage
from voile.ledger import Account, Ledger, Measure, Node, check_journal
from voile.ledger.event_text import event_for_log, event_from
from voile.ledger.measures import Sums, fits, read, unpacked, written
from voile.ledger.recomputing import Movement, Recomputation, differences
from voile.ledger.tables import ENTRIES, Act, Entry

NAMES: Final = (
    "log",
    "kept copy",
    "witnesses",
    "journal",
    "totals",
    "charges",
    "costs",
    "bounds",
    "newer",
)
_Act: TypeAlias = BudgetOpened | BudgetRenewed | Release | Participation
_PAGE: Final = 1000
_MOST_SHOWN: Final = 3


@dataclass(frozen=True)
class Evidence:
    """What the database is compared with.

    Args:
        policy: the keys to trust; without it no checkpoint can be believed.
        checkpoints: copies kept outside the database: a name for the report, and the bytes.
        key, witnesses: to ask witnesses, the log's key signs what they are asked about.
    """

    policy: Policy | None = None
    checkpoints: tuple[tuple[str, bytes], ...] = ()
    key: SigningKey | None = None
    witnesses: tuple[RemoteWitness, ...] = ()


def verify(storage: Storage, ledger: Ledger, log: AuditLog, evidence: Evidence) -> Report:
    """Recompute every account from the audit log, and compare.

    Changes nothing in the database; a witness that is asked remembers what it was shown.
    """
    books = storage.look(lambda t: _Books.read(t, ledger, log))
    newest: list[int] = []
    checks: tuple[Callable[[], str], ...] = (
        lambda: f"{check_stored(storage, log).size} records",
        lambda: _kept_copies(storage, log, evidence, newest),
        lambda: _witnesses(storage, log, evidence),
        lambda: _agree(books.journal, f"{len(books.entries)} entries"),
        lambda: _agree(books.totals, f"{len(books.nodes)} accounts"),
        lambda: _agree(books.disagreements(), f"{len(books.movements)} acts"),
        lambda: _agree(books.wrong_costs(), "every cost follows from its event"),
        lambda: _agree(books.overspent(), "no account is above its budget"),
        lambda: _newer(storage, log, newest),
    )
    numbered = enumerate(zip(NAMES, checks, strict=True), start=1)
    return Report(tuple(_step(number, name, check) for number, (name, check) in numbered))


class _NotCheckable(Exception):
    """What a step needs is not there."""


def _step(number: int, name: str, check: Callable[[], str]) -> Step:
    try:
        return Step(number, name, Outcome.CHECKED, check())
    except _NotCheckable as missing:
        return Step(number, name, Outcome.NOT_CHECKABLE, str(missing))
    except (VerificationFailed, InvalidInput, Malformed, BadSignature) as error:
        return Step(number, name, Outcome.FAILED, str(error))


def _agree(problems: list[str], otherwise: str) -> str:
    if problems:
        more = len(problems) - _MOST_SHOWN
        said = "; ".join(problems[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise VerificationFailed(said)
    return otherwise


# --- steps 2, 3 and 9: the log against what is elsewhere ------------------------------------------


def _kept_copies(storage: Storage, log: AuditLog, evidence: Evidence, newest: list[int]) -> str:
    if not evidence.checkpoints or evidence.policy is None:
        raise _NotCheckable(
            "no checkpoint from outside the database was handed in: a database restored from an "
            "old backup would not show"
        )
    for name, content in evidence.checkpoints:
        newest.append(_extends(storage, log, evidence.policy, name, content))
    return f"the log extends {len(newest)} copies, the newest of {max(newest)} records"


def _extends(storage: Storage, log: AuditLog, policy: Policy, name: str, content: bytes) -> int:
    """The copy's size, if it is signed and the log begins with what it covers."""
    note = Note.parse(content)
    kept = Checkpoint.parse(note.text)
    if kept.origin != log.origin or not note.signers(policy.log_keys):
        raise VerificationFailed(f"{name}: not signed with a key of this log")

    def compare(t: Reader) -> bool:
        head = log.head(t)
        if kept.size > head.size:
            raise VerificationFailed(
                f"{name}: the checkpoint covers {kept.size} records, the database holds "
                f"{head.size}: it was set back (restored from an old backup?); charges since then "
                "are missing, do not answer from it"
            )
        proof = log.consistency_proof(t, kept.size, head.size) if kept.size < head.size else ()
        return is_consistent(kept.size, head.size, proof, kept.root, head.root)

    if not storage.submit(compare):
        raise VerificationFailed(f"{name}: the database holds another history than was signed")
    return kept.size


def _witnesses(storage: Storage, log: AuditLog, evidence: Evidence) -> str:
    if not evidence.witnesses or evidence.policy is None or evidence.key is None:
        raise _NotCheckable("no witness was asked")
    head = storage.submit(log.head)
    checkpoint = Checkpoint(log.origin, head.size, head.root)
    note = Note(checkpoint.text, (evidence.key.sign(checkpoint.text),))

    def prove(old_size: int) -> tuple[bytes, ...]:
        return storage.submit(lambda t: log.consistency_proof(t, old_size, head.size))

    rules = replace(evidence.policy, threshold=0)  # every answer counts here, not their number
    inquiry = Inquiry(note, checkpoint, 0, prove, rules)
    _, answers = collect(inquiry, evidence.witnesses)
    said = "; ".join(map(str, answers))
    if any(answer.outcome in (Answered.AHEAD, Answered.REFUSED) for answer in answers):
        raise VerificationFailed(said)
    if not all(answer.outcome is Answered.COSIGNED for answer in answers):
        raise _NotCheckable(said)
    return said


def _newer(storage: Storage, log: AuditLog, newest: list[int]) -> str:
    size = storage.submit(log.head).size
    covered = max(newest, default=0)
    raise _NotCheckable(
        f"{size - covered} of {size} records are newer than the newest copy handed in; records "
        "that were lost after it cannot be noticed"
    )


# --- steps 4 to 8: the ledger against the log -----------------------------------------------------


@dataclass(frozen=True)
class _Books:
    """Everything that ledger and log say, read at one moment."""

    nodes: tuple[Node, ...]
    entries: dict[str, Entry]
    journal: list[str]
    totals: list[str]
    movements: tuple[Movement, ...]

    @classmethod
    def read(cls, t: Reader, ledger: Ledger, log: AuditLog) -> _Books:
        nodes = ledger.nodes(t)
        roots = [node.account.name for node in nodes if node.account.parent is None]
        found = (entry for root in roots for entry in t.scan(ENTRIES, root))
        entries = {f"{entry.root}#{entry.number}": entry for entry in found}
        movements, totals = _recomputed(t, nodes, entries, log)
        return cls(tuple(nodes), entries, check_journal(t, nodes), totals, tuple(movements))

    @property
    def accounts(self) -> dict[str, Account]:
        return {node.account.name: node.account for node in self.nodes}

    def disagreements(self) -> list[str]:
        """Step 6."""
        charges = {n: e for n, e in self.entries.items() if e.act == Act.CHARGED}
        logged = [each for each in self.movements if each.act is Act.CHARGED]
        names = [each.name for each in logged]
        problems = [f"{name}: charged, but not in the log" for name in charges.keys() - set(names)]
        problems += [f"{name}: in the log, but not charged" for name in set(names) - charges.keys()]
        problems += [f"{name}: twice in the log" for name, n in Counter(names).items() if n > 1]
        for each in logged:
            entry = charges.get(each.name)
            if entry is not None and not _same(entry, each):
                problems.append(f"{each.name}: journal and log say different things")
        acts = len(self.entries) - len(charges)
        if acts != len(self.movements) - len(logged):
            problems.append("openings and renewals of journal and log differ in number")
        return sorted(problems)

    def wrong_costs(self) -> list[str]:
        """Step 7."""
        return [
            f"{name}: costs {cost}, the ledger charged {_cost(entry)}"
            for name, entry in self.entries.items()
            if entry.cost and (cost := self._cost_of(entry)) != _cost(entry)
        ]

    def overspent(self) -> list[str]:
        """Step 8."""
        return [
            f"{node.account.name}: {node.standing.spent} is above {node.account.budgets}"
            for node in self.nodes
            if not node.account.is_plan
            and any(node.standing.spent)
            and not fits(node.standing.spent, node.account.budgets)
        ]

    def _cost_of(self, entry: Entry) -> Sums:
        measure = self.accounts[entry.account].measure
        assert measure is not None
        return measure.cost(event_from(entry.event))


def _recomputed(
    t: Reader, nodes: list[Node], entries: dict[str, Entry], log: AuditLog
) -> tuple[list[Movement], list[str]]:
    """Step 5: all balances from the records of the log alone.

    Events too long for a record are in the log by digest; for a part of a plan, the text comes from
    the journal, if its digest is the one in the log.
    """
    again, movements, problems = Recomputation(), [], []
    for number, content in enumerate(_contents(t, log)):
        try:
            record = decode_record(content)
            if isinstance(record, _Act):
                movements.append(_movement(record, entries))
                again.apply(movements[-1], _nothing(record, again))
        except ValueError as error:  # InvalidInput is one
            problems.append(f"record {number}: {error}")
    return movements, problems + differences(t, nodes, again)


def _contents(t: Reader, log: AuditLog) -> Iterator[bytes]:
    first = 0
    while page := log.records(t, first=first, limit=_PAGE):
        yield from page
        first += len(page)


def _movement(record: _Act, entries: dict[str, Entry]) -> Movement:
    cost = read(record.cost) if record.cost else ()
    if isinstance(record, BudgetOpened):
        return Movement(
            act=Act.OPENED,
            account=record.account,
            parent=record.parent,
            is_plan=(record.composition or "").startswith("plan"),
            is_parallel=record.children == "parallel",
            cost=cost,
        )
    if isinstance(record, BudgetRenewed):
        return Movement(act=Act.RENEWED, account=record.account, cost=cost)
    event = record.event or ""
    entry = entries.get(record.charge)
    if event.startswith("sha256:") and entry and event_for_log(entry.event) == event:
        event = entry.event
    return Movement(
        act=Act.CHARGED, account=record.account, name=record.charge, cost=cost, event=event
    )


def _nothing(record: _Act, again: Recomputation) -> Sums:
    """The zero of an account's measure, as far as an opening needs it."""
    if not isinstance(record, BudgetOpened):
        return ()
    if record.parent in again.accounts:
        return tuple(0.0 for _ in again.accounts[record.parent].standing.spent)
    _, _, orders = (record.composition or "").partition("renyi ")
    return Measure(tuple(map(float, orders.split()))).nothing


def _cost(entry: Entry) -> Sums:
    return unpacked(entry.cost, 1)[0] if entry.cost else ()


def _same(entry: Entry, logged: Movement) -> bool:
    said = (logged.account, written(logged.cost), event_for_log(logged.event))
    return said == (entry.account, written(_cost(entry)), event_for_log(entry.event))
