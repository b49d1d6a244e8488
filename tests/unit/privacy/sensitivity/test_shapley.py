"""Bounds on Shapley values: never exceeded by the worst game found, attained where claimed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from tests.unit.privacy.sensitivity import games
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit, Relation
from voile.models import Simplex
from voile.privacy import sensitivity as s
from voile.privacy.sensitivity import Norm, OutputSet, Sensitivity

REPLACE, BLANK = Relation.REPLACE_ONE, Relation.BLANK_ONE
DIMENSIONS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14]
STARTS = {1: 20, 2: 50, 3: 200, 4: 200, 5: 200, 6: 100, 8: 100, 10: 100, 12: 300, 14: 30}
TOLERANCE = 1 + 1e-9


def probabilities(outputs: int) -> OutputSet:
    """Of several classes: √2 across; from the centre to a corner it is more than half of that."""
    return OutputSet(Simplex().width(outputs), Simplex().radius(outputs))


def background(d: int, width: float | OutputSet = 1.0, relation: Relation = REPLACE) -> float:
    return s.shapley_background(
        features=d, background_rows=1, output_width=width, relation=relation
    ).value


def with_base(d: int, width: float | OutputSet = 1.0, relation: Relation = REPLACE) -> float:
    return s.shapley_background_with_base(
        features=d, background_rows=1, output_width=width, relation=relation
    ).value


class TestBackground:
    @pytest.mark.parametrize("d", DIMENSIONS)
    def test_no_game_moves_the_values_further(self, d: int) -> None:
        found = games.ascent(games.shapley_matrix(d), games.sign_game, 1, STARTS[d])
        assert 0.8 * background(d) < found <= background(d) * TOLERANCE

    @pytest.mark.parametrize("d", DIMENSIONS)
    def test_no_game_moves_values_and_base_further(self, d: int) -> None:
        matrix = games.with_base(games.shapley_matrix(d))
        found = games.ascent(matrix, games.sign_game, 1, STARTS[d])
        assert 0.8 * with_base(d) < found <= with_base(d) * TOLERANCE

    @pytest.mark.parametrize("d", [2, 3])
    def test_enumeration_of_all_vertices_agrees_with_the_ascent(self, d: int) -> None:
        matrix = games.shapley_matrix(d)
        exact = games.enumerated(matrix, (-1.0, 1.0), fixed_full=True)
        assert exact == pytest.approx(games.ascent(matrix, games.sign_game, 1, STARTS[d]))
        assert exact <= background(d) * TOLERANCE
        joint = games.enumerated(games.with_base(matrix), (-1.0, 1.0), fixed_full=True)
        assert joint <= with_base(d) * TOLERANCE

    def test_one_and_two_features_attain_the_bound(self) -> None:
        for d in (1, 2):
            exact = games.enumerated(games.shapley_matrix(d), (-1.0, 1.0), fixed_full=True)
            assert exact == pytest.approx(background(d), rel=1e-12)

    @pytest.mark.parametrize(("d", "largest"), [(4, 1.803), (8, 1.988), (12, 2.070)])
    def test_the_largest_game_found_is_where_it_was(self, d: int, largest: float) -> None:
        found = games.ascent(games.shapley_matrix(d), games.sign_game, 1, STARTS[d])
        assert found == pytest.approx(largest, abs=1e-3)

    def test_known_figures(self) -> None:
        assert background(2) == pytest.approx(1.5811, abs=1e-4)
        assert background(12) == pytest.approx(2.4127, abs=1e-4)
        assert with_base(12) == pytest.approx(2.6118, abs=1e-4)
        assert background(12) * 2.87 == pytest.approx(2 * math.sqrt(12), abs=0.01)
        assert background(100_000) == pytest.approx(math.pi, abs=0.01)

    @pytest.mark.parametrize("d", DIMENSIONS)
    def test_blanking_one_of_one_output_costs_half(self, d: int) -> None:
        assert background(d, relation=BLANK) == pytest.approx(background(d) / 2)
        assert with_base(d, relation=BLANK) == pytest.approx(with_base(d) / 2)

    @pytest.mark.parametrize("d", [1, 2, 3, 4, 6, 8])
    @pytest.mark.parametrize("outputs", [2, 3, 5])
    def test_probabilities_of_several_classes(self, d: int, outputs: int) -> None:
        simplex = probabilities(outputs)
        for matrix, bound in (
            (games.shapley_matrix(d), background),
            (games.with_base(games.shapley_matrix(d)), with_base),
        ):
            replaced = games.ascent(matrix, games.simplex_difference, outputs, STARTS[d])
            assert replaced <= bound(d, simplex, REPLACE) * TOLERANCE
            blanked = games.ascent(matrix, games.simplex_from_centre, outputs, STARTS[d])
            assert blanked <= bound(d, simplex, BLANK) * TOLERANCE

    def test_half_of_replacing_would_be_too_little_for_three_classes(self) -> None:
        """One feature, three classes: blanking moves the value by the radius, not by half of √2."""
        found = games.ascent(games.shapley_matrix(1), games.simplex_from_centre, 3, 50)
        assert found == pytest.approx(math.sqrt(2 / 3))
        assert found > background(1, probabilities(3), REPLACE) / 2 * 1.1
        assert found == pytest.approx(background(1, probabilities(3), BLANK))

    @pytest.mark.parametrize("d", [1, 2, 3, 7])
    def test_one_coordinate_attains_its_bound(self, d: int) -> None:
        for relation, reach in ((REPLACE, 1.0), (BLANK, 0.5)):
            bound = s.shapley_background_coordinate(
                features=d, background_rows=4, output_width=3.0, relation=relation
            )
            worst = reach * 3.0 / 4 * np.abs(games.shapley_matrix(d)[0, :-1]).sum()
            assert bound.value == pytest.approx(worst)
            assert bound.norm is Norm.LINF

    @given(
        d=st.integers(1, 40),
        rows=st.integers(1, 10_000),
        width=st.floats(1e-3, 1e3),
        relation=st.sampled_from([REPLACE, BLANK]),
    )
    def test_bounds_scale_with_width_and_rows(
        self, d: int, rows: int, width: float, relation: Relation
    ) -> None:
        found = s.shapley_background(
            features=d, background_rows=rows, output_width=width, relation=relation
        )
        assert found.value == pytest.approx(background(d, relation=relation) * width / rows)


class TestLength:
    @pytest.mark.parametrize("d", DIMENSIONS)
    def test_no_shapley_vector_is_longer(self, d: int) -> None:
        found = games.ascent(games.shapley_matrix(d), games.unit_game, 1, STARTS[d])
        assert 0.8 * s.shapley_norm(features=d, output_width=1.0) < found
        assert found <= s.shapley_norm(features=d, output_width=1.0) * TOLERANCE

    @pytest.mark.parametrize("d", [1, 2])
    def test_one_and_two_features_attain_it(self, d: int) -> None:
        exact = games.enumerated(games.shapley_matrix(d), (0.0, 1.0), fixed_full=False)
        assert exact == pytest.approx(s.shapley_norm(features=d, output_width=1.0))

    def test_the_clipped_estimator_costs_hardly_more_than_exact_values(self) -> None:
        clipped = s.clipped_shapley_background(
            features=12, background_rows=1, output_width=1.0, relation=REPLACE
        )
        assert clipped.value == pytest.approx(2.464, abs=1e-3)
        assert clipped.value > background(12)

    def test_an_estimator_that_is_not_clipped_exceeds_the_exact_bound(self) -> None:
        """One permutation of four players: a single order can put everything on each player."""
        d = 4
        chain = np.zeros((d, 2**d))
        for position in range(d):
            chain[position, 2 ** (position + 1) - 1] += 1
            chain[position, 2**position - 1] -= 1
        found = games.ascent(chain, games.sign_game, 1, 50)
        assert found > background(d) * 1.5


class TestPopulation:
    @pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
    def test_no_matrix_of_several_outputs_is_longer(self, d: int) -> None:
        """Corners of the simplex fit no ball of half its diameter; the bound holds all the same."""

        def corners(coefficients: games.Matrix) -> games.Matrix:
            return np.asarray(np.eye(coefficients.shape[1])[coefficients.argmax(axis=1)])

        for outputs in (2, 3, 6):
            longest = games.ascent(games.shapley_matrix(d), corners, outputs, starts=20)
            bound = s.shapley_norm(features=d, output_width=probabilities(outputs))
            assert longest <= bound * (1 + 1e-9)

    @pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
    def test_two_absolute_vectors_are_never_further_apart(self, d: int) -> None:
        """The worst pair has disjoint supports: search among long vectors of both games."""
        bound = s.mean_absolute_shapley(
            features=d, rows=1, output_width=1.0, relation=REPLACE
        ).value
        matrix = games.shapley_matrix(d)
        generator = np.random.default_rng(3)
        longest = 0.0
        for _ in range(300):
            direction = generator.normal(size=(d, 1))
            one = np.abs(matrix @ games.unit_game(matrix.T @ direction)).ravel()
            mask = generator.random(d) < 0.5
            other = np.abs(matrix @ games.unit_game(matrix.T @ (direction * mask[:, None]))).ravel()
            longest = max(longest, float(np.linalg.norm(one - other)))
        assert longest <= bound * TOLERANCE

    def test_dictators_show_that_the_square_root_of_two_is_needed(self) -> None:
        """Two games in which one and the other player decide alone are √2 apart, R = 1."""
        matrix = games.shapley_matrix(2)
        first = np.abs(matrix @ games.members(2)[:, 0])
        second = np.abs(matrix @ games.members(2)[:, 1])
        assert np.linalg.norm(first - second) == pytest.approx(math.sqrt(2))
        blank = s.mean_absolute_shapley(features=2, rows=1, output_width=1.0, relation=BLANK)
        assert np.linalg.norm(first - second) > blank.value

    def test_coordinates(self) -> None:
        for relation, signed in ((REPLACE, 2.0), (BLANK, 1.0)):
            unsigned = s.mean_absolute_shapley_coordinate(
                rows=50, output_width=3.0, relation=relation
            )
            assert unsigned.value == pytest.approx(3.0 / 50)
            scores = s.signed_mean_shapley_coordinate(rows=50, output_width=3.0, relation=relation)
            assert scores.value == pytest.approx(signed * 3.0 / 50)
            assert scores.norm is unsigned.norm is Norm.LINF

    def test_a_population_that_is_its_own_background_pays_twice(self) -> None:
        found = s.mean_absolute_shapley_over_itself(
            features=12, rows=100, background_rows=100, output_width=1.0, relation=REPLACE
        )
        b = s.shapley_norm(features=12, output_width=1.0)
        expected = (math.sqrt(2) * b + 99 / 100 * background(12)) / 100
        assert found.value == pytest.approx(expected)
        assert found.value > background(12) / 100


def exact_values(
    model: object, row: NDArray[np.float64], background_rows: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Interventional Shapley values by definition; outputs clamped to [0, 1]."""
    d = len(row)
    inside = games.members(d)
    composite = np.where(inside[:, None, :], row, background_rows[None])
    outputs = model.predict_proba(composite.reshape(-1, d))[:, 1]  # type: ignore[attr-defined]
    worth = np.clip(outputs, 0, 1).reshape(len(inside), -1).mean(axis=1)
    values: NDArray[np.float64] = games.shapley_matrix(d) @ worth
    return values


