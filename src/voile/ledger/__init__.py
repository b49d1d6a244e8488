"""The privacy ledger: budgets that cannot be overspent.

A tour, by what you want to do:

- promise something: `Opening` with a filter (`Adaptive`) or a complete list (`Planned`), below a
  parent that is `Children.SEQUENTIAL` or `Children.PARALLEL`; `Ledger.open`, `Ledger.renew`
- spend it: `Charge`, `Ledger.charge`; with the answer and its replay, `Ledger.settle`
- recognise a question: `Question`, `NamedRecord`, `PublicInput`, `ReplayKey`
- look ahead: `remaining`, `would_cost`, `how_many`, `forecast`
- decide how much to spend on the next answer: `voile.ledger.allocation`
- see it: `budget_report`, `watch` (custodian only)
- check it: `check_journal` recomputes every balance

Everything works inside a transaction of the caller's storage, opened with `PART`, so that a charge,
its answer and its record in the audit log commit together (`voile.workflows.charging` does that).
"""

from voile.ledger.accounts import (
    Account,
    Adaptive,
    Children,
    Opening,
    Planned,
    RowPart,
    Spending,
)
from voile.ledger.alerts import THRESHOLDS, Alert, Risk
from voile.ledger.charging import Charge, Grant
from voile.ledger.ledger import Ledger, Settled
from voile.ledger.measures import Measure
from voile.ledger.opening import Done
from voile.ledger.reading import (
    Forecast,
    Remaining,
    WouldCost,
    forecast,
    how_many,
    remaining,
    would_cost,
)
from voile.ledger.recomputing import check_journal
from voile.ledger.replay import Asked, NamedRecord, PublicInput, Question, ReplayKey
from voile.ledger.report import BudgetReport, budget_report
from voile.ledger.tables import PART
from voile.ledger.tree import Node
from voile.ledger.watch import Finding, watch

__all__ = [
    "PART",
    "THRESHOLDS",
    "Account",
    "Adaptive",
    "Alert",
    "Asked",
    "BudgetReport",
    "Charge",
    "Children",
    "Done",
    "Finding",
    "Forecast",
    "Grant",
    "Ledger",
    "Measure",
    "NamedRecord",
    "Node",
    "Opening",
    "Planned",
    "PublicInput",
    "Question",
    "Remaining",
    "ReplayKey",
    "Risk",
    "RowPart",
    "Settled",
    "Spending",
    "WouldCost",
    "budget_report",
    "check_journal",
    "forecast",
    "how_many",
    "remaining",
    "watch",
    "would_cost",
]
