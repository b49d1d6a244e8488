"""The score table: what a neighbour moves is what it states, and its noise fits that."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.pipelines.table_networks import plan, records, scores
from voile.core.guarantee import Relation
from voile.pipelines.tables import TableRecords

ROWS = 40


def neighbour(found: TableRecords, place: int, other: TableRecords | None) -> TableRecords:
    """One record is null, or another one; its label is then the other one, too."""
    rows, labels, null = found.rows.copy(), found.labels.copy(), found.null.copy()
    if other is None:
        null[place] = True
    else:
        rows[place], labels[place] = other.rows[place], 1 - labels[place]
    return TableRecords(found.schema, rows, labels, null)


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_the_stated_sensitivity_is_what_a_neighbour_attains(relation: Relation) -> None:
    found, others = records(ROWS), records(ROWS, seed=1)
    release = scores(found, plan(ROWS, relation=relation))
    counts = release.bins.counts(found)
    other = None if relation is Relation.BLANK_ONE else others
    moved = [
        float(np.linalg.norm(release.bins.counts(neighbour(found, place, other)) - counts))
        for place in range(ROWS)
    ]
    assert max(moved) == pytest.approx(release.noise.sensitivity.value)


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.REPLACE_ONE])
def test_the_noise_is_no_less_than_what_is_charged(relation: Relation) -> None:
    release = scores(records(ROWS), plan(ROWS, relation=relation))
    moved = 1.0 if relation is Relation.BLANK_ONE else np.sqrt(2)
    assert moved**2 / (2 * release.noise.sigma**2) <= release.plan.score_rho