@pytest.fixture(scope="module", params=["forest", "network"])
def model(request: pytest.FixtureRequest) -> object:
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(400, 4))
    labels = (rows[:, 0] * rows[:, 1] + rows[:, 2] ** 2 > 0.5 + rows[:, 3]).astype(int)
    if request.param == "forest":
        return RandomForestClassifier(20, random_state=0).fit(rows, labels)
    network = MLPClassifier((16,), random_state=0, solver="lbfgs", max_iter=5000, alpha=1e-4)
    return network.fit(rows, labels)


class TestRealModels:
    """Steep models and hostile rows stay below the bound too."""

    @pytest.mark.parametrize("m", [1, 2, 5])
    def test_replacing_a_background_row(self, model: object, m: int) -> None:
        generator = np.random.default_rng(m)
        bound = s.shapley_background(
            features=4, background_rows=m, output_width=1.0, relation=REPLACE
        ).value
        largest = 0.0
        for _ in range(60):
            rows = generator.normal(scale=3, size=(m, 4))
            row = generator.normal(scale=3, size=4)
            changed = rows.copy()
            changed[0] = generator.normal(scale=3, size=4)
            moved = exact_values(model, row, rows) - exact_values(model, row, changed)
            largest = max(largest, float(np.linalg.norm(moved)))
        assert 0.2 * bound < largest <= bound


