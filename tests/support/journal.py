"""The journal of a ledger, recomputed at once."""

from __future__ import annotations

from voile.records.ledger.history import (
    JournalCheck,
    differences,
    entries_of,
    forgotten_alerts,
    misplaced,
)
from voile.records.ledger.tree import AccountNode
from voile.records.storage import Reader


def check_journal(t: Reader, nodes: list[AccountNode]) -> list[str]:
    """Whether all balances are what the journal makes them, and the journal has no gap."""
    check = JournalCheck({node.account.name: node.account for node in nodes})
    for root in [node.account.name for node in nodes if node.account.parent is None]:
        for entry in entries_of(t, root):
            check.take(entry)
    sums = differences(t, nodes, check.found)
    return [*check.problems, *sums, *misplaced(t, nodes), *forgotten_alerts(t, nodes)]
