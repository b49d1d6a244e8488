"""One charge: check every account on the way up, then write all of them, or nothing at all.

The order matters (numbers are cited in the code):

1. the release speaks about what the account protects;
2. what it costs in the measure of the tree, from public facts alone;
3. the sums of the account and all above it after the charge fit their budgets, every one of them;
4. only then is anything written: balances, alerts that are due, the entry of the journal.

A refusal raises before the first write, so a caller that catches it inside its transaction finds
the ledger untouched and may record the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from voile.core.errors import BudgetExceeded, InvalidInput
from voile.core.guarantee import Protected, RowPart
from voile.privacy.accounting.measures import (
    Sums,
    consumed,
    describe_shortfall,
    fits,
    largest_of_its_kind,
    shortfall,
)
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms.parameters import weaknesses
from voile.records.ledger.accounts import Account, check_relation
from voile.records.ledger.event_text import event_text, packed, parts_of
from voile.records.ledger.policies import (
    THRESHOLDS,
    Permissions,
    permit,
    policy_of,
    record_use,
)
from voile.records.ledger.tables import (
    ALERTS,
    APPROVALS,
    ENTRIES,
    PLAN_PARTS,
    POPULATIONS,
    Act,
    AlertRow,
    ApprovalRow,
    Balance,
    Entry,
    PopulationRow,
)
from voile.records.ledger.tree import AccountNode, RunningTotals, Tree, charged
from voile.records.storage import Reader, Transaction

# --- How much of a budget is gone, in the words of the privacy guide -----------------------------


class Risk(StrEnum):
    """LOW below 50 %, MEDIUM from 50 to 75 %, HIGH above 75 %; HIGH where the promise itself is
    close to none, however little is used."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"

    @classmethod
    def from_spending(cls, share: float, epsilon: float, delta: float) -> Risk:
        """The risk at a consumed share, between 0 and 1, of this promise."""
        if weaknesses(epsilon, delta):
            return cls.HIGH
        if share < 0.5:
            return cls.LOW
        return cls.MEDIUM if share <= 0.75 else cls.HIGH


@dataclass(frozen=True)
class Alert:
    """An account has used at least `threshold` percent of its budget."""

    account: str
    period: int
    threshold: int
    time: float
    charge: str

    def __str__(self) -> str:
        word = "CRITICAL" if self.threshold >= 90 else "WARNING"
        return f"[{word}] {self.account}: {self.threshold} % of the privacy budget is consumed"


def reached(
    already: int, share: float, thresholds: tuple[int, ...] = THRESHOLDS
) -> tuple[int, ...]:
    """The thresholds that a share between 0 and 1 has reached, and that were not recorded yet."""
    return tuple(each for each in thresholds if already < each <= 100 * share)


# --------------------------------------------------------------------------------------------------


