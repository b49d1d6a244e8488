"""The arithmetic of a tree of accounts: pure functions over running sums.

For each account four sums are kept:

- *spent*: what its records can have met in this period. A sequential account adds up; a parallel
  one has its own charges (*direct*) plus the largest that any account below carried up (*peak*).
- *carried*: what the account has added to its parent in the parent's period. It outlives a renewal
  of the account itself, because the parent has not been renewed.

A charge walks from an account up to the root, and at each step says by how much *spent* grew: that
is what the next account up is charged. A parallel account whose peak does not move therefore costs
the accounts above it nothing. The proof is in docs/guarantees/ledger.md.

Charging, verifying and drawing the curve of a report all use these functions, so totals recomputed
from a journal or from the audit log are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from voile.privacy.accounting.measures import Sums, growth, larger, plus
from voile.records.ledger.event_text import packed, unpacked


class RunningTotals(NamedTuple):
    """The four running sums of one account."""

    spent: Sums
    direct: Sums
    peak: Sums
    carried: Sums

    @classmethod
    def fresh(cls, nothing: Sums) -> RunningTotals:
        return cls(nothing, nothing, nothing, nothing)

    @classmethod
    def unpack(cls, content: bytes) -> RunningTotals:
        return cls._make(unpacked(content, 4))

    def pack(self) -> bytes:
        spent, direct, peak, carried = self
        return packed(spent + direct + peak + carried)

    def renewed(self, *, carried: bool) -> RunningTotals:
        """After a renewal; what it carried is kept where only this account is renewed."""
        nothing = tuple(0.0 for _ in self.spent)
        return RunningTotals(nothing, nothing, nothing, self.carried if carried else nothing)


class Kind(Protocol):
    """What matters of an account here."""

    @property
    def is_plan(self) -> bool: ...

    @property
    def is_parallel(self) -> bool: ...


class AccountOnPath(Protocol):
    """One account on the way up."""

    @property
    def account(self) -> Kind: ...

    @property
    def standing(self) -> RunningTotals: ...


def charged(path: Sequence[AccountOnPath], cost: Sums) -> list[RunningTotals]:
    """Where all accounts on a path stand after a charge on its first; the last is the root.

    An account that is not reached keeps the very object.
    """
    after = [step.standing for step in path]
    grown = from_below = cost
    for place, step in enumerate(path):
        account = step.account
        spent, direct, peak, carried = before = after[place]
        if account.is_parallel:
            if place == 0:
                direct = plus(direct, cost)
                spent = plus(direct, peak)
            elif (higher := larger(peak, from_below)) != peak:
                peak, spent = higher, plus(direct, higher)
            grown = growth(before.spent, spent)
        elif not account.is_plan:  # a plan is paid whole by those above; its bound is its own list
            spent = plus(spent, grown)
        goes_up = place + 1 < len(path) and any(grown)
        if goes_up:
            carried = from_below = plus(carried, grown)
        standing = RunningTotals(spent, direct, peak, carried)
        if standing != before:
            after[place] = standing
        if not goes_up:
            break
    return after
