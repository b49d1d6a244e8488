"""Any price can be said in words."""

from __future__ import annotations

from typing import get_args

import pytest

from voile.core.guarantee import Relation
from voile.privacy.events import (
    ApproximateDp,
    BoundedRange,
    Composed,
    Gaussian,
    Laplace,
    Parallel,
    PoissonSampled,
    PrivacyEvent,
    PureDp,
    Repeated,
    Zcdp,
    event_in_words,
)
from voile.release import Preview

NOISE = Gaussian(7.2178)
SAID: dict[PrivacyEvent, str] = {
    NOISE: "Gaussian noise of 7.22 times the sensitivity",
    Laplace(50.0): "Laplace noise of 50 times the sensitivity",
    PureDp(0.5): "ε = 0.5",
    ApproximateDp(0.5, 1e-6): "ε = 0.5 with δ = 1e-06",
    BoundedRange(0.25): "a choice by the exponential mechanism with ε = 0.25",
    Zcdp(0.01): "ρ = 0.01 (concentrated differential privacy)",
    PoissonSampled(NOISE, 0.015, Relation.BLANK_ONE): (
        "Gaussian noise of 7.22 times the sensitivity, on a random sample of 1.5 % of the records"
    ),
    Repeated(NOISE, 3): "Gaussian noise of 7.22 times the sensitivity, 3 times",
    Composed((Repeated(NOISE, 1), PureDp(0.5))): (
        "(Gaussian noise of 7.22 times the sensitivity, once) and ε = 0.5"
    ),
    Parallel((PureDp(0.5), PureDp(0.5))): "of each record one of 2 parts (ε = 0.5)",
}


@pytest.mark.parametrize(("event", "words"), SAID.items())
def test_an_event_in_words(event: PrivacyEvent, words: str) -> None:
    assert event_in_words(event) == words


def test_there_are_words_for_every_kind() -> None:
    assert set(get_args(PrivacyEvent)) == {type(event) for event in SAID}


def test_a_preview_says_its_price_in_words() -> None:
    said = str(Preview(Repeated(NOISE, 3), (), "±0.1"))
    assert said.startswith("costs Gaussian noise of 7.22 times the sensitivity, 3 times\n")
