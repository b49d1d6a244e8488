"""Norms from public facts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from voile.core.errors import InvalidInput
from voile.training.private import classifier_norm, surrogate_norm


@pytest.mark.parametrize(
    ("rule", "least", "most"), [(classifier_norm, 0.5, 2.0), (surrogate_norm, 0.05, 0.5)]
)
def test_norms_grow_with_the_rows_of_a_client(
    rule: Callable[[int], float], least: float, most: float
) -> None:
    norms = [rule(rows) for rows in (1, 500, 1_000, 2_000, 3_000, 5_000, 20_000)]
    assert norms == sorted(norms)
    assert (norms[0], norms[-1]) == (least, most)
    assert len(set(norms)) > 3
    with pytest.raises(InvalidInput, match="found 0"):
        rule(0)
