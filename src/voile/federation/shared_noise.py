"""Noise in shares, as pipelines agree on it: how many shares there are, and what is promised.

A secure sum shows nobody a single term, so each party may add a part of the noise. It is sized for
the honest parties that are in every sum at least: t survive, and c of them may collude.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from voile.core.errors import Refused
from voile.core.guarantee import Adversary
from voile.federation.aggregators import WholeSum
from voile.federation.round_protocol import PlainRound, RoundProtocol
from voile.federation.secure_sum import SecureSum


def shares_of(protocol: RoundProtocol, parties: int, shared: bool | None = None) -> int:
    """How many honest parties give all of the noise together; 1 where each adds all of it.

    Args:
        protocol: of every round; everybody is asked.
        parties: how many there are.
        shared: whether parties share the noise; as is best, if None.

    >>> from voile.federation import PlainRound
    >>> shares_of(PlainRound(), 5)
    1
    """
    if not isinstance(protocol, SecureSum):
        if shared:
            raise Refused(
                "shared noise protects a sum and no single update, so updates have to be added up "
                "in secret: set secure = true, or use local noise"
            )
        return 1
    if shared is False:
        return 1
    return protocol.model.threshold_of(parties) - protocol.model.colluders


def of_whole_numbers(protocol: RoundProtocol) -> RoundProtocol:
    """The same exchange, of which the exact sum comes."""
    if isinstance(protocol, SecureSum):
        return replace(protocol, aggregator=WholeSum())
    return PlainRound(WholeSum())


def seen_by(shares: int, secrecy: Sequence[str]) -> tuple[Adversary, ...]:
    """Against whom a sum with so many shares holds; single updates have less noise than it."""
    sums = (Adversary.SERVER_SEEING_SUMS,) if secrecy else ()
    updates = (Adversary.SERVER_SEEING_UPDATES,) if shares == 1 else ()
    return (Adversary.PUBLIC, *sums, *updates, Adversary.OTHER_CLIENTS)


def sharing_assumptions(shares: int, alone: float, secrecy: Sequence[str]) -> tuple[str, ...]:
    """What is assumed about shares, and what holds against more than that.

    Args:
        shares: how many give all of the noise.
        alone: epsilon of a single update, with one share of it.
        secrecy: what it rests on that nobody sees single updates.

    >>> sharing_assumptions(1, 2.0, ["keys are secret"])
    ('if a server sees single updates all the same, the figures hold',)
    """
    if shares == 1:
        held = "if a server sees single updates all the same, the figures hold"
        return (held,) if secrecy else ()
    return (
        f"at least {shares} honest parties add their share of the noise to every sum; "
        f"with fewer, h, the cost (rho) is {shares}/h times as large",
        "if a server sees single updates, or all other parties collude with it: epsilon = "
        f"{alone:.4g} at the same delta, from a party's own share alone",
    )
