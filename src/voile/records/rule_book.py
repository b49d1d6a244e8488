"""What rules keep beside ledger and log: the rules in force, where they stand, what is to be sent.

Every function works inside a transaction of the caller's, as the ledger's do. What is to be sent
(the outbox) is written in the transaction that caused it and read later, so a crash loses none.

Compatibility promise: tables of a released version keep their names, columns and meaning; a change
is a new version of `PART` with a migration.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from voile.records.storage import Part, Reader, Table, Transaction
from voile.records.storage.tables import Key


class RuleBookRow(NamedTuple):
    """The rules in force: their texts as a JSON list."""

    name: str
    texts: str


class StandingRow(NamedTuple):
    """Where the rules stand with one caller, or, without a caller, with everything else.

    One row for all subjects: a charge rewrites two rows at most, however many rules there are.

    Args:
        states: JSON; a list of subject, name of the rule, and its state.
    """

    caller: str
    states: str


class OutboxRow(NamedTuple):
    """Something that people are to be told.

    Args:
        custodian: 1 if it is for the custodian alone.
        body: JSON.
    """

    number: int
    time: float
    custodian: int
    body: str


class ChannelRow(NamedTuple):
    """How far a channel has come with the outbox.

    Args:
        number: of the last message that was delivered, or left out.
        attempts: for the next one, so far.
        retry: when to try again.
        problem: what went wrong last.
    """

    channel: str
    number: int
    attempts: int
    retry: float
    problem: str


BOOK: Final = Table("rules_book", RuleBookRow, key=("name",))
STANDINGS: Final = Table("rules_standings", StandingRow, key=("caller",))
OUTBOX: Final = Table("rules_outbox", OutboxRow, key=("number",))
CHANNELS: Final = Table("rules_channels", ChannelRow, key=("channel",))
PART: Final = Part("rules", (BOOK, STANDINGS, OUTBOX, CHANNELS))
"""Every vault is opened with this part."""
IN_FORCE: Final = "in force"
"""The one row of the book."""
_PAGE: Final = 100


def book_rows(t: Reader) -> list[tuple[Table[Any], Key]]:
    """What is read for the rules in force, unless they are remembered."""
    return [] if BOOK.name in t.memory else [(BOOK, (IN_FORCE,))]


def texts_in_force(t: Reader) -> list[str]:
    """The rules in force; none in a database that never had any."""
    row = t.get(BOOK, IN_FORCE)
    return [] if row is None else json.loads(row.texts)


def keep_texts(t: Transaction, texts: Sequence[str]) -> None:
    """Put rules in force."""
    t.put_all(BOOK, [RuleBookRow(IN_FORCE, json.dumps(list(texts)))])


def add_message(t: Transaction, body: dict[str, Any], *, time: float, custodian: bool) -> None:
    """Leave something to be sent, once this transaction is committed."""
    last = t.scan(OUTBOX, limit=1, descending=True)
    number = last[0].number + 1 if last else 1
    text = json.dumps({**body, "event.sequence": number}, ensure_ascii=False)
    t.insert(OUTBOX, OutboxRow(number, time, int(custodian), text))


def channel(t: Reader, name: str) -> ChannelRow:
    """How far a channel has come."""
    return t.get(CHANNELS, name) or ChannelRow(name, 0, 0, 0.0, "")


def keep_channel(t: Transaction, row: ChannelRow) -> None:
    """Remember how far it has come."""
    t.put_all(CHANNELS, [row])


def messages(t: Reader, after: int) -> list[OutboxRow]:
    """The next ones, in order."""
    return t.scan(OUTBOX, after=after, limit=_PAGE)


def message_count(t: Reader) -> int:
    """The number of the last message."""
    last = t.scan(OUTBOX, limit=1, descending=True)
    return last[0].number if last else 0