class TestValidity:
    """Conditions are in the type, the signature or the refusal, not in a comment."""

    def test_it_prints_as_the_number(self) -> None:
        found = s.shapley_background(
            features=12, background_rows=1, output_width=1.0, relation=REPLACE
        )
        assert str(found).startswith("2.4127")
        assert float(found) == found.value

    def test_conditions_travel_with_the_figure(self) -> None:
        found = s.shapley_background(
            features=3, background_rows=5, output_width=1.0, relation=BLANK
        )
        said = " ".join(found.conditions)
        for word in ("clamped", "trained on other rows", "exact", "running time"):
            assert word in said
        assert (found.unit, found.relation, found.norm) == (ProtectedUnit.ROW, BLANK, Norm.L2)

    def test_private_sizes_are_refused(self) -> None:
        with pytest.raises(Refused, match="number of rows is private"):
            s.shapley_background(
                features=3,
                background_rows=5,
                output_width=1.0,
                relation=Relation.ADD_OR_REMOVE_ONE,
            )

    @pytest.mark.parametrize("features", [0, -1, 2.0, True, "3"])
    def test_a_number_of_features_that_is_none(self, features: object) -> None:
        with pytest.raises(InvalidInput):
            s.shapley_background(
                features=features,  # type: ignore[arg-type]
                background_rows=5,
                output_width=1.0,
                relation=REPLACE,
            )

    @pytest.mark.parametrize("width", [0.0, -1.0, math.nan, math.inf, True])
    def test_a_width_that_is_none(self, width: float) -> None:
        with pytest.raises(InvalidInput):
            s.shapley_background(
                features=2, background_rows=5, output_width=width, relation=REPLACE
            )

    @pytest.mark.parametrize(
        ("diameter", "radius"), [(1.0, 0.1), (0.0, 1.0), (1.0, math.nan), (-1.0, 1.0)]
    )
    def test_an_output_set_that_cannot_be_is_refused(self, diameter: float, radius: float) -> None:
        with pytest.raises(InvalidInput):
            s.OutputSet(diameter, radius)

    def test_an_entry_of_a_clipped_vector_can_exceed_the_range_so_coordinates_are_clamped(
        self,
    ) -> None:
        assert s.shapley_norm(features=3, output_width=1.0) > 1.0
        for of in (s.mean_absolute_shapley_coordinate, s.signed_mean_shapley_coordinate):
            said = " ".join(of(rows=5, output_width=1.0, relation=REPLACE).conditions)
            assert "clamped to the width" in said
            assert "clipped" not in said

    def test_a_clipped_estimator_says_that_it_is_clipped(self) -> None:
        found = s.clipped_shapley_background(
            features=3, background_rows=5, output_width=1.0, relation=BLANK
        )
        assert "from that row alone" in " ".join(found.conditions)
        assert "clipped to the bound" in " ".join(found.conditions)

    def test_the_background_of_a_population_must_not_depend_on_it(self) -> None:
        found = s.mean_absolute_shapley(features=3, rows=5, output_width=1.0, relation=BLANK)
        said = " ".join(found.conditions)
        assert "background does not depend on these rows" in said
        assert "drawn independently" in said

    def test_an_explained_row_stands_against_any_other(self) -> None:
        with pytest.raises(Refused):
            Sensitivity(
                value=1.0,
                norm=Norm.L2,
                unit=ProtectedUnit.EXPLAINED_ROW,
                relation=Relation.BLANK_ONE,
            )


