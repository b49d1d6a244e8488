"""Forests that are weighed by trust, in clear."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.lib.forests import (
    IN_CLEAR,
    ForestSettings,
    probabilities,
    train_forests,
)
from tests.unit.pipelines.trusted_parties import OPEN, PUBLIC, RECORDS

from voile.core.errors import InvalidInput
from voile.core.row_note import KnownNote
from voile.pipelines.tables import TableRecords

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
QUICK = ForestSettings(trees=5, depth=4, rounds=2)


def test_an_ensemble_is_weighed_by_trust_and_says_that_it_promises_nothing() -> None:
    found = train_forests(RECORDS, PUBLIC, settings=QUICK)
    assert found.notes[:2] == (KnownNote.NOT_PRIVATE, IN_CLEAR)
    assert set(found.history.scores) == set(RECORDS)
    last = {name: score.weight for name, score in found.history.last().items()}
    assert found.model.weights == last
    said = found.model.predict(OPEN.rows[:50])
    np.testing.assert_allclose(said.sum(axis=1), 1)
    parts = [w * probabilities(found.model.forests[n], OPEN.rows[:50], 2) for n, w in last.items()]
    np.testing.assert_allclose(said, np.sum(parts, axis=0))
    assert np.mean(found.model.predict(OPEN.rows).argmax(axis=1) == OPEN.labels) > 0.6


def test_a_party_that_saw_one_label_only_takes_part() -> None:
    name, records = next(iter(RECORDS.items()))
    one = records.labels == 0
    few = TableRecords(records.schema, records.rows[one], records.labels[one], records.null[one])
    found = train_forests({**RECORDS, name: few}, PUBLIC, settings=QUICK)
    assert found.model.predict(OPEN.rows[:5]).shape == (5, 2)


def test_the_same_seed_gives_the_same_record() -> None:
    first, second = (train_forests(RECORDS, PUBLIC, settings=QUICK, seed=3) for _ in range(2))
    assert first.history == second.history


def test_unsound_settings_are_refused() -> None:
    with pytest.raises(InvalidInput):
        ForestSettings(trees=0)
