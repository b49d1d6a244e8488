"""Post-processing: it must help, and must not use what was not released."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.release.test_federated import explained, promise
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.row_note import KnownNote
from voile.release import (
    PublicTotal,
    ReleasedTotal,
    agreeing,
    projected,
    shrunk,
    within,
)
from voile.release.refining import AGREEING, PROJECTED, SHRUNK, WITHIN

DRAW = np.random.default_rng(9)
FEATURES, ROWS = 8, 4000


def drawn(truth: Any, sigma: float, features: int = FEATURES) -> Explanation:
    values = np.asarray(truth)[..., np.newaxis] + DRAW.normal(0, sigma, (ROWS, features, 1))
    return replace(
        explained(promise("d")),
        values=values,
        base_values=np.zeros((ROWS, 1)),
        feature_names=tuple(f"f{i}" for i in range(features)),
        standard_errors=np.full(values.shape, sigma),
        half_widths=np.full(values.shape, 1.959964 * sigma),
    )


def squared_error(found: Explanation, truth: Any) -> float:
    gap = found.values[:, :, 0] - truth
    return float((gap**2).sum(axis=1).mean())


TRUTH = DRAW.normal(0, 0.1, FEATURES)


def test_a_public_total_takes_one_share_of_the_variance() -> None:
    before = drawn(TRUTH, 0.3)
    after = projected(before, PublicTotal(TRUTH.sum()))
    assert np.allclose(after.values.sum(axis=1), TRUTH.sum())
    assert squared_error(after, TRUTH) < squared_error(before, TRUTH)
    assert after.standard_errors is not None
    assert np.std(after.values[:, :, 0] - TRUTH) == pytest.approx(
        after.standard_errors[0, 0, 0], rel=0.03
    )
    assert after.standard_errors[0, 0, 0] == pytest.approx(0.3 * np.sqrt(1 - 1 / 8))
    assert PROJECTED in after.notes
    assert after.guarantees == before.guarantees


def test_a_released_total_helps_less_and_its_noise_is_counted() -> None:
    before = drawn(TRUTH, 0.3)
    total = TRUTH.sum() + DRAW.normal(0, 0.4, (ROWS, 1))
    after = projected(before, ReleasedTotal(total, 0.4, (promise("d", 0.5),)))
    expected = 0.3 * np.sqrt(1 - 0.09 / (8 * 0.09 + 0.16))
    assert after.standard_errors is not None
    assert after.standard_errors[0, 0, 0] == pytest.approx(expected)
    (joint,) = after.guarantees
    assert (joint.protected.dataset, joint.epsilon, joint.delta) == ("d", 1.5, 2e-5)
    assert np.std(after.values[:, :, 0] - TRUTH) == pytest.approx(expected, rel=0.03)


def test_a_bare_prediction_is_not_taken() -> None:
    with pytest.raises(InvalidInput, match="PublicTotal"):
        projected(drawn(TRUTH, 0.3), 0.5)  # type: ignore[arg-type]


def test_two_levels_agree_on_their_sums_and_both_get_better() -> None:
    coarse_truth = np.array([TRUTH[:3].sum(), TRUTH[3:].sum()])
    fine, coarse = drawn(TRUTH, 0.3), drawn(coarse_truth, 0.3, features=2)
    fine_after, coarse_after = agreeing(fine, coarse)
    assert np.allclose(fine_after.values.sum(axis=1), coarse_after.values.sum(axis=1))
    assert squared_error(fine_after, TRUTH) < squared_error(fine, TRUTH)
    assert squared_error(coarse_after, coarse_truth) < squared_error(coarse, coarse_truth)
    assert AGREEING in fine_after.notes
    with pytest.raises(InvalidInput, match="same rows"):
        agreeing(fine, coarse[:3])


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 10.0])
def test_shrinking_helps_whatever_the_truth_is(scale: float) -> None:
    truth = TRUTH * scale
    before = drawn(truth, 0.3)
    after = shrunk(before)
    assert squared_error(after, truth) < squared_error(before, truth)
    assert after.standard_errors is None
    assert after.half_widths is None
    assert SHRUNK in after.notes


def test_shrinking_uses_nothing_but_the_stated_noise() -> None:
    values = np.array([[[3.0], [0.0], [4.0]]])
    one = replace(
        explained(promise("d")),
        values=values,
        standard_errors=np.full(values.shape, 1.0),
        half_widths=None,
        base_values=np.zeros((1, 1)),
    )
    assert np.allclose(shrunk(one).values, values * (1 - 1 / 25))
    noise = replace(one, standard_errors=np.full(values.shape, 9.0))
    assert not shrunk(noise).values.any()


def test_a_public_length_never_hurts_a_single_vector() -> None:
    before = drawn(TRUTH, 0.3)
    after = within(before, float(np.linalg.norm(TRUTH)) * 1.1)
    gaps = [np.linalg.norm(e.values[:, :, 0] - TRUTH, axis=1) for e in (before, after)]
    assert (gaps[1] <= gaps[0] + 1e-12).all()
    assert WITHIN in after.notes


def test_refining_needs_to_know_the_noise() -> None:
    unknown = replace(drawn(TRUTH, 0.3), standard_errors=None, half_widths=None)
    uneven = replace(
        drawn(TRUTH, 0.3), standard_errors=np.arange(1.0, 1 + ROWS * FEATURES).reshape(ROWS, -1, 1)
    )
    for one in (unknown, uneven):
        with pytest.raises(InvalidInput, match="one standard error"):
            shrunk(one)
    with pytest.raises(InvalidInput, match="three features"):
        shrunk(drawn(TRUTH[:2], 0.3, features=2))
    with pytest.raises(InvalidInput):
        within(drawn(TRUTH, 0.3), 0.0)


def test_what_two_releases_made_carries_the_guarantees_of_both() -> None:
    fine = replace(drawn(TRUTH, 0.3), notes=("of the fine one",))
    coarse = replace(
        drawn([0.1, 0.2], 0.3, features=2),
        guarantees=(promise("d", 2.0), promise("elsewhere")),
        notes=("of the coarse one",),
    )
    for after in agreeing(fine, coarse):
        assert {one.protected.dataset: one.epsilon for one in after.guarantees} == {
            "d": 3.0,
            "elsewhere": 1,
        }
        assert {"of the fine one", "of the coarse one", AGREEING} <= set(after.notes)


def test_a_release_without_a_guarantee_is_joined_only_if_it_is_public() -> None:
    fine, bare = drawn(TRUTH, 0.3), replace(drawn(TRUTH, 0.3), guarantees=())
    for pair in ((fine, bare), (bare, fine)):
        with pytest.raises(Refused, match="no guarantee"):
            agreeing(*pair)
    with pytest.raises(Refused, match="no guarantee"):
        projected(bare, ReleasedTotal(0.0, 0.4, fine.guarantees))
    with pytest.raises(Refused, match="states none"):
        ReleasedTotal(0.0, 0.4, ())
    public = replace(bare, notes=(KnownNote.ALL_PUBLIC,))
    for after in (*agreeing(fine, public), projected(public, ReleasedTotal(0, 1, fine.guarantees))):
        assert after.guarantees == fine.guarantees
        assert KnownNote.ALL_PUBLIC not in after.notes
    assert KnownNote.ALL_PUBLIC in agreeing(public, public)[0].notes
