"""Norms from public facts."""

from __future__ import annotations

import pytest

from voile.core.errors import InvalidInput
from voile.training.private import AdaptedNorm, PrivateSteps, classifier_norm, surrogate_norm


def test_norms_grow_with_the_rows_of_a_client() -> None:
    rows = (1, 100, 1_000, 1_208, 3_000, 4_999)
    for norms in ([classifier_norm(n) for n in rows], [surrogate_norm(n, 300.0) for n in rows]):
        assert norms == sorted(norms)  # type: ignore[type-var]
    assert classifier_norm(1_000) == 0.5
    assert classifier_norm(20_000) == 2.0
    assert surrogate_norm(1_000, 250.0) == 0.1


@pytest.mark.parametrize(("rows", "batch"), [(5_000, 300.0), (20_000, 400.0), (5_000, 1.0)])
def test_large_clients_adapt_at_a_price_that_is_hardly_felt(rows: int, batch: float) -> None:
    norm = surrogate_norm(rows, batch)
    assert isinstance(norm, AdaptedNorm)
    promise = PrivateSteps(
        clipping_norm=norm, noise_multiplier=3.0, sampling_rate=batch / rows, steps=10, rows=rows
    )
    assert promise.gradient_noise() < 3.0 * 1.02


def test_a_client_has_rows() -> None:
    for call in (classifier_norm, lambda rows: surrogate_norm(rows, 1.0)):
        with pytest.raises(InvalidInput):
            call(0)
