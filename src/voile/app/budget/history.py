"""What happened to an account and those below it, for people who answer for it.

The ledger's journal says who was granted what, and what for. Refusals are in the audit log alone,
which is written to be shown and names nobody: of them the account, the time and the reason are
known.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from voile.privacy.accounting.measures import consumed
from voile.records.audit_log import AuditLog, RefusalRecord, decode_record
from voile.records.ledger import Ledger
from voile.records.ledger.journal import Entry, charge_name, entries_of
from voile.records.ledger.sums import unpacked
from voile.records.storage import Reader

REFUSED: Final = "refused"
_PAGE: Final = 1000
_MARK: Final = RefusalRecord.kind.encode()


@dataclass(frozen=True)
class BudgetAct:
    """One line of the history.

    Args:
        time: seconds since 1970.
        act: opened, charged, renewed or refused.
        caller: who; empty for a refusal.
        purpose: what for, why, or the reason of a refusal.
        share: of its account's budget, for a charge that cost something; else None.
        charge: the ledger's name for it; empty for a refusal.
    """

    time: float
    act: str
    account: str
    caller: str
    purpose: str
    share: float | None
    charge: str


def budget_history(
    ledger: Ledger, log: AuditLog, t: Reader, name: str | None = None
) -> list[BudgetAct]:
    """In the order of time: of an account and those below it, or of all accounts.

    The log counts whole seconds: within one of them, refusals come last.

    Args:
        name: of the account; all of them if None.
    """
    nodes = ledger.nodes(t) if name is None else [ledger.node(t, name), *ledger.below(t, name)]
    # What is left of a plan are releases, not a sum.
    budgets = {
        node.account.name: () if node.account.is_plan else node.account.budgets for node in nodes
    }
    roots = dict.fromkeys(node.account.root for node in nodes)
    acts = [
        _act(entry, budgets[entry.account])
        for root in roots
        for entry in entries_of(t, root)
        if entry.account in budgets
    ]
    acts.sort(key=lambda act: act.time)  # each journal is in order already
    refused = (act for act in _refusals(log, t) if name is None or act.account in budgets)
    return list(heapq.merge(acts, refused, key=lambda act: int(act.time)))


def _act(entry: Entry, budgets: tuple[float, ...]) -> BudgetAct:
    share = consumed(unpacked(entry.cost, 1)[0], budgets) if entry.cost and budgets else None
    return BudgetAct(
        time=entry.time,
        act=entry.act,
        account=entry.account,
        caller=entry.caller,
        purpose=entry.purpose,
        share=share,
        charge=charge_name(entry),
    )


def _refusals(log: AuditLog, t: Reader) -> Iterator[BudgetAct]:
    first = 0
    while page := log.records(t, first=first, limit=_PAGE):
        for content in page:
            record = decode_record(content) if _MARK in content else None
            if isinstance(record, RefusalRecord):
                yield BudgetAct(record.time, REFUSED, record.account, "", record.reason, None, "")
        first += len(page)
