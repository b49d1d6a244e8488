"""Which rounds of a federation are on record: one row for each, and one for the last.

At the server, those that it has written down; at a party, those that it was shown in a secure sum.
The audit log holds the rounds themselves. These rows say in constant time whether a round is there
already, and which one the next is chained to; they are written in the transaction of the record.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from voile.records.storage import Part, Reader, Table, Transaction

_LAST: Final = 0
"""Rounds count from one; the row of this number repeats the round that was written last."""


class WrittenRound(NamedTuple):
    """A round on record: digest of its model, and the hash that the next one is chained to.

    At a party, which is shown rounds and no models, `model` is what the round itself is chained to.
    """

    federation: str
    round: int
    model: bytes
    published_hash: bytes


ROUNDS: Final = Table("federation_rounds", WrittenRound, key=("federation", "round"))
PART: Final = Part("federation", (ROUNDS,))


def is_written(t: Reader, federation: str, number: int, model: bytes) -> bool:
    """Whether this very round is on record."""
    found = t.get(ROUNDS, federation, number)
    return found is not None and found.model == model


def last_hash(t: Reader, federation: str) -> bytes | None:
    """What the next round is chained to; None before the first."""
    found = round_on_record(t, federation, _LAST)
    return None if found is None else found.published_hash


def round_on_record(t: Reader, federation: str, number: int) -> WrittenRound | None:
    """None if it is not there."""
    return t.get(ROUNDS, federation, number)


def remember(t: Transaction, written: WrittenRound) -> None:
    """This round was written down just now, and is the last one."""
    for row in (written, written._replace(round=_LAST)):
        known = t.get(ROUNDS, row.federation, row.round) is not None
        (t.replace if known else t.insert)(ROUNDS, row)
