"""The ledger's tables.

Accounts and terms never change; a `Balance` is the one row of an account that a charge rewrites;
the journal only grows, and every balance can be recomputed from it.

Compatibility promise: tables of a released version keep their names, columns and meaning; a change
is a new version of `PART` with a migration.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from voile.core.errors import Refused
from voile.records.storage import Part, Table
from voile.records.storage.session import Migrator


class Act(StrEnum):
    """What an entry of the journal says. Stored values never change their meaning."""

    OPENED = "opened"
    CHARGED = "charged"
    RENEWED = "renewed"
    POLICY = "policy changed"
    REQUESTED = "approval requested"
    APPROVED = "approved"


class AccountRow(NamedTuple):
    """What an account promised. `terms` is random and never used twice."""

    terms: bytes
    name: str
    dataset: str
    unit: str
    relation: str
    epsilon: float
    delta: float
    measure: str
    plan: str
    parent: str | None
    root: str
    children: str
    opened: float


class Balance(NamedTuple):
    """Where an account stands: rewritten by every charge on it or below it.

    Args:
        terms: which `AccountRow` belongs to it.
        period: 0 at opening, one more with each renewal.
        sums: spent, direct, peak and carried (`RunningTotals`), packed.
        alerted: the highest threshold recorded in this period, in percent.
        entries: of a root: how many entries its journal has.
        time: of a root: the time of the last entry.
    """

    account: str
    terms: bytes
    period: int
    sums: bytes
    alerted: int
    entries: int
    time: float


class Entry(NamedTuple):
    """One line of a tree's journal, in order.

    Args:
        root, number: the tree, and the place in its journal.
        act: opened, charged or renewed.
        time: seconds since 1970, never before the entry in front of it.
        clock_back: 1 if the clock said an earlier time than the entry in front.
        event: what was charged, as JSON; empty for acts without one.
        cost: what it cost in the measure of the tree, packed; empty if nothing.
        query: keyed digest of the question.
        population: how many keyed record digests `POPULATIONS` holds for it.
    """

    root: str
    number: int
    act: str
    account: str
    period: int
    time: float
    clock_back: int
    event: str
    cost: bytes
    purpose: str
    part: str
    caller: str
    query: bytes
    population: int


class ChildRow(NamedTuple):
    """Which accounts lie directly below an account."""

    parent: str
    child: str


class DatasetRow(NamedTuple):
    """Which root a version of a data set belongs to, for each unit."""

    dataset: str
    unit: str
    root: str


class PlanPart(NamedTuple):
    """One distinct event of a plan: how often it is in it, and how often it was used."""

    account: str
    event: str
    planned: int
    used: int


class AlertRow(NamedTuple):
    """A threshold that was reached: at most once for each account, period and threshold."""

    account: str
    period: int
    threshold: int
    time: float
    number: int


class AnswerRow(NamedTuple):
    """A noisy answer that was charged, under the keyed digest of its question.

    Args:
        root, number: the charge.
        record: the number of the charge's record in the audit log, -1 if it has none.
        digest: SHA-256 of the answer as it is kept.
        committed: SHA-256 of its canonical bytes, which the record commits to.
    """

    query: bytes
    number: int
    root: str
    account: str
    time: float
    record: int
    answer: bytes
    digest: bytes
    committed: bytes


class PopulationRow(NamedTuple):
    """Keyed digests of the records behind a charge, sorted and joined. Never leaves the ledger."""

    root: str
    number: int
    records: bytes


class PolicyRow(NamedTuple):
    """Rules of an account beyond its budget (`policies.AccountPolicy`); -1 for a share: no rule.

    Args:
        since: when its period began.
    """

    account: str
    thresholds: str
    renew: str
    cool_down: float
    allowance: float
    span: str
    approval: float
    since: float


class UseRow(NamedTuple):
    """What a caller was charged on an account in the window that began then, packed."""

    account: str
    caller: str
    begun: float
    sums: bytes


class ApprovalRow(NamedTuple):
    """A charge that somebody asked to be approved.

    Args:
        number: of the entry that asks.
        event: the price, as JSON.
        period: of the account; an approval ends with it.
        approver: empty until somebody approves it.
        charge: the charge that used it; empty until then.
    """

    account: str
    number: str
    caller: str
    event: str
    purpose: str
    period: int
    time: float
    approver: str
    charge: str


ACCOUNTS: Final = Table("ledger_accounts", AccountRow, key=("terms",))
BALANCES: Final = Table("ledger_balances", Balance, key=("account",))
ENTRIES: Final = Table("ledger_entries", Entry, key=("root", "number"))
CHILDREN: Final = Table("ledger_children", ChildRow, key=("parent", "child"))
DATASETS: Final = Table("ledger_datasets", DatasetRow, key=("dataset", "unit"))
PLAN_PARTS: Final = Table("ledger_plan_parts", PlanPart, key=("account", "event"))
ALERTS: Final = Table("ledger_alerts", AlertRow, key=("account", "period", "threshold"))
ANSWERS: Final = Table("ledger_answers", AnswerRow, key=("query", "number"))
POPULATIONS: Final = Table("ledger_populations", PopulationRow, key=("root", "number"))
POLICIES: Final = Table("ledger_policies", PolicyRow, key=("account",))
USES: Final = Table("ledger_uses", UseRow, key=("account", "caller"))
APPROVALS: Final = Table("ledger_approvals", ApprovalRow, key=("account", "number"))


def _add_policies(t: Migrator) -> None:
    for table in (POLICIES, USES, APPROVALS):
        t.create(table)


def _refuse_version_1(_: Migrator) -> None:
    raise Refused(
        "the ledger in this database was written by an earlier voile, and its accounts may count "
        "less than was granted: rows without an identifier did not count against named records, "
        "and one identifier in two spellings had two budgets. Start a new database with new "
        "accounts, opened at what you can still promise; receipts and the log of this one can "
        "still be read (`voile audit`)"
    )


PART: Final = Part(
    "ledger",
    (
        ACCOUNTS,
        BALANCES,
        ENTRIES,
        CHILDREN,
        DATASETS,
        PLAN_PARTS,
        ALERTS,
        ANSWERS,
        POPULATIONS,
        POLICIES,
        USES,
        APPROVALS,
    ),
    version=3,
    migrations={1: _refuse_version_1, 2: _add_policies},
)
"""Open the storage with this part to keep a ledger in it."""
