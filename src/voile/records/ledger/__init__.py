"""The privacy ledger: budgets that cannot be overspent.

A tour, by what you want to do:

- promise something: `Opening` with a filter (`AdaptiveSpending`) or a complete list
  (`PlannedSpending`), below a parent that is `Children.SEQUENTIAL` or `Children.PARALLEL`;
  `Ledger.open`, `Ledger.renew`
- spend it: `Charge`, `Ledger.charge`; with the answer and its replay, `Ledger.settle`
- recognise a question: `Question`, `NamedRecord`, `PublicInput`, `WholeDataset`, `ReplayKey`
- demand more than the budget does: `AccountPolicy` (alerts, periods by the calendar, allowances, a
  second person); `Ledger.set_policy`, `request`, `approve`, `renew_due`
- look ahead: `remaining`, `would_cost`, `how_many`, `forecast`; for accounts that are opened when
  they are first charged (`Ledger.open_child`), `check_fits`
- see it: `budget_report`, `watch` (custodian only)
- erase what is old: `old_answers`, `erase_answers`
- check it: `history` reads what was written, and recomputes balances from it

Commands import from here and from two rooms besides: `event_text` (costs as the log states them)
and `history`. The others are private, the tables first of all; `make lint` sees to it.

Everything works inside a transaction of the caller's storage, opened with `PART`, so that a charge,
its answer and its record in the audit log commit together (`voile.app.explain` does that).
"""

from voile.privacy.accounting.measures import Measure
from voile.records.ledger.accounts import (
    LONGEST_NAME,
    Account,
    AdaptiveSpending,
    Children,
    Opening,
    PlannedSpending,
)
from voile.records.ledger.charging import (
    Alert,
    Charge,
    Grant,
    Risk,
    charge_name,
    check_words,
)
from voile.records.ledger.erasing import OldAnswers, erase_answers, old_answers
from voile.records.ledger.ledger import ChargedAnswer, Ledger, check_fits, child_of
from voile.records.ledger.opening import AccountChange
from voile.records.ledger.policies import THRESHOLDS, AccountPolicy, Calendar, policy_of
from voile.records.ledger.policy_acts import ApprovalStep, approvals_of
from voile.records.ledger.reading import (
    Forecast,
    Remaining,
    forecast,
    how_many,
    recent_charges,
    remaining,
    would_cost,
)
from voile.records.ledger.replay import (
    About,
    Asked,
    NamedRecord,
    PublicInput,
    Question,
    ReplayKey,
    WholeDataset,
)
from voile.records.ledger.report import BudgetReport, PlanUse, budget_report, watch
from voile.records.ledger.shares import (
    AccountShare,
    AccountShares,
    RecentUse,
    SharePoint,
    Subtree,
    latest_acts,
    latest_charges,
    recent_use,
)
from voile.records.ledger.tables import PART, Act, AnswerRow, ApprovalRow, Entry
from voile.records.ledger.tree import AccountNode, share_of

__all__ = [
    "LONGEST_NAME",
    "PART",
    "THRESHOLDS",
    "About",
    "Account",
    "AccountChange",
    "AccountNode",
    "AccountPolicy",
    "AccountShare",
    "AccountShares",
    "Act",
    "AdaptiveSpending",
    "Alert",
    "AnswerRow",
    "ApprovalRow",
    "ApprovalStep",
    "Asked",
    "BudgetReport",
    "Calendar",
    "Charge",
    "ChargedAnswer",
    "Children",
    "Entry",
    "Forecast",
    "Grant",
    "Ledger",
    "Measure",
    "NamedRecord",
    "OldAnswers",
    "Opening",
    "PlanUse",
    "PlannedSpending",
    "PublicInput",
    "Question",
    "RecentUse",
    "Remaining",
    "ReplayKey",
    "Risk",
    "SharePoint",
    "Subtree",
    "WholeDataset",
    "approvals_of",
    "budget_report",
    "charge_name",
    "check_fits",
    "check_words",
    "child_of",
    "erase_answers",
    "forecast",
    "how_many",
    "latest_acts",
    "latest_charges",
    "old_answers",
    "policy_of",
    "recent_charges",
    "recent_use",
    "remaining",
    "share_of",
    "watch",
    "would_cost",
]
