"""The two releases: how far one user moves them, what is charged, and mutants that must be seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from tests.unit.recommenders.examples import DATASET, DELTA, USER, budget, moments, shop
from voile.core.errors import InvalidInput, Refused, UnreadableFile
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.privacy.accounting.conversion import gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import unit_row_gram, unit_row_sum
from voile.recommenders import (
    Interactions,
    ItemPopularity,
    MomentsBudget,
    PrivateGram,
    PrivatePopularity,
    joint_guarantee,
)
from voile.recommenders import moments as moments_module
from voile.recommenders.budget import MOST_USERS
from voile.recommenders.moments import folded, gram, grid_bits, popularity, unfolded, unit_rows
from voile.release import Release

Vector = NDArray[np.float64]
BOTH = (Relation.BLANK_ONE, Relation.REPLACE_ONE)


# --- sensitivities --------------------------------------------------------------------------------


def unit(values: list[float]) -> Vector:
    row = sparse.csr_array(np.array([values]))
    return np.asarray(unit_rows(row, bits=20).toarray()[0])


ENTRIES = st.lists(st.floats(0, 10), min_size=5, max_size=5)


@settings(max_examples=300, deadline=None)
@given(ENTRIES, ENTRIES)
def test_no_two_users_are_further_apart_than_the_bounds(one: list[float], two: list[float]) -> None:
    x, y = unit(one), unit(two)
    apart = {
        unit_row_sum: np.linalg.norm(x - y),
        unit_row_gram: np.linalg.norm(folded(np.outer(x, x)) - folded(np.outer(y, y))),
    }
    alone = {
        unit_row_sum: np.linalg.norm(x),
        unit_row_gram: np.linalg.norm(folded(np.outer(x, x))),
    }
    for bound in (unit_row_sum, unit_row_gram):
        assert apart[bound] <= bound(relation=Relation.REPLACE_ONE).value * (1 + 1e-9)
        assert alone[bound] <= bound(relation=Relation.BLANK_ONE).value * (1 + 1e-9)


def test_the_bounds_are_attained() -> None:
    x, y = np.eye(3)[0], np.eye(3)[1]
    assert np.linalg.norm(x - y) == pytest.approx(unit_row_sum(relation=BOTH[1]).value)
    assert np.linalg.norm(x) == unit_row_sum(relation=BOTH[0]).value
    one, two = folded(np.outer(x, x)), folded(np.outer(y, y))
    assert np.linalg.norm(one - two) == pytest.approx(unit_row_gram(relation=BOTH[1]).value)
    assert np.linalg.norm(one) == pytest.approx(unit_row_gram(relation=BOTH[0]).value)


@pytest.mark.parametrize("bound", [unit_row_sum, unit_row_gram])
def test_a_private_number_of_users_is_refused(bound: Any) -> None:
    with pytest.raises(Refused, match="add or remove one"):
        bound(relation=Relation.ADD_OR_REMOVE_ONE)


def test_folding_keeps_half_of_the_squared_length() -> None:
    draw = np.random.default_rng(1)
    matrix = draw.normal(size=(6, 6))
    matrix += matrix.T
    assert np.linalg.norm(folded(matrix)) == pytest.approx(np.linalg.norm(matrix) / math.sqrt(2))
    assert np.allclose(unfolded(folded(matrix), 6), matrix, atol=1e-14)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(), min_size=1, max_size=6))
def test_whatever_stands_in_a_row_it_is_at_most_one_long(values: list[float]) -> None:
    row = unit(values)
    assert np.isfinite(row).all()
    assert (row >= 0).all()
    assert np.linalg.norm(row) <= 1 + 1e-12


def test_sums_do_not_depend_on_the_order_of_users() -> None:
    found = shop(500)
    rows = unit_rows(found.matrix, bits=grid_bits(500))
    shuffled = rows[np.random.default_rng(0).permutation(500)]
    assert np.array_equal(popularity(rows), popularity(shuffled))
    assert np.array_equal(gram(rows), gram(shuffled))
    parts = rows[:123], rows[123:]
    one, two = (gram(part)[:276] for part in parts)  # above the diagonal, where nothing is scaled
    assert np.array_equal(one + two, gram(rows)[:276])
    assert grid_bits(1) == 26
    assert grid_bits(6040) == 19
    assert grid_bits(2**40) == 6


# --- neighbours, as the releases see them ---------------------------------------------------------


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(_: object, values: Vector, __: object = None) -> Vector:
        return np.array(values)

    monkeypatch.setattr(GaussianMechanism, "randomise", plain)


def blanked(interactions: Interactions, user: int) -> Interactions:
    return interactions.where(interactions.user != user)


def largest_moves(found: Interactions) -> tuple[float, float]:
    """How far blanking any user moves what each release draws, relative to its sensitivity."""
    spent = budget(found, 20.0)
    known = ItemPopularity(-np.arange(float(len(found.catalogue))), event=None)

    def drawn(given: Interactions) -> tuple[Vector, Vector]:
        first = PrivatePopularity(given, spent, protected=USER, delta=DELTA)
        second = PrivateGram(given, spent, protected=USER, delta=DELTA, chosen=known)
        return first.draw().values, folded(second.draw().matrix)

    before = drawn(found)
    moves = [
        [np.linalg.norm(x - y) for x, y in zip(before, drawn(blanked(found, user)), strict=True)]
        for user in range(len(found))
    ]
    most = np.max(moves, axis=0)
    bounds = [noise.sensitivity.value for noise in (spent.popularity_noise, spent.gram_noise)]
    return float(most[0] / bounds[0]), float(most[1] / bounds[1])


@pytest.mark.filterwarnings("ignore:epsilon")
def test_blanking_a_user_moves_releases_by_their_sensitivity_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_noise(monkeypatch)
    for move in largest_moves(shop(60)):
        assert 0.99 < move <= 1 + 1e-9


def _plain(matrix: sparse.csr_array, *, bits: int) -> sparse.csr_array:  # noqa: ARG001
    return matrix


def _diagonal_unscaled(matrix: Vector) -> Vector:
    return np.concatenate([matrix[np.triu_indices(len(matrix), 1)], np.diag(matrix)])


@pytest.mark.filterwarnings("ignore:epsilon")
@pytest.mark.parametrize(
    ("module", "name", "mutant"),
    [
        (moments_module, "unit_rows", _plain),
        (moments_module, "folded", _diagonal_unscaled),
    ],
    ids=["row not normalised", "diagonal unscaled"],
)
def test_mutants_of_the_moments_are_seen(
    module: Any, name: str, mutant: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_noise(monkeypatch)
    monkeypatch.setattr(module, name, mutant)
    found = shop(60)
    if name == "folded":  # what is released, as it leaves `gram`
        rows = unit_rows(found.matrix, bits=20)
        alone = max(np.linalg.norm(gram(rows[[user]])) for user in range(60))
        assert alone > unit_row_gram(relation=Relation.BLANK_ONE).value * 1.01
    else:
        assert max(largest_moves(found)) > 1.01


def spent_mu(spent: MomentsBudget) -> float:
    """What the noise that is really added tells, by the *derived* sensitivities."""
    bounds = {"sum": unit_row_sum, "gram": unit_row_gram}
    mus = [
        bounds[name](relation=spent.relation).value / noise.sigma
        for name, noise in (("sum", spent.popularity_noise), ("gram", spent.gram_noise))
    ]
    return math.hypot(*mus)


@pytest.mark.parametrize("relation", BOTH)
def test_both_releases_together_cost_the_budget(relation: Relation) -> None:
    spent = budget(shop(), 2.0, relation=relation)
    assert gaussian_epsilon(1 / spent_mu(spent), DELTA) == pytest.approx(2.0, rel=1e-5)
    assert gaussian_epsilon(1 / spent_mu(spent), DELTA) <= 2.0
    in_account = MomentsBudget.concentrated(
        users=300, items=24, relation=relation, epsilon=2.0, delta=DELTA
    )
    assert zcdp_to_epsilon(spent_mu(in_account) ** 2 / 2, DELTA) <= 2.0
    assert in_account.mu < spent.mu


def test_a_gram_matrix_at_half_sensitivity_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from voile.recommenders import budget as budget_module

    def half(*, relation: Relation) -> Any:
        return unit_row_gram(relation=relation).scaled(0.5)

    monkeypatch.setattr(budget_module, "unit_row_gram", half)
    assert gaussian_epsilon(1 / spent_mu(budget(shop(), 2.0)), DELTA) > 2.5


def test_the_head_is_what_the_first_release_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the items that are popular: a head of exact counts would be a release of its own."""
    without_noise(monkeypatch)
    found = shop()
    spent = replace(budget(found, 5.0), items=24, mu=0.5)  # 86 items would fit, 24 are there
    small = replace(spent, mu=0.34)
    backwards = ItemPopularity(np.arange(24.0), event=None)
    release = PrivateGram(found, small, protected=USER, delta=DELTA, chosen=backwards)
    assert release.head.tolist() == list(range(24))[::-1][: small.head]
    drawn = release.draw()
    exact = unfolded(
        gram(unit_rows(found.matrix[:, release.head], bits=grid_bits(300))), small.head
    )
    assert np.array_equal(drawn.matrix, exact)


