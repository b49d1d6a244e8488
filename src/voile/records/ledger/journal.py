"""What was written: the journal's entries and the stored answers, for whoever checks them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from voile.records.ledger.charging import charge_name
from voile.records.ledger.tables import ANSWERS, ENTRIES, Act, AnswerRow, Entry
from voile.records.storage import Reader

_PAGE: Final = 500
_PAGE_OF_ANSWERS: Final = 100


def entries_of(t: Reader, root: str) -> Iterator[Entry]:
    """The journal of a tree, a page at a time."""
    after: int | None = None
    while page := t.scan(ENTRIES, root, after=after, limit=_PAGE):
        yield from page
        after = page[-1].number


def entry_at(t: Reader, root: str, number: int) -> Entry | None:
    """One entry of a tree's journal."""
    return t.get(ENTRIES, root, number)


def answer_of(t: Reader, entry: Entry) -> AnswerRow | None:
    """The answer that is stored for a charge."""
    return t.get(ANSWERS, entry.query, entry.number)


def all_answers(t: Reader) -> Iterator[AnswerRow]:
    """A page at a time, also within one question that was answered many times."""
    page = t.scan(ANSWERS, limit=_PAGE_OF_ANSWERS)
    while page:
        yield from page
        query, number = page[-1].query, page[-1].number
        page = t.scan(ANSWERS, query, after=number, limit=_PAGE_OF_ANSWERS) or t.scan(
            ANSWERS, after=query, limit=_PAGE_OF_ANSWERS
        )


__all__ = [
    "Act",
    "AnswerRow",
    "Entry",
    "all_answers",
    "answer_of",
    "charge_name",
    "entries_of",
    "entry_at",
]
