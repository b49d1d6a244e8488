"""The reconstruction watch: patterns in the journal that somebody should look at.

For the custodian only. It never refuses anything, and nothing an analyst can see depends on it: a
refusal that depended on which records were asked about would itself say something about them. What
protects the records is the budget; the watch tells the custodian whom to talk to.

Rules (all over the latest charges on an account and below it):

1. *overlap*: one caller asked at least `OVERLAP_TIMES` times about populations of which any two
   have at least `OVERLAP_SHARE` of their records in common (of the smaller one).
2. *differencing*: two populations differ in at least one and at most `FEW_RECORDS` records: their
   difference is about those few. By whichever callers.
3. *exhaustion*: more than `FAST_SHARE` of the budget was used within a day, or one caller alone
   used more than half of what is gone, at least a quarter of the budget.
4. *averaging*: one question was answered with fresh noise at least `FRESH_TIMES` times.

Populations are compared by keyed digests, which never leave the ledger; a finding names charges and
callers, not records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from voile.privacy.accounting.measures import Sums, consumed, plus
from voile.records.ledger.charging import KEPT_DIGEST, charge_name
from voile.records.ledger.event_text import unpacked
from voile.records.ledger.ledger import Ledger
from voile.records.ledger.reading import DAY, recent_charges
from voile.records.ledger.tables import POPULATIONS, Entry
from voile.records.ledger.tree import AccountNode, share_of
from voile.records.storage import Reader

OVERLAP_TIMES: Final = 5
OVERLAP_SHARE: Final = 0.9
FEW_RECORDS: Final = 5
FAST_SHARE: Final = 0.25
FRESH_TIMES: Final = 3
MOST_POPULATIONS: Final = 200
"""Compared with each other; the latest ones."""
MOST_CHARGES: Final = 10_000


@dataclass(frozen=True)
class Finding:
    """Something a rule noticed."""

    rule: str
    callers: tuple[str, ...]
    charges: tuple[str, ...]
    detail: str


@dataclass(frozen=True)
class _Asked:
    entry: Entry
    records: frozenset[bytes]


def watch(ledger: Ledger, t: Reader, account: str) -> tuple[Finding, ...]:
    """What the rules notice about an account and those below it."""
    node = ledger.node(t, account)
    charges = recent_charges(ledger, t, account, since=float("inf"), at_least=MOST_CHARGES)
    asked = [_Asked(entry, _population(t, entry)) for entry in charges if entry.population]
    asked = asked[:MOST_POPULATIONS]
    return (
        *_overlap(asked),
        *_differencing(asked),
        *_exhaustion(node, charges, share_of(t, node), ledger.now()),
        *_averaging(charges),
    )


def _population(t: Reader, entry: Entry) -> frozenset[bytes]:
    row = t.get(POPULATIONS, entry.root, entry.number)
    content = b"" if row is None else row.records
    return frozenset(content[n : n + KEPT_DIGEST] for n in range(0, len(content), KEPT_DIGEST))


def _overlap(asked: Sequence[_Asked]) -> Iterator[Finding]:
    """Rule 1: a greedy group around each caller's latest population."""
    by_caller: defaultdict[str, list[_Asked]] = defaultdict(list)
    for each in asked:
        by_caller[each.entry.caller].append(each)
    for caller, mine in by_caller.items():
        group: list[_Asked] = []
        for each in mine:
            if all(_common(each.records, other.records) >= OVERLAP_SHARE for other in group):
                group.append(each)
        if len(group) >= OVERLAP_TIMES:
            detail = f"asked {len(group)} times about nearly the same records"
            yield Finding("overlap", (caller,), _names(group), detail)


def _differencing(asked: Sequence[_Asked]) -> Iterator[Finding]:
    """Rule 2."""
    for one, two in combinations(asked, 2):
        if abs(len(one.records) - len(two.records)) > FEW_RECORDS:
            continue
        differ = len(one.records ^ two.records)
        if 1 <= differ <= FEW_RECORDS:
            callers = tuple(sorted({one.entry.caller, two.entry.caller}))
            detail = f"two populations differ in {differ} record(s): their difference is about them"
            yield Finding("differencing", callers, _names([one, two]), detail)


def _exhaustion(
    node: AccountNode, charges: Sequence[Entry], share: float, now: float
) -> Iterator[Finding]:
    """Rule 3."""
    latest = max((entry.time for entry in charges), default=now)
    day = [entry for entry in charges if entry.time > max(now, latest) - DAY]
    used = _share(node, day)
    if used > FAST_SHARE:
        callers = tuple(sorted({entry.caller for entry in day}))
        detail = f"{used:.0%} of the budget was used within a day"
        yield Finding("exhaustion", callers, tuple(map(charge_name, day[:10])), detail)
    for caller in {entry.caller for entry in charges}:
        mine = [entry for entry in charges if entry.caller == caller]
        alone = _share(node, mine)
        if alone >= 0.25 and alone > share / 2 and len(mine) < len(charges):
            detail = f"one caller alone used {alone:.0%} of the budget"
            yield Finding("exhaustion", (caller,), tuple(map(charge_name, mine[:10])), detail)


def _averaging(charges: Sequence[Entry]) -> Iterator[Finding]:
    """Rule 4."""
    counts = Counter(entry.query for entry in charges)
    for query, count in counts.items():
        if count >= FRESH_TIMES:
            same = [entry for entry in charges if entry.query == query]
            callers = tuple(sorted({entry.caller for entry in same}))
            detail = f"one question was answered {count} times with fresh noise"
            yield Finding("averaging", callers, tuple(map(charge_name, same)), detail)


def _share(node: AccountNode, charges: Sequence[Entry]) -> float:
    account = node.account
    if account.is_plan or account.measure is None:
        return 0.0
    total: Sums = account.measure.nothing
    for entry in charges:
        if entry.cost:
            total = plus(total, unpacked(entry.cost, 1)[0])
    return consumed(total, account.budgets)


def _common(one: frozenset[bytes], two: frozenset[bytes]) -> float:
    return len(one & two) / max(1, min(len(one), len(two)))


def _names(asked: Sequence[_Asked]) -> tuple[str, ...]:
    return tuple(charge_name(each.entry) for each in asked)