def test_every_item_of_the_catalogue_has_a_popularity() -> None:
    """Also the one that nobody touched: otherwise the catalogue would tell what was touched."""
    found = shop()
    assert found.matrix[:, [23]].nnz == 0
    first = PrivatePopularity(found, budget(found), protected=USER, delta=DELTA)
    assert first.draw().values.shape == (24,)


# --- as releases ----------------------------------------------------------------------------------


def test_they_are_releases_that_are_read_again_to_the_bit() -> None:
    made = moments(shop())
    spent, known = made.budget, made.popularity
    first = PrivatePopularity(shop(), spent, protected=USER, delta=DELTA)
    second = PrivateGram(shop(), spent, protected=USER, delta=DELTA, chosen=known)
    assert isinstance(first, Release)
    assert isinstance(second, Release)
    again = first.codec.unpack(first.codec.pack(known))
    assert np.array_equal(again.values, known.values)
    assert made.gram is not None
    matrix = second.codec.unpack(second.codec.pack(made.gram)).matrix
    assert np.array_equal(matrix, made.gram.matrix)
    for content in (b"", b"nonsense", second.codec.pack(made.gram) + b"x"):
        with pytest.raises(UnreadableFile):
            second.codec.unpack(content)
    with pytest.raises(UnreadableFile):
        first.codec.unpack(second.codec.pack(made.gram))


