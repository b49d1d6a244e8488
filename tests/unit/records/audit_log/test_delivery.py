"""A transaction on its way into a chain that forgets, replaces, delays and reverts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voile.core.errors import InvalidInput
from voile.records.audit_log.delivery import (
    ChainFault,
    DeliveryTerms,
    Fees,
    MinedTransaction,
    deliver,
)

TERMS = DeliveryTerms(confirmations=3, patience=100.0, raise_after=10.0, poll=1.0)


@dataclass
class ScriptedChain:
    """A chain of one account, moved on by the test: `at` says what happens at which second."""

    at: dict[int, Callable[[ScriptedChain], None]] = field(default_factory=dict)
    usual: Fees = field(default_factory=lambda: Fees(100, 10))
    next_number: int = 5
    waiting: int = 0
    blocks: int = 1000
    pool: dict[str, bytes] = field(default_factory=dict)
    done: dict[str, MinedTransaction] = field(default_factory=dict)
    sent: list[tuple[int, Fees]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    refuses: bool = False
    away: bool = False
    now: float = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        happens = self.at.get(int(self.now))
        if happens:
            happens(self)

    def mined_count(self) -> int:
        if self.away:
            raise ChainFault("away")
        return self.next_number

    def waiting_count(self) -> int:
        return self.next_number + self.waiting

    def height(self) -> int:
        return self.blocks

    def usual_fees(self) -> Fees:
        return self.usual

    def sign(self, call: dict[str, Any], nonce: int, fees: Fees) -> tuple[str, bytes]:
        self.sent.append((nonce, fees))
        name = f"{call['what']}/{nonce}/{fees.most}"
        return name, name.encode()

    def send(self, signed: bytes) -> None:
        if self.refuses:
            raise ChainFault("refused")
        self.raw.append(signed)
        self.pool[signed.decode()] = signed

    def knows(self, transaction: str) -> bool:
        return transaction in self.pool or transaction in self.done

    def mined(self, transaction: str) -> MinedTransaction | None:
        return self.done.get(transaction)

    def mine(self, *, which: int = 0, succeeded: bool = True) -> None:
        name = list(self.pool)[which]
        self.blocks += 1
        self.next_number += 1
        self.done[name] = MinedTransaction(name, self.blocks, "0x", succeeded, 36_000)
        self.pool.clear()

    def grow(self, blocks: int) -> None:
        self.blocks += blocks

    def revert(self) -> None:
        """The block that held it is replaced by another one without it."""
        (name,) = self.done
        del self.done[name]
        self.next_number -= 1


def run(chain: ScriptedChain, terms: DeliveryTerms = TERMS) -> MinedTransaction:
    return deliver(chain, {"what": "x"}, terms, clock=chain.clock, sleep=chain.sleep)


def test_it_counts_only_when_enough_blocks_lie_above() -> None:
    at = {2: ScriptedChain.mine, 4: lambda c: c.grow(1), 7: lambda c: c.grow(1)}
    chain = ScriptedChain(at=at)
    assert run(chain).transaction == "x/5/100"
    assert chain.now == 7
    assert chain.raw == [b"x/5/100"]


def test_what_the_node_forgot_is_sent_again_bit_for_bit() -> None:
    def forget(chain: ScriptedChain) -> None:
        chain.pool.clear()

    chain = ScriptedChain(at={2: forget, 5: ScriptedChain.mine, 6: lambda c: c.grow(5)})
    run(chain)
    assert chain.raw == [b"x/5/100"] * 2


def test_fees_are_raised_by_an_eighth_and_either_attempt_may_be_mined() -> None:
    for which in (0, 1):
        chain = ScriptedChain(at={12: partial(ScriptedChain.mine, which=which)})
        chain.at[13] = lambda c: c.grow(5)
        mined = run(chain)
        assert [fees.most for _, fees in chain.sent] == [100, 113]
        assert {nonce for nonce, _ in chain.sent} == {5}
        assert mined.transaction == ("x/5/100", "x/5/113")[which]


def test_fees_stop_at_the_limit() -> None:
    chain = ScriptedChain()
    with pytest.raises(ChainFault, match="still waits"):
        run(chain, replace(TERMS, most_per_gas=120))
    assert [fees.most for _, fees in chain.sent] == [100, 113]
    with pytest.raises(ChainFault, match="nothing was sent"):
        run(empty := ScriptedChain(), replace(TERMS, most_per_gas=99))
    assert not empty.sent


def test_a_transaction_that_took_its_place_is_told() -> None:
    def taken(chain: ScriptedChain) -> None:
        chain.pool.clear()
        chain.next_number += 1

    chain = ScriptedChain(at={3: taken})
    with pytest.raises(ChainFault, match="took the place"):
        run(chain)
    assert chain.raw == [b"x/5/100"], "nothing is sent under a number that is gone"


def test_a_node_that_lags_by_a_look_is_not_taken_for_a_replacement() -> None:
    def lag(chain: ScriptedChain) -> None:
        chain.next_number += 1

    def catch_up(chain: ScriptedChain) -> None:
        chain.next_number -= 1
        chain.mine()
        chain.grow(5)

    assert run(ScriptedChain(at={3: lag, 4: catch_up})).transaction == "x/5/100"


def test_a_block_that_is_replaced_does_not_count() -> None:
    at = {
        2: ScriptedChain.mine,
        3: ScriptedChain.revert,
        6: ScriptedChain.mine,
        7: lambda c: c.grow(5),
    }
    chain = ScriptedChain(at=at)
    run(chain)
    assert chain.now == 7
    assert chain.raw == [b"x/5/100"] * 2, "the node forgot it with the block"


def test_nothing_is_sent_while_another_one_waits_unless_it_is_to_be_replaced() -> None:
    with pytest.raises(ChainFault, match="--replace"):
        run(chain := ScriptedChain(waiting=1))
    assert not chain.sent
    at = {1: ScriptedChain.mine, 2: lambda c: c.grow(5)}
    run(chain := ScriptedChain(waiting=1, at=at), replace(TERMS, replace=True))
    assert chain.sent == [(5, Fees(113, 12))]


def test_a_node_that_is_away_for_a_while_is_waited_for() -> None:
    def away(chain: ScriptedChain) -> None:
        chain.away = not chain.away

    at = {2: away, 3: lambda c: c.mine(), 20: away, 21: lambda c: c.grow(5)}
    assert run(ScriptedChain(at=at)).transaction == "x/5/100"


def test_refusals_are_told() -> None:
    with pytest.raises(ChainFault, match="refused it in block"):
        run(ScriptedChain(at={1: lambda c: c.mine(succeeded=False)}))
    with pytest.raises(ChainFault, match="refused"):
        run(ScriptedChain(refuses=True))
    with pytest.raises(ChainFault, match="1 of 3 blocks deep"):
        run(ScriptedChain(at={1: ScriptedChain.mine}))


def test_terms_are_checked() -> None:
    changes: list[dict[str, Any]] = [{"confirmations": 0}, {"patience": 0.0}, {"poll": math.nan}]
    for change in changes:
        with pytest.raises(InvalidInput):
            replace(TERMS, **change)


@given(*[st.integers(1, 10**12) for _ in range(4)])
def test_a_replacement_pays_an_eighth_more_on_both_counts(a: int, b: int, c: int, d: int) -> None:
    old, now = Fees(a, b), Fees(c, d)
    new = old.raised(now)
    assert 8 * new.most >= 9 * a
    assert 8 * new.tip >= 9 * b
    assert new.most >= c
    assert new.tip >= d
