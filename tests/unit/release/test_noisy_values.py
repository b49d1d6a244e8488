"""`NoisyValues`: the guarantee is worth as much as the declaration, and says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from tests.unit.release.own_rows import SCHEMA, itself
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Protected, ProtectedUnit, Relation, RowPart
from voile.privacy import events
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.release import NoisyValues
from voile.release.noisy_values import DECLARED


def noisy(norm: Norm = Norm.L2, delta: float = 1e-5, **changes: Any) -> NoisyValues:
    unit = changes.pop("unit", ProtectedUnit.ROW)
    declared = Sensitivity(value=0.5, norm=norm, unit=unit, relation=Relation.REPLACE_ONE)
    settings: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": delta,
        "protected": Protected(unit, Relation.REPLACE_ONE, "d"),
        "feature_names": ("a", "b", "c"),
        "name": "values",
        "model": "m",
    }
    return NoisyValues(declared, **(settings | changes))


def test_what_was_declared_is_said_to_be_declared() -> None:
    one = noisy()
    assert DECLARED in one.guarantees(1)[0].assumptions
    assert DECLARED in one.draw(np.zeros((1, 3))).notes
    assert DECLARED in one.preview().remarks


def test_delta_decides_the_law() -> None:
    assert isinstance(noisy().cost(2), events.Gaussian)
    assert isinstance(noisy(Norm.L1, 0.0).cost(2), events.Laplace)
    with pytest.raises(InvalidInput, match="l1"):
        noisy(Norm.L2, 0.0)


@pytest.mark.parametrize(("norm", "delta", "scale"), [(Norm.L2, 1e-5, 3.73), (Norm.L1, 0.0, 1.414)])
def test_noise_has_the_deviation_that_the_declaration_asks_for(
    norm: Norm, delta: float, scale: float
) -> None:
    drawn = noisy(norm, delta).draw(np.full((4, 3), 7.0))
    assert drawn.standard_errors is not None
    assert drawn.standard_errors[0, 0, 0] == pytest.approx(0.5 * scale, rel=1e-3)


@pytest.mark.parametrize(("norm", "delta"), [(Norm.L2, 1e-5), (Norm.L1, 0.0)])
def test_half_widths_hold_as_often_as_they_say(norm: Norm, delta: float) -> None:
    drawn = noisy(norm, delta).draw(np.full((1500, 3), 7.0))
    inside = int((np.abs(drawn.values - 7.0) <= drawn.half_widths).sum())
    assert binomtest(inside, drawn.values.size, 0.95).pvalue > 1e-6


def test_values_of_an_explanation_leave_without_its_rows_and_base() -> None:
    rows = np.array([[1.0, 2.0, 0.0]])
    drawn = noisy(feature_names=SCHEMA.feature_names).draw(itself(rows))
    assert drawn.data is None
    assert not drawn.base_values.any()


def test_values_that_are_no_numbers_count_as_nothing_and_never_raise() -> None:
    bad = np.array([[np.nan, np.inf, -np.inf], [1e308, 1.0, -1e308]])
    assert noisy().draw(bad).shape == (2, 3, 1)


@pytest.mark.parametrize("cell", [None, "x", b"\xff", 10**400, 1j, [1], object(), True])
def test_one_value_of_a_list_never_raises(cell: Any) -> None:
    values = [[0.5, 0.25, 0.0], [cell, 0.5, 0.25]]
    assert noisy().draw(values).shape == (2, 3, 1)
    assert noisy().draw(np.array(values, dtype=object)).shape == (2, 3, 1)


def test_for_an_explained_row_the_declaration_is_about_one_row() -> None:
    one = noisy(unit=ProtectedUnit.EXPLAINED_ROW)
    assert one.cost(1) == one.cost(7)
    assert one.part is RowPart.EXPLAINED
    assert noisy().part is RowPart.POPULATION
    assert one.draw(np.zeros((7, 3))).shape == (7, 3, 1)
    with pytest.raises(Refused):
        Sensitivity(
            value=1.0,
            norm=Norm.L2,
            unit=ProtectedUnit.EXPLAINED_ROW,
            relation=Relation.BLANK_ONE,
        )


@pytest.mark.parametrize(
    "wrong", ["text", [[1.0], 2.0], np.zeros(3), np.zeros((0, 3)), np.zeros((2, 4))]
)
def test_wrong_shapes_are_said(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        noisy().draw(wrong)


def test_several_outputs() -> None:
    one = noisy(output_names=("x", "y"))
    assert one.draw(np.zeros((2, 3, 2))).output_names == ("x", "y")
    with pytest.raises(InvalidInput):
        noisy(feature_names=())


def test_values_of_another_source_or_model_are_another_question() -> None:
    """Neither has a default: two callers who left it out would be given each other's answer."""
    identities = {noisy().identity, noisy(name="others").identity, noisy(model="n").identity}
    assert len(identities) == 3
    complete: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "protected": noisy().protected,
        "feature_names": ("a",),
        "name": "values",
        "model": "m",
    }
    for field in ("name", "model"):
        given = {key: value for key, value in complete.items() if key != field}
        with pytest.raises(TypeError, match=field):
            NoisyValues(noisy().sensitivity, **given)
