"""One transaction, from a signature to a block that is deep enough.

A node of a chain may forget a transaction, another one of the same account may take its place,
fees may rise while it waits, and a block that held it may be replaced. So a transaction is
watched until enough blocks lie above it:

1. Transactions of one account are mined in the order of their numbers (nonces). If an earlier one
   still waits, nothing is sent: it could be the one that is about to be repeated. `replace` takes
   its number instead, with higher fees.
2. What the node has forgotten is sent again, the same bytes: it can be mined once only.
3. What waits too long is signed again under the same number with higher fees, up to a limit.
4. A number that was taken by a transaction that is none of ours: replaced, told as an error.
5. A block that is replaced takes the transaction back to step 2.

No chain is imported here: `Chain` says what is needed of one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from voile.core.errors import InvalidInput, VoileError

Wei: TypeAlias = int
GWEI: Final = 10**9
_NEAR: Final = 2
"""How often a missing receipt must be seen beside a taken number: nodes behind one address differ
by a block."""


class ChainFault(VoileError):
    """The chain, or the node that speaks for it, did not do what was asked; the message says how
    far it came and what to do next."""


@dataclass(frozen=True)
class DeliveryTerms:
    """How long to wait, and what to pay at most.

    Args:
        confirmations: blocks, the transaction's own included, until it counts.
        patience: seconds for everything.
        raise_after: seconds without being mined until the fees are raised.
        poll: seconds between two looks.
        most_per_gas: the fee per unit of gas that is not exceeded; None for no limit.
        replace: take the place of a transaction of this account that waits.
    """

    confirmations: int = 12
    patience: float = 900.0
    raise_after: float = 90.0
    poll: float = 1.0
    most_per_gas: Wei | None = None
    replace: bool = False

    def __post_init__(self) -> None:
        times = (self.patience, self.raise_after, self.poll)
        if self.confirmations < 1 or not all(0 < t < math.inf for t in times):
            raise InvalidInput("expected at least one confirmation, and positive, finite times")


@dataclass(frozen=True)
class Fees:
    """Per unit of gas: the most that is paid, and what of it goes to whoever mines the block.
    Where a chain knows no base fee, both are its gas price."""

    most: Wei
    tip: Wei
    base_fee: bool = True

    def raised(self, now: Fees) -> Fees:
        """At least an eighth more than before, which nodes ask of a replacement, and not less than
        what is usual now."""
        most, tip = (max(-(-old * 9 // 8), new) for old, new in zip(self, now, strict=True))
        return Fees(most, tip, self.base_fee)

    def __iter__(self) -> Iterator[Wei]:
        return iter((self.most, self.tip))


@dataclass(frozen=True)
class MinedTransaction:
    """Where a transaction is."""

    transaction: str
    block: int
    block_hash: str
    succeeded: bool
    gas: int
    contract: str | None = None


class Chain(Protocol):
    """What is asked of a chain about one account."""

    def mined_count(self) -> int:
        """How many transactions of the account are mined: the number of the next one."""

    def waiting_count(self) -> int:
        """How many are mined or wait."""

    def height(self) -> int:
        """Number of the newest block."""

    def usual_fees(self) -> Fees: ...

    def sign(self, call: dict[str, Any], nonce: int, fees: Fees) -> tuple[str, bytes]:
        """Hash and bytes of the signed transaction."""

    def send(self, signed: bytes) -> None:
        """Hand it to the node; fine if the node has it already. `ChainFault` if refused."""

    def knows(self, transaction: str) -> bool:
        """Whether the node has it, mined or not."""

    def mined(self, transaction: str) -> MinedTransaction | None: ...


@dataclass
class _Attempts:
    """Everything that was signed under one number; any of it may be mined."""

    nonce: int
    fees: Fees
    signed: dict[str, bytes] = field(default_factory=dict)
    since: float = 0.0
    passed: int = 0
    """Looks in a row at which the number was taken, and not by one of ours."""

    @property
    def newest(self) -> str:
        return next(reversed(self.signed))


def deliver(
    chain: Chain,
    call: dict[str, Any],
    terms: DeliveryTerms,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> MinedTransaction:
    """Send a call, and come back when it lies deep enough; `ChainFault` otherwise."""
    deadline = clock() + terms.patience
    attempts = _first(chain, call, terms)
    attempts.since = clock()
    while True:
        try:
            found = _look(chain, attempts)
            if found is None and not attempts.passed:
                _keep_alive(chain, call, attempts, terms, clock())
        except _Blinked:
            found = None
        if found is not None and found.depth >= terms.confirmations:
            return found.mined
        if clock() >= deadline:
            raise ChainFault(_told_late(attempts, found, terms))
        sleep(terms.poll)


@dataclass(frozen=True)
class _Found:
    mined: MinedTransaction
    depth: int


class _Blinked(Exception):
    """The node did not answer this time."""


def _look(chain: Chain, attempts: _Attempts) -> _Found | None:
    """Which of ours is mined, and how deep. Raises what is final (steps 4 and a refusal)."""
    try:
        # The number before the receipts: whatever took it by now has a receipt by then.
        passed = chain.mined_count() > attempts.nonce
        found = next(filter(None, map(chain.mined, reversed(attempts.signed))), None)
        height = chain.height()
    except ChainFault as error:
        raise _Blinked from error
    attempts.passed = attempts.passed + 1 if passed and found is None else 0
    if found is None and attempts.passed >= _NEAR:
        raise ChainFault(
            f"another transaction of this account took the place of {attempts.newest}; run the "
            "command again: it looks at the contract first"
        )
    if found is not None and not found.succeeded:
        raise ChainFault(f"{found.transaction}: the contract refused it in block {found.block}")
    return None if found is None else _Found(found, height - found.block + 1)


def _first(chain: Chain, call: dict[str, Any], terms: DeliveryTerms) -> _Attempts:  # step 1
    nonce, waiting = chain.mined_count(), chain.waiting_count()
    fees = chain.usual_fees()
    if waiting > nonce:
        if not terms.replace:
            raise ChainFault(
                f"{waiting - nonce} transaction(s) of this account still wait, number {nonce} "
                "first; try again when they are mined, or take its place (--replace)"
            )
        fees = fees.raised(fees)
    if terms.most_per_gas is not None and fees.most > terms.most_per_gas:
        raise ChainFault(
            f"the chain asks for up to {fees.most / GWEI:.3g} gwei per gas, the limit is "
            f"{terms.most_per_gas / GWEI:.3g} (--max-fee); nothing was sent"
        )
    attempts = _Attempts(nonce, fees)
    _send_new(chain, call, attempts)
    return attempts


def _send_new(chain: Chain, call: dict[str, Any], attempts: _Attempts) -> None:
    name, content = chain.sign(call, attempts.nonce, attempts.fees)
    attempts.signed[name] = content
    chain.send(content)


def _keep_alive(
    chain: Chain, call: dict[str, Any], attempts: _Attempts, terms: DeliveryTerms, now: float
) -> None:
    """Steps 2 and 3. What was sent before still counts, so a refusal is no end."""
    try:
        raised = attempts.fees
        if now - attempts.since >= terms.raise_after:
            attempts.since, raised = now, attempts.fees.raised(chain.usual_fees())
        if raised != attempts.fees and raised.most <= (terms.most_per_gas or raised.most):
            attempts.fees = raised
            _send_new(chain, call, attempts)
        elif not any(map(chain.knows, attempts.signed)):
            chain.send(attempts.signed[attempts.newest])
    except ChainFault as error:
        raise _Blinked from error


def _told_late(attempts: _Attempts, found: _Found | None, terms: DeliveryTerms) -> str:
    what = f"{attempts.newest} still waits to be mined"
    if found is not None:
        what = f"{found.mined.transaction} is {found.depth} of {terms.confirmations} blocks deep"
    return (
        f"after {terms.patience:g} seconds {what}; run the command again, it goes on from what the "
        "chain holds by then"
    )