DIGEST_SIZE: Final = 32
KEPT_DIGEST: Final = 16
"""Bytes kept of a record's digest: enough that two of a million records never meet by chance."""
_LONGEST_TEXT: Final = 500
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CHARGED: Final = Act.CHARGED.value


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A request to charge an account. Everything in it is public or keyed.

    Args:
        account: which account.
        event: what would be released, from public facts.
        protected: what the release speaks about; must be what the account protects.
        purpose: what for, in words.
        caller: who asks.
        query: keyed digest of the question, 32 bytes (`ReplayKey`).
        part: which part the protected rows play. A record, never a reason for a second account.
        population: keyed digests of the records behind the release, if they are to be watched.
        needs_approval: a second person has to have approved it, whatever it costs.
    """

    account: str
    event: PrivacyEvent
    protected: Protected
    purpose: str
    caller: str
    query: bytes
    part: RowPart = RowPart.OTHER
    population: frozenset[bytes] = frozenset()
    needs_approval: bool = False

    def __post_init__(self) -> None:
        for name in ("purpose", "caller"):
            check_words(name, getattr(self, name))
        if not isinstance(self.query, bytes) or len(self.query) != DIGEST_SIZE:
            raise InvalidInput(f"query must be a keyed digest of {DIGEST_SIZE} bytes")
        if not isinstance(self.part, RowPart):
            object.__setattr__(self, "part", RowPart(self.part))
        if self.population:
            object.__setattr__(self, "population", frozenset(self.population))
            if any(len(each) != DIGEST_SIZE for each in self.population):
                raise InvalidInput(f"records are named by keyed digests of {DIGEST_SIZE} bytes")


class Grant(NamedTuple):
    """A charge that was granted, once its transaction is committed.

    Args:
        charge: its name in the ledger, `ROOT#NUMBER`.
        account: what was charged.
        event: what for.
        terms: the random name of the account's terms, which no other account has.
        cost: in the measure of the tree; empty for a part of a plan that is a root.
        time: as written into the journal.
        clock_back: the clock said an earlier time than the entry in front.
        alerts: thresholds reached by this charge. Tell people after the commit, once.
        approval: that it has used up; None if it needed none.
    """

    charge: str
    number: int
    account: Account
    terms: bytes
    event: PrivacyEvent
    cost: Sums
    time: float
    clock_back: bool
    alerts: tuple[Alert, ...]
    approval: ApprovalRow | None = None


def check_charge(charge: Charge, account: Account) -> None:
    """Step 1."""
    account.check_protects(charge.protected)
    check_relation(charge.event, account.protected.relation)


def standings_after(path: Sequence[AccountNode], cost: Sums) -> list[RunningTotals]:
    """Steps 2 and 3: where the accounts would stand; `BudgetExceeded` if one cannot afford it."""
    after = charged(path, cost, path[0].account.measure)
    for node, standing in zip(path, after, strict=True):
        account, _, before = node
        # A parallel account whose largest child stays the largest does not move, so it needs no
        # check. A plan was paid whole when it was opened.
        moved = standing is not before and not account.is_plan
        if moved and not fits(standing.spent, account.budgets):
            raise _exceeded(node, standing.spent)
    return after


def plan_parts_after(
    t: Reader, account: Account, event: PrivacyEvent
) -> tuple[list[tuple[str, int, int]], float]:
    """Step 3 for a plan: the parts that would be used, and the share of the plan used then."""
    # A plan is priced as one fixed list. What is not on it, or more often than listed, has no
    # proof, even if it would cost less.
    wanted = parts_of([event])
    rows = t.scan(PLAN_PARTS, account.name)
    left = {row.event: row.planned - row.used for row in rows}
    for text, count in wanted.items():
        if count > left.get(text, 0):
            planned = "is not on it" if text not in left else f"fits {left[text]} more times"
            raise BudgetExceeded(
                f"Budget exceeded: account {account.name!r} was opened for a fixed list of "
                f"releases; this one {planned}, {count} requested; nothing was charged",
                remaining=float(left.get(text, 0)),
                requested=float(count),
            )
    changed = [
        (row.event, row.planned, row.used + wanted[row.event])
        for row in rows
        if row.event in wanted
    ]
    used = sum(row.used for row in rows) + sum(wanted.values())
    return changed, used / sum(row.planned for row in rows)


class Effect(NamedTuple):
    """Steps 2 and 3: what an event costs, and where it leaves the accounts on the way up.

    Args:
        cost: in the measure of the tree; empty on a plan, whose parts are counted instead.
        standings: of the account and all above it.
        parts: of a plan that change: event, planned, used.
        used: the share of the parts of a plan used then.
    """

    cost: Sums
    standings: list[RunningTotals]
    parts: list[tuple[str, int, int]]
    used: float


def effect_of(t: Reader, path: Sequence[AccountNode], event: PrivacyEvent) -> Effect:
    """Read only: what raises here, `BudgetExceeded` first of all, has written nothing."""
    account = path[0].account
    if account.is_plan:
        parts, used = plan_parts_after(t, account, event)
        return Effect((), [node.standing for node in path], parts, used)
    assert account.measure is not None
    cost = account.measure.cost(event)
    return Effect(cost, standings_after(path, cost), [], 0.0)


def effect_or_offer(t: Reader, path: Sequence[AccountNode], event: PrivacyEvent) -> Effect:
    """The same; a refusal also says what would fit, which is worked out for people only."""
    try:
        return effect_of(t, path, event)
    except BudgetExceeded as refused:
        offer = "" if path[0].account.is_plan else largest_of_its_kind(_fits_on(path), event)
        if not offer:
            raise
        raise BudgetExceeded(
            f"{refused}. {offer[0].upper()}{offer[1:]}",
            remaining=refused.remaining,
            requested=refused.requested,
        ) from None


def _fits_on(path: Sequence[AccountNode]) -> Callable[[PrivacyEvent], bool]:
    measure = path[0].account.measure
    assert measure is not None

    def fits_here(event: PrivacyEvent) -> bool:
        try:
            standings_after(path, measure.cost(event))
        except (BudgetExceeded, InvalidInput):  # or too small to be told from nothing
            return False
        return True

    return fits_here


def write_act(
    t: Transaction,
    tree: Tree,
    path: Sequence[AccountNode],
    standings: Sequence[RunningTotals],
    entry: Entry,
    *,
    used: float = 0.0,
) -> tuple[Alert, ...]:
    """Step 4: balances, alerts and the journal, for any act; the root counts its entries.

    Args:
        path: the account and all above it.
        standings: where they stand now.
        entry: the line of the journal.
        used: which share of its parts a plan has used after a charge on it.
    """
    alerts: list[Alert] = []
    changed: list[AccountNode] = []
    root = path[-1]
    for node, standing in zip(path, standings, strict=True):
        account, (name, terms, period, sums, alerted, entries, time), before = node
        moved, share = standing is not before, 0.0
        if account.is_plan:
            share = used
        elif moved:
            share = consumed(standing.spent, account.budgets)
        due = reached(alerted, share, policy_of(t, name).thresholds) if share else ()
        if not (moved or due or node is root):
            continue
        if moved:
            sums = standing.pack()
        if due:
            alerts += [_record_alert(t, node, threshold, entry) for threshold in due]
            alerted = due[-1]
        if node is root:
            entries, time = entry.number + 1, entry.time
        balance = Balance(name, terms, period, sums, alerted, entries, time)
        changed.append(AccountNode(account, balance, standing))
    tree.replace(t, changed)
    t.insert(ENTRIES, entry)
    return tuple(alerts)


def apply_charge(t: Transaction, tree: Tree, charge: Charge, now: float) -> Grant:
    """All four steps."""
    path = tree.path(t, charge.account)
    account, first, _ = path[0]
    check_charge(charge, account)
    root = path[-1].balance
    # The journal never goes back in time; that the clock did is recorded instead.
    time = max(root.time, now)
    cost, standings, parts, used = effect_or_offer(t, path, charge.event)
    priced = event_text(charge.event), cost
    approval = permit(
        t, path, priced, charge.caller, time, Permissions(needed=charge.needs_approval)
    )
    entry = Entry(
        root.account,
        root.entries,
        _CHARGED,
        account.name,
        first.period,
        time,
        int(now < root.time),
        event_text(charge.event),
        packed(cost),
        charge.purpose,
        str(charge.part),
        charge.caller,
        charge.query,
        len(charge.population),
    )
    # Step 4: from here on everything is written, in one transaction.
    alerts = write_act(t, tree, path, standings, entry, used=used)
    record_use(t, path, cost, charge.caller, time)
    if approval is not None:
        approval = approval._replace(charge=charge_name(entry))
        t.replace(APPROVALS, approval)
    for text, planned, used in parts:
        t.replace(PLAN_PARTS, PLAN_PARTS.record(account.name, text, planned, used))
    if charge.population:
        # Sorted, so that the order in which records were read is not on record.
        kept = sorted(each[:KEPT_DIGEST] for each in charge.population)
        t.insert(POPULATIONS, PopulationRow(root.account, root.entries, b"".join(kept)))
    return Grant(
        charge_name(entry),
        entry.number,
        account,
        first.terms,
        charge.event,
        cost,
        time,
        now < root.time,
        alerts,
        approval,
    )


def charge_name(entry: Entry) -> str:
    """The ledger's name for an entry."""
    return f"{entry.root}#{entry.number}"


