"""How far answers may depend on the batch around them: stated, paid for, and attained."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.protecting import row_of
from tests.unit.release.lookup import background, schema, without_noise
from voile.core.guarantee import Relation
from voile.models import Box, wrap
from voile.privacy.sensitivity import (
    interaction_background,
    mean_absolute_shapley_over_itself,
    shapley_background_with_base,
)
from voile.release import PUBLIC, OverItself, PrivateBackgroundShapley, PrivateInteractions
from voile.release.output_sets import DECLARED_ROW_WISE, MODEL_IS_STATELESS, SAME_INPUT_SAME_OUTPUT

Array = NDArray[np.float64]
STATED = 2.0**-20
WIDTH = 8.0
RELATION = Relation.REPLACE_ONE


def rounds_by_the_batch(rows: Array) -> Any:
    """Answers 4 everywhere, moved by the share that is stated where a 1 is in the batch: up where
    the row is the explained one (0), down elsewhere."""
    moved = WIDTH * STATED * (rows == 1).any()
    return 4 + np.where((rows == 0).all(axis=1), moved, -moved)


def build(kind: Any, players: int, first: float = 1.0, **settings: Any) -> Any:
    model = wrap(
        rounds_by_the_batch,
        outputs=Box(0, WIDTH),
        digest="rounds",
        treats_rows_independently=True,
    )
    rows = background(players, first, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0)
    common = {"protected": row_of("rows 1", RELATION), "origins": [PUBLIC]}
    promise = {"epsilon": 1.0, "delta": 1e-5}
    return kind(model, rows, schema=schema(players), **common, **promise, **settings)


@pytest.mark.parametrize("text", [SAME_INPUT_SAME_OUTPUT, DECLARED_ROW_WISE, MODEL_IS_STATELESS])
def test_what_is_assumed_of_a_model_is_what_is_paid_for(text: str) -> None:
    assert "2^-20 of the width" in " ".join(text.split())


def test_a_model_that_rounds_as_badly_as_is_stated_stays_within_what_is_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other rows' games move by √5 times the stated share: more than half of what is added."""
    # The probe cannot know the one row that this model waits for; here it would draw it.
    monkeypatch.setattr("voile.release.output_sets.BoundedModel._apart", lambda *_: 0.0)
    both = [build(PrivateBackgroundShapley, 1, first) for first in (1.0, 3.0)]
    apart = np.linalg.norm(without_noise(both[0]) - without_noise(both[1]))
    bound = shapley_background_with_base(
        features=1, background_rows=8, output_width=WIDTH, relation=RELATION
    )
    added = both[0].sensitivity.value - bound.value
    assert apart == pytest.approx(math.sqrt(5) * STATED * WIDTH, rel=1e-9)
    assert added / 2 < apart <= added


def test_pairs_of_features_pay_for_it_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voile.release.output_sets.BoundedModel._apart", lambda *_: 0.0)
    bound = interaction_background(
        features=2, background_rows=8, output_width=WIDTH, relation=RELATION
    )
    # The interaction of two players is v(12) - v(1) - v(2) + v(0): four answers move.
    added = build(PrivateInteractions, 2).sensitivity_of_pairs.value - bound.value
    assert added == pytest.approx(4 * STATED * WIDTH, rel=1e-6)


def test_a_population_over_itself_pays_for_it_as_well() -> None:
    model = wrap(lambda rows: rows[:, 0], outputs=Box(0, WIDTH), digest="first")
    paid = OverItself(model, schema(1)).sensitivity(100, RELATION)
    bound = mean_absolute_shapley_over_itself(
        features=1, rows=100, background_rows=100, output_width=WIDTH, relation=RELATION
    )
    assert paid.value - bound.value == pytest.approx(2 * STATED * WIDTH, rel=1e-6)
