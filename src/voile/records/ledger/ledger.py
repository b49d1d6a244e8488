"""The ledger: every method works inside a transaction of the caller's."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from voile.core.errors import InvalidInput, Refused
from voile.privacy.events import PrivacyEvent
from voile.records.ledger.accounts import Account, Opening
from voile.records.ledger.charging import (
    Charge,
    Grant,
    apply_charge,
    check_charge,
    effect_or_offer,
)
from voile.records.ledger.event_text import event_text
from voile.records.ledger.opening import (
    AccountChange,
    is_unused,
    open_account,
    open_child,
    renew,
    reopen_account,
)
from voile.records.ledger.policies import (
    AccountPolicy,
    Permissions,
    due_accounts,
    permit,
    policy_of,
)
from voile.records.ledger.policy_acts import ApprovalStep, approve, request_approval, set_policy
from voile.records.ledger.replay import Asked
from voile.records.ledger.tables import ANSWERS, CHILDREN, ENTRIES, AnswerRow
from voile.records.ledger.tree import AccountNode, RunningTotals, Tree, first_children
from voile.records.storage import Reader, Transaction

NOT_RECORDED: Final = -1
CALENDAR: Final = "calendar"
"""Who renews by a policy, in the journal."""
_FOUND_AT_ONCE: Final = 8


class ChargedAnswer(NamedTuple):
    """What leaves the house: the answer as it is kept, and the grant if it is new.

    Args:
        kept: with the charge it belongs to, and the number of its record in the audit log.
        terms: the random name of the terms of the account that paid.
        grant: None for an answer that is given again.
    """

    kept: AnswerRow
    terms: bytes
    grant: Grant | None

    @property
    def answer(self) -> bytes:
        return self.kept.answer

    @property
    def charge(self) -> str:
        return f"{self.kept.root}#{self.kept.number}"

    @property
    def record(self) -> int:
        """The number of the charge's record in the audit log, -1 if it has none."""
        return self.kept.record

    @property
    def replayed(self) -> bool:
        return self.grant is None