class TestDerived:
    @settings(max_examples=50)
    @given(rows=st.integers(1, 20), d=st.integers(1, 5))
    def test_stacking_is_the_norm_of_the_stack(self, rows: int, d: int) -> None:
        moved = np.ones((rows, d))
        one = {Norm.L1: d, Norm.L2: math.sqrt(d), Norm.LINF: 1.0}
        all_ = {
            Norm.L1: np.abs(moved).sum(),
            Norm.L2: np.linalg.norm(moved),
            Norm.LINF: np.abs(moved).max(),
        }
        for norm in Norm:
            bound = Sensitivity(value=one[norm], norm=norm, unit=ProtectedUnit.ROW, relation=BLANK)
            assert bound.stacked(rows).value == pytest.approx(all_[norm])

    def test_sums_over_groups_stretch_a_vector_by_the_root_of_the_largest_group(self) -> None:
        summing = np.array([[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]], dtype=float)
        stretch = np.linalg.norm(summing, ord=2)
        bound = Sensitivity(value=1.0, norm=Norm.L2, unit=ProtectedUnit.ROW, relation=BLANK)
        assert bound.summed_over_groups(3).value == pytest.approx(stretch)
        largest = Sensitivity(value=1.0, norm=Norm.LINF, unit=ProtectedUnit.ROW, relation=BLANK)
        assert largest.summed_over_groups(3).value == 3.0

    def test_several_records_of_one_unit_move_it_further(self) -> None:
        bound = s.count(relation=BLANK).for_group(4)
        assert bound.value == 4.0
        assert "at most 4 records" in " ".join(bound.conditions)
