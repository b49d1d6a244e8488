"""Surrogates imitate, know absent players, and are explained exactly."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.attribution.fastshap.examples import (
    PLAN,
    SCHEMA,
    model,
    probabilities,
    rows,
    surrogate,
)

from voile.attribution import SurrogateShapley
from voile.attribution.fastshap import exact_values, sampled, train_surrogate
from voile.attribution.fastshap.encoding import Encoding
from voile.core.errors import InvalidInput
from voile.core.randomness import Seeded
from voile.models import Box, CoalitionModel, wrap
from voile.training import squared_distance


def test_encoding_is_that_of_the_schema() -> None:
    given = rows(50)
    assert Encoding.of_schema(SCHEMA).columns(given) == pytest.approx(
        SCHEMA.encode(given), abs=1e-6
    )


def test_encoding_without_schema_survives_large_offsets() -> None:
    given = np.array([[1.6e9, 5.0], [1.6e9 + 1, 5.0], [1.6e9 + 2, 5.0]])
    found = Encoding.of_rows(given).columns(given)
    assert found[:, 0] == pytest.approx([-1.2247, 0, 1.2247], abs=1e-3)
    assert (found[:, 1] == 0).all()


def test_it_imitates_whole_rows_and_says_how_well() -> None:
    found = surrogate()
    assert isinstance(found, CoalitionModel)
    test = rows(500, seed=9)
    gap = np.abs(found.predict(test) - probabilities(test)).mean()
    assert gap < 0.03
    assert found.fidelity is not None
    assert found.fidelity.rows == 400
    assert found.fidelity.same_class is not None
    assert found.fidelity.same_class > 0.95
    assert found.fidelity.r_squared > 0.97


def test_it_averages_over_absent_features() -> None:
    """Features are independent here, so v(S) is the mean of the model over the others."""
    found, others = surrogate(), rows(20_000, seed=3)
    row = np.array([[80.0, 1.0, 1.2, 0.0]])
    present = np.array([[True, False, False, False]])
    others[:, 0] = 80.0
    wanted = probabilities(others).mean(axis=0)
    assert found.predict_present(row, present)[0] == pytest.approx(wanted, abs=0.04)


def test_absent_features_change_nothing() -> None:
    found = surrogate()
    one, two = rows(20, seed=1), rows(20, seed=2)
    two[:, 1] = one[:, 1]
    present = np.tile([False, True, False, False], (20, 1))
    assert (found.predict_present(one, present) == found.predict_present(two, present)).all()


def test_exact_values_agree_with_the_general_method() -> None:
    test = rows(5, seed=4)
    mine = exact_values(surrogate(), test)
    general = SurrogateShapley(surrogate())(test)
    assert mine.values == pytest.approx(general.values, abs=1e-6)
    assert mine.base_values == pytest.approx(general.base_values, abs=1e-6)
    assert mine.output_names == ("no", "yes")


def test_groups_are_players_of_their_own() -> None:
    found = surrogate(grouped=True)
    assert found.players.names == ("body", "colour", "kind")
    values = exact_values(found, rows(5, seed=4))
    assert values.shape == (5, 3, 2)
    total = found.predict(rows(5, seed=4)) - found.base
    assert values.values.sum(axis=1) == pytest.approx(total, abs=1e-6)
    with pytest.raises(InvalidInput, match="trained on groups"):
        found.predict_present(rows(1), np.array([[True, False, False, False]]))


def test_sampled_values_are_unbiased() -> None:
    test = rows(5, seed=4)
    exact, drawn = exact_values(surrogate(), test), sampled(surrogate(), test, orders=400, seed=0)
    assert drawn.standard_errors is not None
    z = (drawn.values - exact.values) / (drawn.standard_errors + 1e-6)
    assert np.abs(z).max() < 4.5
    assert np.abs(drawn.values - exact.values).max() < 0.02


def test_equal_seeds_give_equal_surrogates() -> None:
    def train(seed: int) -> str:
        short = type(PLAN)(steps=5, batch_rows=16, hidden=(4,))
        return train_surrogate(
            model(), rows(100), source=Seeded(seed), schema=SCHEMA, plan=short
        ).digest

    assert train(1) == train(1)
    assert train(1) != train(2)


@pytest.mark.parametrize("outputs", [None, Box(0.0, 4.0)])
def test_other_outputs(outputs: Box | None) -> None:
    """Several numbers, bounded or not, without a schema; the bounded-gradient loss."""

    def forward(given: np.ndarray) -> np.ndarray:
        return np.stack([given[:, 0] * given[:, 1], 1 + given[:, 2]], axis=1)

    given = np.random.default_rng(0).random((2_000, 3)) + 0.5
    wrapped = wrap(forward) if outputs is None else wrap(forward, outputs=outputs)
    found = train_surrogate(wrapped, given, source=Seeded(0), plan=PLAN, loss=squared_distance)
    assert found.fidelity is not None
    assert found.fidelity.r_squared > 0.97
    values = exact_values(found, given[:3])
    assert values.shape == (3, 3, 2)
    assert np.abs(values.values[:, :2, 1]).max() < 0.1  # they do not matter to the second output


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least 20 rows"):
        train_surrogate(model(), rows(5), source=Seeded(0), schema=SCHEMA)
    with pytest.raises(InvalidInput, match="outside the schema"):
        surrogate().read(np.array([[500.0, 0, 1.5, 0]]))
    with pytest.raises(InvalidInput):
        train_surrogate(
            model(), rows(50), source=Seeded(0), schema=SCHEMA, groups={"a": ("nobody",)}
        )
    with pytest.raises(InvalidInput, match="presence"):
        surrogate().predict_present(rows(2), np.ones((2, 3), dtype=np.bool_))
