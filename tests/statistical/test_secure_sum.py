"""Given the sum, what a server sees does not depend on the inputs.

Two sets of inputs with equal sums, three parties. The server's view, with the self masks that it
may know, is one vector for each party, of which the sum is fixed. Each word should be uniform, and
so should the joint law of two of them, whatever the inputs are. 2^18 words for each set of inputs;
chi-square tests with a false-alarm rate below 1e-7 each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from tests.unit.federation.secure_aggregation.parties import Run, sum_of, terms_for
from voile.federation.secure_aggregation import AttemptStep, HonestButCurious, client
from voile.federation.secure_aggregation.masking import subtract_mask

LENGTH = 1 << 18
INPUTS = [(0, 0, 3_000_000), (1_000_000, 1_000_000, 1_000_000)]
ALARM = 1e-7


def view(inputs: tuple[int, ...], *, unmasked: bool) -> list[Any]:
    terms = terms_for(3, HonestButCurious(), length=LENGTH)
    vectors = {
        name: np.full(LENGTH, value, dtype=np.uint32)
        for name, value in zip(terms.asked, inputs, strict=True)
    }
    run = Run(terms, vectors)
    assert np.array_equal(run.all_steps(), sum_of(vectors, terms.asked))
    seen = []
    for step, name, answer in run.seen:
        if step is AttemptStep.MASK:
            words = np.frombuffer(answer.body, dtype=np.uint32).copy()
            if unmasked:
                subtract_mask(words, run.server._self_mask(name))
            seen.append(words)
    return seen


def is_uniform(cells: Any, count: int) -> bool:
    found = np.bincount(cells, minlength=count)
    expected = len(cells) / count
    statistic = float(((found - expected) ** 2 / expected).sum())
    return bool(chi2.sf(statistic, count - 1) > ALARM)


def looks_random(seen: list[Any]) -> bool:
    tops, lows = [words >> 24 for words in seen], [words & 255 for words in seen]
    single = all(is_uniform(cells, 256) for cells in (*tops, *lows))
    pairs = [(0, 1), (1, 2), (0, 2)]
    joint = all(is_uniform((tops[a] >> 4) * 16 + (tops[b] >> 4), 256) for a, b in pairs)
    return single and joint


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("unmasked", [False, True])
def test_the_view_is_uniform_whatever_the_inputs_are(
    inputs: tuple[int, ...], unmasked: bool
) -> None:
    seen = view(inputs, unmasked=unmasked)
    assert looks_random(seen)
    if unmasked:
        total: Any = np.sum(seen, axis=0, dtype=np.uint32)
        assert set(total.tolist()) == {3_000_000}


@pytest.mark.parametrize("inputs", INPUTS)
def test_a_view_with_one_mask_for_all_is_not(
    inputs: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: the same mask between all parties, so the middle one adds and subtracts it."""
    monkeypatch.setattr(client, "pair_seed", lambda *_: bytes(32))
    assert not looks_random(view(inputs, unmasked=True))
