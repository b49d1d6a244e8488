"""Ledger and log at one moment, act by act: steps 4 to 9 of `budget.verification`.

An act is written into its tree's journal and into the log in one transaction, so both tell the acts
of a tree in the same order, but for those of one transaction. They are read side by side, a page at
a time: what is held does not grow with the number of acts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from voile.core.errors import InvalidInput
from voile.privacy.accounting.measures import Sums, fits
from voile.records.audit_log import (
    AnswersErasedRecord,
    AuditLog,
    BudgetApprovalRecord,
    BudgetOpenedRecord,
    BudgetPolicyRecord,
    BudgetRenewedRecord,
    ParticipationRecord,
    ReleaseRecord,
    decode_record,
)
from voile.records.ledger import (
    AccountNode,
    Act,
    AnswerRow,
    Entry,
    Ledger,
    Measure,
    ReplayKey,
    approvals_of,
    charge_name,
)
from voile.records.ledger.event_text import event_for_log, event_from, read
from voile.records.ledger.history import (
    JournalCheck,
    Movement,
    Recomputation,
    all_answers,
    answer_of,
    cost_of,
    differences,
    entries_of,
    entry_at,
    forgotten_alerts,
    misplaced,
)
from voile.records.storage import Reader
from voile.records.stored_answers import StoredAnswer

# --- Stored answers against charges: step 9 of `budget.verification ------------------------------
# A stored answer is given to whoever asks again, at no cost. So each must belong to a charge: one
# answer for every charge whose record promises one (also for each of those that somebody paid for
# again), of the same account and question, at the record that the log holds, and with the content
# that this record commits to.


FOREIGN_KEY: Final = (
    "none of {count} stored answers opens with this replay key: it is the key of another ledger "
    "(name the right one with --replay-key), or all of them were exchanged"
)


class AnswersCheck:
    """Takes the charges of releases with their records; then looks for answers that nobody paid.

    Args:
        origin: of the log.
        terms: of each account, the random name.
        key: opens the commitments; without it contents are compared with their digests only.
    """

    def __init__(
        self, t: Reader, origin: str, terms: Mapping[str, bytes], key: ReplayKey | None
    ) -> None:
        self._t, self._origin, self._terms, self._key = t, origin, terms, key
        self.charged = self._found = self._opened = self._erased = 0
        self._before = -math.inf
        self._missing: list[tuple[float, str]] = []
        """Charges without an answer, and when they were made."""
        self.problems: list[str] = []

    def take(self, number: int, record: ReleaseRecord, entry: Entry) -> None:
        """A charge, and the record of it at this place in the log."""
        self.charged += 1
        try:
            problem = self._problem(number, record, entry)
        except InvalidInput as error:  # somebody wrote into the database
            problem = f"its answer cannot be read: {error}"
        if problem:
            self.problems.append(f"{record.charge}: {problem}")

    def take_erasure(self, record: AnswersErasedRecord) -> None:
        """Answers to charges from before a moment were erased, on record."""
        self._before = max(self._before, record.before)
        self._erased += record.answers

    @property
    def kept(self) -> int:
        """Charges of releases whose answers are kept."""
        return self.charged - len(self._missing)

    @property
    def erased(self) -> int:
        """Charges of releases whose answers were erased."""
        return len(self._missing)

    def _problem(self, number: int, record: ReleaseRecord, entry: Entry) -> str:
        kept = answer_of(self._t, entry)
        if kept is None:
            self._missing.append((entry.time, record.charge))
            return ""
        if not _is_of(kept, entry) or kept.record != number:
            return "the answer kept for it is of another charge"
        self._found += 1
        if not self._is_on_record(kept, record):
            return "the answer kept is not that on record"
        self._opened += 1
        return ""

    def finish(self) -> None:
        """No answer is kept beside those of the charges, and none is missing but those that were
        erased on record."""
        lost = [charge for time, charge in self._missing if time >= self._before]
        self.problems += [f"{charge}: charged, but its answer is not kept" for charge in lost]
        if not lost and len(self._missing) != self._erased:
            self.problems.append(
                f"{len(self._missing)} answers are not kept, {self._erased} were erased on record"
            )
        if self._key is not None and self._found and not self._opened:
            self.problems.insert(0, FOREIGN_KEY.format(count=self._found))
        beside = 0
        try:
            beside = sum(1 for _ in all_answers(self._t)) - self._found
            strays = [_never_charged(each) for each in self._strays()] if beside else []
        except InvalidInput as error:
            strays = [f"the stored answers cannot be read: {error}"]
        self.problems += strays
        if beside and not self.problems:
            self.problems.append(f"{beside} answers are kept for charges that are no releases")

    def _strays(self) -> Iterator[AnswerRow]:
        """A question and a number name at most one answer and, with the tree, one charge."""
        for kept in all_answers(self._t):
            entry = entry_at(self._t, kept.root, kept.number)
            if entry is None or not _is_of(kept, entry):
                yield kept

    def _is_on_record(self, kept: AnswerRow, record: ReleaseRecord) -> bool:
        if hashlib.sha256(kept.answer).digest() != kept.digest:
            return False
        if self._key is None:
            return True
        answer = StoredAnswer(self._origin, self._terms.get(kept.account, b""), kept)
        return answer.opens(record.answer, self._key)


def _is_of(kept: AnswerRow, entry: Entry) -> bool:
    charged = entry.root, entry.act, entry.account, entry.query, entry.time
    return charged == (kept.root, Act.CHARGED.value, kept.account, kept.query, kept.time)


def _never_charged(kept: AnswerRow) -> str:
    return f"{kept.root}#{kept.number}: an answer is kept that was never charged"


# --------------------------------------------------------------------------------------------------


_Act: TypeAlias = (
    BudgetOpenedRecord
    | BudgetRenewedRecord
    | BudgetPolicyRecord
    | BudgetApprovalRecord
    | ReleaseRecord
    | ParticipationRecord
)
Progress: TypeAlias = Callable[[int, int], object]
_PAGE: Final = 1000
SPENT: Final = "spent"
"""The step of an approval that has no entry of its own: the charge is that entry."""


class Comparison:
    """What is wrong, for each step; all lists are empty if ledger and log agree.

    Args:
        t: both at one moment.
        key: opens what the log commits to; without it stored answers are checked less closely.
        progress: told now and then how many records were compared, and how many there are.
    """

    def __init__(
        self,
        t: Reader,
        ledger: Ledger,
        log: AuditLog,
        key: ReplayKey | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._nodes = ledger.nodes(t)
        self._accounts = {node.account.name: node.account for node in self._nodes}
        roots = [node.account.name for node in self._nodes if node.account.parent is None]
        self._journals = {root: entries_of(t, root) for root in roots}
        self._check = JournalCheck(self._accounts)
        terms = {node.account.name: node.balance.terms for node in self._nodes}
        self._answers = AnswersCheck(t, log.origin, terms, key)
        self._waiting: dict[str, Entry] = {}
        self._read = dict.fromkeys(roots, 0)
        self._other_acts = 0
        self._spent: list[BudgetApprovalRecord] = []
        self._opened: dict[str, BudgetOpenedRecord] = {}
        """The last opening of each account; one that was never used may have been opened again."""
        self.entries = self.acts = 0
        self.charges: list[str] = []
        """Step 6."""
        self.costs: list[str] = []
        """Step 7."""
        again, unreadable = self._follow(_contents(t, log, progress))
        for opened in self._opened.values():
            self._check_terms(opened)
        self.charges += [said for each in self._spent if (said := _unspent(t, each))]
        self._read_the_rest()
        self.journal = [
            *self._check.problems,
            *differences(t, self._nodes, self._check.found),
            *misplaced(t, self._nodes),
            *forgotten_alerts(t, self._nodes),
        ]
        """Step 4."""
        self.totals = unreadable + differences(t, self._nodes, again)
        """Step 5: all balances from the records of the log alone."""
        self.bounds = [problem for node in self._nodes if (problem := _overspending(node))]
        """Step 8."""
        self._answers.finish()

    @property
    def accounts(self) -> int:
        return len(self._nodes)

    @property
    def answered(self) -> int:
        return self._answers.kept

    @property
    def erased(self) -> int:
        return self._answers.erased

    @property
    def answers(self) -> list[str]:
        """Step 9."""
        return self._answers.problems

    def _follow(self, contents: Iterator[bytes]) -> tuple[Recomputation, list[str]]:
        """Go through the log, and through each journal as far as the log has come."""
        again, unreadable = Recomputation(), []
        for number, content in enumerate(contents):
            try:
                record = decode_record(content)
                if isinstance(record, AnswersErasedRecord):
                    self._answers.take_erasure(record)
                if isinstance(record, BudgetApprovalRecord) and record.step == SPENT:
                    self._spent.append(record)
                elif isinstance(record, _Act):
                    self.acts += 1
                    again.apply(self._movement(number, record), _measure(record, again))
            except ValueError as error:  # InvalidInput is one
                unreadable.append(f"record {number}: {error}")
        return again, unreadable

    def _movement(self, number: int, record: _Act) -> Movement:
        stated = getattr(record, "cost", None)
        cost = read(stated) if stated else ()
        if isinstance(record, BudgetOpenedRecord):
            self._other_acts -= 1
            self._opened[record.account] = record
            return Movement(
                act=Act.OPENED,
                account=record.account,
                parent=record.parent,
                is_plan=(record.composition or "").startswith("plan"),
                is_parallel=record.children == "parallel",
                cost=cost,
            )
        if isinstance(record, BudgetRenewedRecord):
            self._other_acts -= 1
            return Movement(act=Act.RENEWED, account=record.account, cost=cost)
        if isinstance(record, BudgetPolicyRecord | BudgetApprovalRecord):
            self._other_acts -= 1
            return Movement(act=Act.POLICY, account=record.account)
        entry = self._entry_of(record.charge)
        event = record.event or ""
        if entry is not None:
            if event.startswith("sha256:") and event_for_log(entry.event) == event:
                event = entry.event  # too long for the log, which holds its digest
            if not _says(entry, record.account, cost, event):
                self.charges.append(f"{record.charge}: journal and log say different things")
            if isinstance(record, ReleaseRecord):
                self._answers.take(number, record, entry)
        return Movement(
            act=Act.CHARGED, account=record.account, name=record.charge, cost=cost, event=event
        )

    def _check_terms(self, record: BudgetOpenedRecord) -> None:
        """A budget in the ledger is the one that was opened on record."""
        account = self._accounts.get(record.account)
        if account is None:
            return  # said of the totals
        terms = {
            "epsilon": account.epsilon,
            "delta": account.delta,
            **account.protected.texts,
            "parent": account.parent,
            "composition": account.composition,
            "children": account.children.value,
        }
        for name, value in terms.items():
            said = getattr(record, name)
            if said != value:
                self.charges.append(f"{account.name}: {name} {said} when opened, {value} now")

    def _entry_of(self, charge: str) -> Entry | None:
        """The entry of a charge in the log. What the journal tells earlier waits for its record."""
        root, _, number = charge.rpartition("#")
        if root in self._journals and number.isdecimal():
            while charge not in self._waiting and self._read[root] <= int(number):
                if not self._read_on(root):
                    break
        entry = self._waiting.pop(charge, None)
        if entry is None:
            told = number.isdecimal() and int(number) < self._read.get(root, 0)
            what = "twice in the log" if told else "in the log, but not charged"
            self.charges.append(f"{charge}: {what}")
        return entry

    def _read_on(self, root: str) -> bool:
        """One more entry of a journal; false if there is none."""
        try:
            entry = next(self._journals[root], None)
        except InvalidInput as error:
            self._check.problems.append(f"{root}: the journal cannot be read: {error}")
            return False
        if entry is None:
            return False
        self.entries += 1
        self._read[root] = entry.number + 1
        self._check.take(entry)
        if entry.cost:
            self._check_cost(entry)
        if entry.act == Act.CHARGED:
            self._waiting[charge_name(entry)] = entry
        else:
            self._other_acts += 1
        return True

    def _read_the_rest(self) -> None:
        for root in self._journals:
            while self._read_on(root):
                pass
        self.charges += [f"{name}: charged, but not in the log" for name in self._waiting]
        if self._other_acts:
            self.charges.append("openings and renewals of journal and log differ in number")

    def _check_cost(self, entry: Entry) -> None:
        account = self._accounts.get(entry.account)
        measure = None if account is None else account.measure
        try:
            cost = () if measure is None else measure.cost(event_from(entry.event))
            if cost != cost_of(entry):
                self.costs.append(f"{charge_name(entry)}: costs {cost}, not {cost_of(entry)}")
        except InvalidInput as error:
            self.costs.append(f"{charge_name(entry)}: {error}")


def _unspent(t: Reader, record: BudgetApprovalRecord) -> str:
    """What is wrong with an approval that the log calls spent."""
    found = [each for each in approvals_of(t, record.account) if each.number == record.request]
    if found and found[0].charge == record.charge:
        return ""
    return f"{record.charge}: the approval that it used is not the ledger's"


def _contents(t: Reader, log: AuditLog, progress: Progress | None) -> Iterator[bytes]:
    first, size = 0, log.head(t).size
    while page := log.records(t, first=first, limit=_PAGE):
        yield from page
        first += len(page)
        if progress is not None:
            progress(first, size)


def _measure(record: _Act, again: Recomputation) -> Measure | None:
    """An account's measure, as far as an opening needs it."""
    if not isinstance(record, BudgetOpenedRecord):
        return None
    if record.parent in again.accounts:
        return again.accounts[record.parent].measure
    kind, _, name = (record.composition or "").partition("filter: ")
    return None if kind else Measure.from_name(name or "zcdp")


def _says(entry: Entry, account: str, cost: Sums, event: str) -> bool:
    try:
        return (account, cost, event) == (entry.account, cost_of(entry), entry.event)
    except InvalidInput:  # not even a cost
        return False


def _overspending(node: AccountNode) -> str | None:
    account, spent = node.account, node.standing.spent
    if account.is_plan or not any(spent):
        return None
    try:
        if fits(spent, account.budgets):
            return None
    except InvalidInput as error:
        return f"{account.name}: {error}"
    return f"{account.name}: {spent} is above {account.budgets}"
