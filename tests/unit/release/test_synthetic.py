"""A synthetic background: noisy histograms, paid for once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.contract.releases import MODEL, SCHEMA
from tests.paying import as_if_paid
from tests.protecting import joined
from voile.attribution import ExactShapley
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.accounting.conversion import zcdp_to_epsilon
from voile.privacy.events import Zcdp
from voile.privacy.sensitivity import Norm, histogram
from voile.release import PostProcessed, PrivateHistograms, Release, SyntheticBackground
from voile.release.records import Records
from voile.release.synthetic import _counts, cell_count, histograms_sensitivity

DRAW = np.random.default_rng(6)
MANY = np.column_stack(
    [DRAW.triangular(0, 20, 100, 4000), DRAW.random(4000) < 0.8, DRAW.binomial(10, 0.3, 4000)]
)


def histograms(rows: Any = MANY, **settings: Any) -> PrivateHistograms:
    chosen: dict[str, Any] = {
        "dataset": "people 1",
        "relation": Relation.BLANK_ONE,
        "epsilon": 1.0,
        "delta": 1e-5,
        "seed": 0,
    }
    return PrivateHistograms(rows, SCHEMA, **joined(chosen | settings))


def made(rows: Any = MANY, **settings: Any) -> SyntheticBackground:
    return histograms(rows, **settings).draw()


def test_histograms_of_rows_promise_nothing_about_users() -> None:
    with pytest.raises(Refused, match="for the unit 'row'"):
        made(unit=ProtectedUnit.USER)


def test_rows_follow_the_frequencies() -> None:
    rows = made(size=4000).rows
    assert rows.shape == (4000, 3)
    assert np.array_equal(SCHEMA.clamp(rows), rows)
    assert np.abs(rows.mean(axis=0) - MANY.mean(axis=0)).max() < 2
    assert abs(rows[:, 1].mean() - 0.8) < 0.02
    for dose in range(11):
        assert abs((rows[:, 2] == dose).mean() - (MANY[:, 2] == dose).mean()) < 0.02


def test_guarantee_and_event_say_the_same() -> None:
    found = made()
    assert isinstance(found.event, Zcdp)
    assert found.guarantee.epsilon == zcdp_to_epsilon(found.event.rho, 1e-5) <= 1.0
    assert found.guarantee.epsilon > 0.999
    assert found.guarantee.protected.relation is Relation.BLANK_ONE


@pytest.mark.parametrize("relation", list(Relation))
def test_one_record_moves_all_histograms_by_no_more_than_the_bound(relation: Relation) -> None:
    cells = [cell_count(feature.domain, 16) for feature in SCHEMA.features]
    bound = histograms_sensitivity(3, relation).value
    rows = MANY[:50].copy()
    changed = {
        Relation.REPLACE_ONE: np.vstack([rows[:-1], [[99.0, 0.0, 10.0]]]),
        Relation.BLANK_ONE: np.vstack([rows[:-1], [[np.nan] * 3]]),
        Relation.ADD_OR_REMOVE_ONE: rows[:-1],
    }[relation]
    rows[-1] = [0.0, 1.0, 0.0]
    before, after = (
        np.concatenate(_counts(Records.read(given, SCHEMA, "rows"), SCHEMA, cells))
        for given in (rows, changed)
    )
    assert np.linalg.norm(before - after) == pytest.approx(bound)
    one = histogram(norm=Norm.L2, relation=relation).value
    assert bound == pytest.approx(np.sqrt(3) * one)


def test_cells_follow_the_schema() -> None:
    domains = [feature.domain for feature in SCHEMA.features]
    assert [cell_count(domain, 16) for domain in domains] == [16, 2, 11]
    assert [cell_count(domain, 5) for domain in domains] == [5, 2, 5]
    with pytest.raises(InvalidInput, match="bins"):
        cell_count(domains[0], 0)


def test_every_value_of_a_whole_feature_can_be_drawn() -> None:
    even = np.column_stack([MANY[:, :2], np.arange(4000) % 11])
    assert set(made(even, epsilon=5.0).rows[:, 2]) == set(range(11))
    coarse = made(even, epsilon=5.0, bins=4).rows[:, 2]
    assert set(coarse) == set(range(11))


def test_nothing_at_all_gives_even_frequencies() -> None:
    """More noise than records: counts are cut at 0, and if none is left all cells are alike."""
    rows = made(np.full((2, 3), np.nan), epsilon=0.01, size=50).rows
    assert np.array_equal(SCHEMA.clamp(rows), rows)


def test_an_empty_data_set_is_published_like_any() -> None:
    """Under add or remove one, its neighbour has one record: an error would tell them apart."""
    private = Relation.ADD_OR_REMOVE_ONE
    none, one = (made(MANY[:count], relation=private, size=50) for count in (0, 1))
    assert none.rows.shape == one.rows.shape
    assert none.guarantee == one.guarantee
    table: dict[str, list[float]] = {feature.name: [] for feature in SCHEMA.features}
    assert len(made(table, relation=private, size=5).rows) == 5


def test_more_records_than_noise_are_published_nearly_as_they_are() -> None:
    found = made(epsilon=5.0)
    exact = [np.sum(MANY[:, 1] == value) for value in (0, 1)]
    assert np.abs(found.histograms[1] - exact).max() < 30


def test_what_is_made_from_it_is_post_processing() -> None:
    background = as_if_paid(histograms(size=20))
    release: Release[Any] = PostProcessed(
        ExactShapley(MODEL, background.rows, schema=SCHEMA),
        [background.origin],
        MODEL.digest,
        "exact",
    )
    assert release.cost(10**6) is None
    assert release.draw(MANY[:2]).guarantees == (background.guarantee,)


def test_rows_that_nobody_paid_for_are_not_taken() -> None:
    with pytest.raises(Refused, match="nobody was charged"):
        _ = made(size=20).origin


def test_the_same_histograms_give_the_same_rows_for_the_same_seed_only() -> None:
    from voile.release.synthetic import _values

    domain = SCHEMA.features[0].domain
    counts = np.arange(16)
    one, two = (_values(domain, counts, 30, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(one, two)
