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

from voile.ledger.measures import Sums, growth, larger, packed, plus, unpacked


class Standing(NamedTuple):
    """The four running sums of one account."""

    spent: Sums
    direct: Sums
    peak: Sums
    carried: Sums

    @classmethod
    def fresh(cls, nothing: Sums) -> Standing:
        return cls(nothing, nothing, nothing, nothing)

    @classmethod
    def unpack(cls, content: bytes) -> Standing:
        return cls._make(unpacked(content, 4))

    def pack(self) -> bytes:
        return packed(*self)

    def renewed(self, *, carried: bool) -> Standing:
        """After a renewal; what it carried is kept where only this account is renewed."""
        nothing = tuple(0.0 for _ in self.spent)
        return Standing(nothing, nothing, nothing, self.carried if carried else nothing)


class Account(Protocol):
    """One account on the way up: what kind it is, and where it stands."""

    @property
    def is_plan(self) -> bool: ...

    @property
    def is_parallel(self) -> bool: ...

    @property
    def standing(self) -> Standing: ...


class Step(NamedTuple):
    """The same by itself."""

    is_plan: bool
    is_parallel: bool
    standing: Standing


def charged(path: Sequence[Account], cost: Sums) -> list[Standing]:
    """Where all accounts on a path stand after a charge on its first; the last is the root."""
    first = _charged_directly(path[0], cost)
    after, grown = [first], _grown(path[0], first, cost)
    for step in path[1:]:
        if not any(grown):
            after += [above.standing for above in path[len(after) :]]
            break
        spent, direct, peak, carried = after[-1]
        carried = plus(carried, grown)
        after[-1] = Standing(spent, direct, peak, carried)
        after.append(_charged_from_below(step, carried, grown))
        grown = _grown(step, after[-1], grown)
    return after


def _charged_directly(step: Account, cost: Sums) -> Standing:
    if step.is_plan:  # paid whole by the accounts above; its own bound is its list of parts
        return step.standing
    spent, direct, peak, carried = step.standing
    if step.is_parallel:
        direct = plus(direct, cost)
        return Standing(plus(direct, peak), direct, peak, carried)
    return Standing(plus(spent, cost), direct, peak, carried)


def _charged_from_below(step: Account, from_below: Sums, grown: Sums) -> Standing:
    spent, direct, peak, carried = step.standing
    if not step.is_parallel:
        return Standing(plus(spent, grown), direct, peak, carried)
    higher = larger(peak, from_below)
    if higher == peak:
        return step.standing
    return Standing(plus(direct, higher), direct, higher, carried)


def _grown(step: Account, after: Standing, charged_here: Sums) -> Sums:
    """What the next account up is charged: for all but parallel accounts, exactly the same."""
    if step.is_parallel:
        return growth(step.standing.spent, after.spent)
    return charged_here
