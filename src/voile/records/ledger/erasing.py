"""Erasing what is older than a moment: stored answers, and keyed names of the records behind them.

Charges stay, and with them every balance: what was spent is spent. What was made once from a whole
data set stays as well (moments, networks): models are compared with it, and it names nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.records.ledger.history import all_answers
from voile.records.ledger.tables import ANSWERS, BALANCES, ENTRIES, POPULATIONS, AnswerRow
from voile.records.storage import Reader, Transaction
from voile.records.storage.tables import Key

_PAGE = 100


@dataclass(frozen=True)
class OldAnswers:
    """What the ledger keeps from before a moment, by its keys.

    Args:
        answers: of stored answers.
        charges: the ledger's names for what they were charged as.
        populations: of keyed digests of records.
    """

    answers: tuple[Key, ...]
    charges: frozenset[str]
    populations: tuple[Key, ...]


def old_answers(t: Reader, before: float) -> OldAnswers:
    """All of it. Nothing is added to it later: a ledger never goes back in time."""
    found = [each for each in all_answers(t) if each.time < before and _is_explanation(each)]
    return OldAnswers(
        tuple((each.query, each.number) for each in found),
        frozenset(f"{each.root}#{each.number}" for each in found),
        tuple(_old_populations(t, before)),
    )


def erase_answers(t: Transaction, found: OldAnswers) -> int:
    """Erase it; how many answers were there."""
    t.delete_all(POPULATIONS, found.populations)
    return t.delete_all(ANSWERS, found.answers)


def _old_populations(t: Reader, before: float) -> Iterator[Key]:
    for balance in t.scan(BALANCES):
        root, after = balance.account, None
        while page := t.scan(POPULATIONS, root, after=after, limit=_PAGE):
            after = page[-1].number
            for row in page:
                entry = t.get(ENTRIES, root, row.number)
                if entry is not None and entry.time < before:
                    yield (root, row.number)


def _is_explanation(kept: AnswerRow) -> bool:
    """The log commits to an explanation as any copy of it proves, to anything else as it is kept;
    an explanation that is kept so already has one digest."""
    if kept.digest != kept.committed:
        return True
    try:
        Explanation.from_bytes(kept.answer)
    except InvalidInput:
        return False
    return True