class Ledger(Tree):
    """Accounts, charges and answers in the tables of `PART`.

    Guarantees
        1. What an account and all above it grant never exceeds any of their budgets, whatever is
           asked in whatever order by however many threads and processes.
        2. A charge is on all accounts of its path or on none, with its entry and its alerts.
        3. A refusal depends on public facts only, and changes nothing.
        4. A question that may be replayed is charged once, however many ask it at the same time.
        5. Each threshold is recorded once for each account and period.

    Args:
        clock: seconds since 1970. A clock that jumps back does not turn back the journal.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock

    def open(self, t: Transaction, opening: Opening, *, caller: str) -> AccountChange:
        """Open an account: the root of a data set, or one below another account."""
        return open_account(t, self, opening, caller, self.now())

    def open_child(
        self, t: Transaction, parent: Account, name: str, *, caller: str
    ) -> AccountChange:
        """Open an account below another one, with the same promise; a service opens many.

        Args:
            parent: an open account.
        """
        return open_child(t, self, parent, name, caller, self.now())

    def reopen(self, t: Transaction, opening: Opening, *, caller: str) -> AccountChange:
        """Give a root that was never charged nor renewed other terms; `Refused` if it was."""
        return reopen_account(t, self, opening, caller, self.now())

    def renew(self, t: Transaction, account: str, *, reason: str, caller: str) -> AccountChange:
        """Start a new period for an account and all below it."""
        now = self.now()
        return renew(t, self, account, reason=reason, caller=caller, now=now)

    def renew_due(self, t: Transaction) -> list[AccountChange]:
        """Renew every account whose period is over by its own calendar, and its cool-down too."""
        done: list[AccountChange] = []
        while due := due_accounts(t, self.now()):
            reason = f"renewed {policy_of(t, due[0]).renew} by the account's policy"
            done.append(self.renew(t, due[0], reason=reason, caller=CALENDAR))
        return done

    def set_policy(
        self, t: Transaction, account: str, policy: AccountPolicy, *, caller: str
    ) -> AccountChange:
        """Give an account other rules; each change is an entry."""
        return set_policy(t, self, account, policy, caller=caller, now=self.now())

    def request(
        self, t: Transaction, account: str, event: PrivacyEvent, *, purpose: str, caller: str
    ) -> ApprovalStep:
        """Ask that a charge be approved."""
        now = self.now()
        return request_approval(t, self, account, event, purpose=purpose, caller=caller, now=now)

    def approve(self, t: Transaction, account: str, number: str, *, caller: str) -> ApprovalStep:
        """Approve what somebody else asked for."""
        return approve(t, self, account, number, caller=caller, now=self.now())

    def charge(self, t: Transaction, charge: Charge) -> Grant:
        """Charge an account and all above it; `BudgetExceeded` if one of them cannot afford it."""
        return apply_charge(t, self, charge, self.now())

    def settle(
        self,
        t: Transaction,
        charge: Charge,
        asked: Asked,
        answer: bytes,
        *,
        committed: bytes | None = None,
        fresh: bool = False,
        write_record: Callable[[Grant], int] | None = None,
    ) -> ChargedAnswer:
        """Charge and keep the answer; or, if the question was answered before, give that answer.

        Whoever loses a race for one question comes here second: its draw is dropped, and it gets
        what the first one stored.

        Args:
            committed: SHA-256 of what the log commits to; of the answer itself if not given.
            fresh: charge again and keep the new answer beside the old one.
            write_record: writes the record of a new charge into a log in the same transaction, and
                says where it went.
        """
        if (asked.account, asked.caller, asked.digest) != (
            charge.account,
            charge.caller,
            charge.query,
        ):
            raise InvalidInput("the charge is not for the question that was asked")
        stored = None if fresh else self.answered(t, asked)
        if stored is not None:
            return stored
        grant, digest = self.charge(t, charge), hashlib.sha256(answer).digest()
        kept = AnswerRow(
            charge.query,
            grant.number,
            grant.account.root,
            charge.account,
            grant.time,
            NOT_RECORDED if write_record is None else write_record(grant),
            answer,
            digest,
            digest if committed is None else committed,
        )
        t.insert(ANSWERS, kept)
        return ChargedAnswer(kept, grant.terms, grant)

    def answered(self, t: Reader, asked: Asked) -> ChargedAnswer | None:
        """The latest stored answer to this question, if it may be given again."""
        return self.answered_all(t, [asked])[0]

    def answered_all(self, t: Reader, asked: Sequence[Asked]) -> list[ChargedAnswer | None]:
        """The same for several questions at once.

        In whatever version's spelling it was stored: else a better name would charge people twice.
        """
        digests = [(e.digest, *e.earlier) if e.replayable else () for e in asked]
        stored = iter(t.last_all(ANSWERS, list(chain.from_iterable(digests))))
        found = [[next(stored) for _ in spellings] for spellings in digests]
        first = [next((kept for kept in some if kept is not None), None) for some in found]
        return [None if kept is None else self._given_again(t, kept) for kept in first]

    def first_answer(self, t: Reader) -> ChargedAnswer | None:
        """One stored answer, if there is any: the oldest of a tree, if that is found at once."""
        found = t.scan(ANSWERS, limit=1)
        if not found:
            return None
        root = found[0].root
        early = (
            t.get(ANSWERS, entry.query, entry.number)
            for entry in t.scan(ENTRIES, root, limit=_FOUND_AT_ONCE)
        )
        oldest = next((kept for kept in early if kept is not None and kept.root == root), found[0])
        return self._given_again(t, oldest)

    def account(self, t: Reader, name: str) -> Account:
        """What an account promises."""
        return self.node(t, name).account

    def is_unused(self, t: Reader, name: str) -> bool:
        """Whether nothing ever happened to a root but being opened."""
        return is_unused(t, self.node(t, name))

    def children(
        self, t: Reader, parent: str, *, after: str = "", limit: int | None = None
    ) -> list[str]:
        """Names of the accounts directly below an account, in order, beyond a name."""
        return [row.child for row in t.scan(CHILDREN, parent, after=after, limit=limit)]

    def first_child(self, t: Reader, parent: str, *, after: str) -> str | None:
        """The first of them beyond a name. Remembered while nobody else writes: a service asks
        whenever it opens an account."""
        known = first_children(t)
        if (parent, after) not in known:
            found = self.children(t, parent, after=after, limit=1)
            known[parent, after] = found[0] if found else None
        return known[parent, after]

    def paid(self, t: Reader, charge: str) -> ChargedAnswer:
        """The stored answer that a charge paid for; `InvalidInput` if there is none."""
        root, _, number = charge.rpartition("#")
        entry = t.get(ENTRIES, root, int(number)) if number.isdecimal() else None
        found = None if entry is None else t.get(ANSWERS, entry.query, entry.number)
        if entry is None or found is None or found.root != root:
            raise InvalidInput(f"there is no charge {charge!r} with a stored answer")
        return self._given_again(t, found)

    def next_charges(self, t: Reader, name: str, count: int) -> list[str]:
        """What the next charges of an account are called, if nothing else is charged before."""
        root = self.path(t, name)[-1].balance
        return [f"{root.account}#{root.entries + place}" for place in range(count)]

    def _given_again(self, t: Reader, kept: AnswerRow) -> ChargedAnswer:
        return ChargedAnswer(kept, self.node(t, kept.account).balance.terms, None)

    def now(self) -> float:
        """The clock, refused if it is out of order."""
        now = float(self._clock())
        if not math.isfinite(now):
            raise InvalidInput(f"the clock must say a finite time, found {now}")
        return now


# --- Charges that are not made yet: do they fit, also on accounts that are not opened yet? -------


def check_fits(ledger: Ledger, t: Reader, parent: Account, charges: Iterable[Charge]) -> None:
    """`BudgetExceeded` unless all charges fit, one after the other. Nothing is written.

    Args:
        parent: the account that is charged, or above the accounts that are. One that is not opened
            yet counts as opened with the promise of its parent (`Ledger.open_child`).
    """
    standing: dict[str, RunningTotals] = {}
    so_far, now = Permissions(), ledger.now()
    for charge in charges:
        path = _path(ledger, t, parent, charge.account)
        if standing:
            path = [
                AccountNode(account, balance, standing.get(account.name, before))
                for account, balance, before in path
            ]
        check_charge(charge, path[0].account)
        cost, after, *_ = effect_or_offer(t, path, charge.event)
        so_far.needed = charge.needs_approval
        permit(t, path, (event_text(charge.event), cost), charge.caller, now, so_far)
        standing.update(zip((node.account.name for node in path), after, strict=True))


def child_of(parent: Account, name: str) -> Account:
    """What `Ledger.open_child` will open."""
    return parent.child(name)


def _path(ledger: Ledger, t: Reader, parent: Account, name: str) -> list[AccountNode]:
    """The way up from an account, also if that is not opened yet."""
    if ledger.is_open(t, name):
        path = ledger.path(t, name)
        if name != parent.name and path[0].account.parent != parent.name:
            raise Refused(f"account {name!r} is there already, but not below {parent.name!r}")
        return path
    above = ledger.path(t, parent.name)
    assert parent.measure is not None
    fresh = RunningTotals.fresh(parent.measure.nothing)
    return [AccountNode(child_of(parent, name), above[0].balance, fresh), *above]