def check_words(name: str, value: object) -> None:
    """A text that says something, and not too much."""
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_TEXT:
        raise InvalidInput(
            f"{name} must be stated in at most {_LONGEST_TEXT} characters, found {value!r:.80}"
        )
    if "\0" in value or not (value.isascii() or _SURROGATE.search(value) is None):
        raise InvalidInput(f"{name} cannot hold NUL or unpaired surrogates, found {value!r:.80}")


def _record_alert(t: Transaction, node: AccountNode, threshold: int, entry: Entry) -> Alert:
    row = AlertRow(node.account.name, node.balance.period, threshold, entry.time, entry.number)
    t.insert(ALERTS, row)
    return Alert(row.account, row.period, threshold, row.time, charge_name(entry))


def _exceeded(node: AccountNode, after: Sums) -> BudgetExceeded:
    account = node.account
    spent, measure = node.standing.spent, account.measure
    assert measure is not None
    needed, left, _ = shortfall(spent, after, account.budgets)
    cost = measure.growth(spent, after)
    said = describe_shortfall(measure, cost, spent, account.budgets, account.delta)
    advice = (
        "The custodian can renew it with `voile budget renew`"
        if fits(cost, account.budgets)
        else "Renewing does not help: it needs more than the whole budget"
    )
    return BudgetExceeded(
        f"{said} in account {account.name!r} (epsilon = {account.epsilon:g}, "
        f"delta = {account.delta:g}); nothing was charged. {advice}",
        remaining=max(0.0, left),
        requested=needed,
    )