def test_nothing_is_used_that_nobody_paid_for() -> None:
    found = shop()
    spent = budget(found)
    first = PrivatePopularity(found, spent, protected=USER, delta=DELTA)
    with pytest.raises(Refused, match=r"voile\.app\.recommend\.train makes and charges"):
        PrivateGram(found, spent, protected=USER, delta=DELTA, chosen=first.draw())
    made = moments(found)
    with pytest.raises(Refused, match="nobody was charged"):
        replace(made, popularity=replace(made.popularity, charge=None))


def test_another_unit_or_relation_is_refused() -> None:
    found = shop()
    for protected in (
        Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, DATASET),
        Protected(ProtectedUnit.USER, Relation.REPLACE_ONE, DATASET),
    ):
        with pytest.raises(Refused, match="the bound behind this release"):
            PrivatePopularity(found, budget(found), protected=protected, delta=DELTA)
    with pytest.raises(InvalidInput, match="the budget is for 300 users"):
        PrivatePopularity(shop(10), budget(found), protected=USER, delta=DELTA)


def test_the_joint_guarantee_is_that_of_the_budget() -> None:
    made = moments(shop(), 2.0)
    assert 1.999 < made.guarantee.epsilon <= 2.0
    assert made.guarantee.delta == DELTA
    assert made.guarantee.protected == USER
    assert made.origin.guarantees == (made.guarantee,)


def test_too_little_budget_goes_to_popularity_alone() -> None:
    found = shop(40)
    spent = budget(found, 1.0)
    assert spent.popularity_only
    assert spent.popularity_share == 1.0
    with pytest.raises(InvalidInput, match="there is no Gram matrix"):
        _ = spent.gram_noise
    made = moments(found, 1.0)
    assert made.gram is None
    assert 0.999 < made.guarantee.epsilon <= 1.0
    preview = PrivatePopularity(found, spent, protected=USER, delta=DELTA).preview()
    assert "everybody is recommended the same" in str(preview)


def test_a_delta_below_the_accuracy_of_the_sampler_is_refused() -> None:
    found = shop()
    with pytest.raises(InvalidInput, match="below the accuracy of the sampler"):
        PrivatePopularity(found, budget(found, 2.0), protected=USER, delta=1e-20)


def test_the_rule_follows_users_times_mu() -> None:
    def rule(mu: float) -> tuple[float, int]:
        spent = MomentsBudget(users=6040, items=3883, relation=Relation.BLANK_ONE, mu=mu)
        return spent.popularity_share, spent.head

    assert rule(400 / 6040) == (0.10, 140)
    assert rule(399 / 6040) == (0.25, 140)
    assert rule(149 / 6040) == (0.50, 85)
    assert rule(0.2367) == (0.10, 265)
    assert rule(1e6)[1] == 3883


def test_the_preview_says_what_to_expect() -> None:
    found = shop()
    first = PrivatePopularity(found, budget(found, 5.0), protected=USER, delta=DELTA)
    text = str(first.preview())
    assert "of the NDCG@10 without privacy" in text
    assert "Gaussian noise of " in text
    assert first.identity == replace(first).identity
    other = PrivatePopularity(found, budget(found, 4.0), protected=USER, delta=DELTA)
    assert other.identity != first.identity


def test_how_far_drawing_is_can_be_watched() -> None:
    found = shop()
    seen: list[tuple[int, int]] = []
    first = PrivatePopularity(
        found,
        budget(found),
        protected=USER,
        delta=DELTA,
        progress=lambda done, total: seen.append((done, total)),
    )
    first.draw()
    assert seen == [(24, 24)]
    many: list[tuple[int, int]] = []
    noise = replace(first.noise, shape=(20_000,))
    drawn = noise.randomise(np.zeros(20_000), lambda *told: many.append(told))
    assert many == [(8192, 20_000), (16384, 20_000), (20_000, 20_000)]
    assert abs(drawn.std() / noise.sigma - 1) < 0.05


def test_a_joint_guarantee_names_both_releases() -> None:
    found = shop()
    first = PrivatePopularity(found, budget(found), protected=USER, delta=DELTA)
    promise = joint_guarantee(first.budget, protected=USER, delta=DELTA)
    assert "popularity and Gram matrix" in promise.mechanism
    assert any("not against the server" in each for each in promise.assumptions)


def test_more_users_than_rounding_allows_are_refused() -> None:
    """The diagonal of a sum over n users, over √2, is off by up to n·2⁻⁵³ of what one user adds."""
    assert MOST_USERS * 2**-53 < 1e-9
    with pytest.raises(InvalidInput, match="rounded"):
        MomentsBudget(users=MOST_USERS + 1, items=9, relation=Relation.BLANK_ONE, mu=1.0)
