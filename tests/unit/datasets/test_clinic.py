"""The invented hospitals: what differs between them, and the truth about their patients."""

from __future__ import annotations

import numpy as np
import pytest

from voile.core.errors import InvalidInput
from voile.datasets import clinic_federation, risk


def test_eight_hospitals_of_different_size_and_case_mix() -> None:
    clinic = clinic_federation(1_000, seed=3)
    sizes = {name: len(data) for name, data in clinic.hospitals.items()}
    assert len(sizes) == 8
    assert sum(sizes.values()) == 8_000
    assert max(sizes.values()) / min(sizes.values()) == 5
    rates = [data.labels.mean() for data in clinic.hospitals.values()]
    assert min(rates) < 0.2 < 0.5 < max(rates)
    ages = [data.rows[:, 0].mean() for data in clinic.hospitals.values()]
    assert max(ages) - min(ages) > 30


def test_rows_lie_inside_the_schema() -> None:
    clinic = clinic_federation(200, seed=1)
    everybody = clinic.together()
    assert np.array_equal(clinic.schema.clamp(everybody.rows), everybody.rows)
    assert clinic.schema.check(clinic.schema.table(clinic.reference)).ok
    assert len(clinic.schema.features) == 12
    assert set(everybody.columns["hospital"]) == set(clinic.hospitals)
    # No feature sits at a bound for most patients, where it would say nothing.
    for place in range(12):
        _, counts = np.unique(everybody.rows[:, place], return_counts=True)
        assert counts.max() < 0.9 * len(everybody)


def test_labels_are_drawn_from_the_risk() -> None:
    everybody = clinic_federation(4_000, seed=5).together()
    chance = risk(everybody.rows)
    assert ((chance > 0) & (chance < 1)).all()
    for low, high in ((0.0, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.0)):
        group = (chance >= low) & (chance < high)
        gap = everybody.labels[group].mean() - chance[group].mean()
        assert abs(gap) < 5 * np.sqrt(0.25 / group.sum())


def test_the_risk_depends_on_every_feature() -> None:
    clinic = clinic_federation(100, seed=0)
    for place in range(12):
        moved = clinic.reference.copy()
        moved[:, place] = np.roll(moved[:, place], 1)
        assert np.abs(clinic.risk(moved) - clinic.risk(clinic.reference)).max() > 0.01


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_features_are_as_correlated_as_asked(correlation: float) -> None:
    clinic = clinic_federation(3_000, correlation=correlation, seed=2)
    rows = clinic.hospitals["city"].rows[:, [0, 1, 3, 4, 6]]
    found = np.asarray(np.corrcoef(rows.T))[np.triu_indices(5, 1)]
    assert found.mean() == pytest.approx(correlation, abs=0.04)


def test_more_patients_leave_the_reference_as_it_is() -> None:
    assert np.array_equal(
        clinic_federation(100, seed=9).reference, clinic_federation(900, seed=9).reference
    )
    assert not np.array_equal(
        clinic_federation(100, seed=9).reference, clinic_federation(100, seed=8).reference
    )


def test_sizes_that_make_no_sense() -> None:
    with pytest.raises(InvalidInput, match="at least 10 rows"):
        clinic_federation(5)
    with pytest.raises(InvalidInput, match="correlation"):
        clinic_federation(correlation=1.0)
    with pytest.raises(InvalidInput, match="1 reference row"):
        clinic_federation(reference_rows=0)
