"""Any t shares give the secret back; fewer say nothing about it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voile.core.errors import InvalidInput, Refused
from voile.federation.secure_aggregation import shamir
from voile.federation.secure_aggregation.shamir import PRIME, SHARE_SIZE, joined, split


def is_prime(number: int) -> bool:
    """Miller and Rabin, forty bases."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 42):
        power = pow(base, odd, number)
        if power not in (1, number - 1):
            for _ in range(twos - 1):
                power = power * power % number
                if power == number - 1:
                    break
            else:
                return False
    return True


def test_the_field_is_the_smallest_that_holds_every_secret() -> None:
    assert [n for n in range(2**256, PRIME + 1) if n % 2 and n % 3 and is_prime(n)] == [PRIME]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_t_shares_give_the_secret_back(data: Any) -> None:
    secret = data.draw(st.binary(min_size=32, max_size=32))
    holders = data.draw(st.lists(st.integers(1, 1000), unique=True, min_size=1, max_size=12))
    threshold = data.draw(st.integers(1, len(holders)))
    shares = split(secret, holders, threshold)
    chosen = data.draw(
        st.lists(st.sampled_from(holders), unique=True, min_size=threshold, max_size=len(holders))
    )
    assert joined({holder: shares[holder] for holder in chosen}, threshold) == secret
    assert {len(share) for share in shares.values()} == {SHARE_SIZE}


def test_every_secret_fits_fewer_shares_equally_well() -> None:
    """For any other secret there is one value of the missing share that gives it."""
    shares = split(bytes(32), [1, 2, 3], 3)
    for wanted in (bytes(31) + b"\x07", b"\xff" * 32):
        weights = shamir._weights((1, 2, 3))
        known = sum(int.from_bytes(shares[h], "big") * weights[h - 1] for h in (1, 2))
        missing = (int.from_bytes(wanted, "big") - known) * pow(weights[2], -1, PRIME) % PRIME
        assert joined({**shares, 3: missing.to_bytes(SHARE_SIZE, "big")}, 3) == wanted


def test_shares_are_drawn_anew_each_time() -> None:
    drawn = {split(bytes(32), [1, 2], 2)[1] for _ in range(20)}
    assert len(drawn) == 20


def test_too_few_shares_and_shares_of_nothing_are_refused() -> None:
    shares = split(b"s" * 32, [1, 2, 3], 2)
    with pytest.raises(Refused, match="2 shares are needed"):
        joined({1: shares[1]}, 2)
    with pytest.raises(Refused, match="no secret"):
        joined({1: (PRIME - 1).to_bytes(SHARE_SIZE, "big")}, 1)


@pytest.mark.parametrize(
    ("secret", "holders", "threshold"),
    [(b"short", [1], 1), (bytes(32), [1], 2), (bytes(32), [1, 1], 1), (bytes(32), [0], 1)],
)
def test_what_cannot_be_shared_is_refused(secret: bytes, holders: Any, threshold: int) -> None:
    with pytest.raises(InvalidInput):
        split(secret, holders, threshold)
