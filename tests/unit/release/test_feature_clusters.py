"""Clusters of features: found in public rows, or paid for."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.paying import as_if_paid
from tests.protecting import row_of
from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.schema import Categories, Feature, Numbers, Schema
from voile.privacy.accounting.conversion import gaussian_noise_multiplier
from voile.privacy.events import Gaussian
from voile.release import PUBLIC, PrivateClusters, declared_clusters, public_clusters
from voile.release.feature_clusters import _moments, _read, _scaled, moments_sensitivity

NAMES = tuple("abcdef")
SCHEMA = Schema(
    "six",
    (*(Feature(name, Numbers(-4.0, 4.0)) for name in NAMES[:5]), Feature("f", Categories((1, 2)))),
)
PRIVATE: dict[str, Any] = {
    "schema": SCHEMA,
    "delta": 1e-5,
    "protected": row_of("d"),
}


def people(count: int) -> Any:
    """a and b go together, c and d go against each other, e and f for themselves."""
    draw = np.random.default_rng(2)
    one, two, own = draw.normal(size=(3, count))
    near = 0.1 * draw.normal(size=(2, count))
    return np.column_stack(
        [one, one + near[0], two, -two + near[1], own, draw.integers(0, 2, count)]
    )


WANTED = {"a + b": ("a", "b"), "c + d": ("c", "d"), "e": ("e",), "f": ("f",)}


def test_features_that_go_together_or_against_each_other_are_found() -> None:
    found = public_clusters(people(500), schema=SCHEMA, count=4)
    assert found.groups == WANTED
    assert found.origin == PUBLIC
    assert found.event is None


def test_private_clusters_are_found_with_enough_rows_and_carry_their_price() -> None:
    found = as_if_paid(PrivateClusters(people(30_000), epsilon=8.0, count=4, **PRIVATE))
    assert found.groups == WANTED
    assert isinstance(found.event, Gaussian)
    assert found.origin.guarantees[0].epsilon == 8.0
    assert found.origin.datasets == {"d"}


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_the_search_over_corners_stays_below_the_sensitivity_of_moments(
    relation: Relation,
) -> None:
    bound = float(moments_sensitivity(features=3, rows=2, relation=relation))
    corners = [np.array(corner) for corner in itertools.product([-1.0, 1.0], repeat=3)]
    others = [np.zeros(3)] if relation is Relation.BLANK_ONE else corners
    fixed = np.array([0.3, -0.2, 1.0])
    found = max(
        np.linalg.norm(_moments(np.array([fixed, one])) - _moments(np.array([fixed, other])))
        for one in corners
        for other in others
    )
    assert found <= bound * (1 + 1e-12)
    if relation is Relation.BLANK_ONE:
        assert found == pytest.approx(bound)


def test_protected_rows_are_clamped_and_null_records_add_nothing() -> None:
    rows = np.array([[np.nan, np.inf, -1e9, 0.0, 1.0, 7.0], [np.nan] * 6])
    scaled = _scaled(_read(rows, SCHEMA), SCHEMA)
    assert (np.abs(scaled) <= 1).all()
    assert scaled[0, 1] == 1.0
    assert not scaled[1].any()
    assert PrivateClusters(rows, epsilon=1.0, **PRIVATE).draw().groups


def test_constant_features_do_no_harm() -> None:
    assert len(public_clusters(np.zeros((5, 6)), schema=SCHEMA, count=3).groups) >= 1


def test_what_cannot_be_clustered_is_said() -> None:
    for count in (0, 7):
        with pytest.raises(InvalidInput):
            public_clusters(people(5), schema=SCHEMA, count=count)
    with pytest.raises(InvalidInput, match="at least one"):
        public_clusters(np.zeros((0, 6)), schema=SCHEMA)
    alone = Schema("one", (Feature("x", Numbers(0.0, 1.0)),))
    assert public_clusters(np.ones((3, 1)), schema=alone, count=1).groups == {"x": ("x",)}
    assert declared_clusters({"g": ("a", "b")}).groups == {"g": ("a", "b")}


def test_the_noise_is_that_of_the_moments_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it would cost as much by its own event: the event is relative to what was given."""
    scales: list[float] = []

    def seen(values: Any, scale: float) -> Any:
        scales.append(scale)
        return values

    monkeypatch.setattr("voile.core.randomness.gaussian", seen)
    PrivateClusters(people(400), epsilon=1.0, **PRIVATE).draw()
    bound = moments_sensitivity(features=6, rows=400, relation=Relation.BLANK_ONE)
    assert scales[0] >= bound.value * gaussian_noise_multiplier(1.0, 1e-5)
