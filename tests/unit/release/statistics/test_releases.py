"""What one row can cost: every number that is noised is looked at, for neighbours of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.unit.release.statistics.examples import SCHEMA, budget, people, records, released, terms
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Relation
from voile.core.schema import Categories, Label
from voile.models.additive import FeatureBins
from voile.privacy.accounting.conversion import zcdp_budget, zcdp_to_epsilon
from voile.privacy.mechanisms import DiscreteGaussian
from voile.release.statistics import (
    FineTables,
    LabelledRecords,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    StatisticsBudget,
    joint_guarantee,
)
from voile.release.statistics import budget as budget_module
from voile.release.statistics import releases as releases_module
from voile.release.statistics.budget import MomentsNoise
from voile.release.statistics.merging import MergedTables
from voile.release.statistics.sums import centred_products, centred_sums

BOTH = (Relation.BLANK_ONE, Relation.REPLACE_ONE)
KINDS = ("tables", "moments", "calibration")
ROWS = 60
Noised = list[tuple[float, NDArray[np.int64]]]


class Sampler:
    """In the place of noise: keeps every number that would get some, with its deviation."""

    def __init__(self) -> None:
        self.noised: Noised = []

    def __call__(self, mechanism: DiscreteGaussian, values: Any) -> NDArray[np.int64]:
        kept = np.array(values, dtype=np.int64).reshape(mechanism.shape)
        self.noised.append((mechanism.sigma, kept))
        return kept


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch) -> Sampler:
    found = Sampler()
    monkeypatch.setattr(DiscreteGaussian, "randomise", lambda *given: found(*given))
    return found


def release(
    kind: str, found: LabelledRecords, relation: Relation, before: Any, rho: float = 0.5
) -> Any:
    """One of the three, over the same releases before it."""
    given = budget(len(found), relation=relation, rho=rho)
    about = terms(given)
    if kind == "tables":
        return PrivateFineTables(found, given, **about)
    if kind == "moments":
        return PrivateMoments(found, given, **about, tables=before.tables)
    return PrivateCalibrationTable(
        found, given, **about, tables=before.tables, moments=before.moments
    )


def noised(sampler: Sampler, one: Any) -> Noised:
    sampler.noised.clear()
    made = one.draw()
    # Nothing leaves that did not go through the sampler.
    through = sorted(int(v) for _, block in sampler.noised for v in block.ravel())
    assert sorted(int(value) for block in made.blocks for value in block.ravel()) == through
    return list(sampler.noised)


def spent(one: Noised, two: Noised) -> float:
    """What two neighbours cost: half the squared distance, each number in its own deviations."""
    assert [(sigma, block.shape) for sigma, block in one] == [(s, b.shape) for s, b in two]
    return sum(
        float((((first - second) / sigma) ** 2).sum()) / 2
        for (sigma, first), (_, second) in zip(one, two, strict=True)
    )


def changed(
    found: LabelledRecords, place: int, row: Sequence[float], label: int
) -> LabelledRecords:
    rows, labels, null = found.rows.copy(), found.labels.copy(), found.null.copy()
    rows[place], labels[place], null[place] = row, label, False
    return LabelledRecords(rows, labels, null)


def blanked(found: LabelledRecords, place: int) -> LabelledRecords:
    rows, labels, null = found.rows.copy(), found.labels.copy(), found.null.copy()
    rows[place], labels[place], null[place] = SCHEMA.null_row, 0, True
    return LabelledRecords(rows, labels, null)


def most_spent(sampler: Sampler, kind: str, relation: Relation, before: Any = None) -> float:
    """The largest cost over neighbours of a table, as a share of what is charged."""
    found = records(ROWS)
    before = before or released(found, budget(ROWS, relation=relation, rho=0.5))
    whole = release(kind, found, relation, before)
    first, worst = noised(sampler, whole), 0.0
    others = people(40, seed=9)
    for place in range(0, ROWS, 2):
        neighbours = (
            [blanked(found, place)]
            if relation is Relation.BLANK_ONE
            else [
                changed(found, place, others[0][each], int(others[1][each]))
                for each in range(place // 2, place // 2 + 4)
            ]
            + [changed(found, place, found.rows[place], 1 - found.labels[place])]
        )
        for neighbour in neighbours:
            second = noised(sampler, release(kind, neighbour, relation, before))
            worst = max(worst, spent(first, second))
    return worst / float(whole.cost(1).rho)


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_no_neighbour_costs_more_than_is_charged(
    kind: str, relation: Relation, sampler: Sampler
) -> None:
    share = most_spent(sampler, kind, relation)
    assert share <= 1
    # And blanking a row costs all of it: the bound is attained.
    assert share > (1 - 1e-6 if relation is Relation.BLANK_ONE else 0.6)


VALUES = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, 2.0, 18.0, 90.0, 200.0, 1e5]))
ANY_ROW = st.lists(VALUES, min_size=5, max_size=5)


@settings(max_examples=60, deadline=None)
@given(ANY_ROW, ANY_ROW, st.sampled_from([0.0, 1.0, np.nan]), st.sampled_from([0.0, 1.0, np.nan]))
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_row_holds_it_costs_no_more(
    kind: str, one: list[float], two: list[float], label: float, other: float
) -> None:
    """A search over rows that no schema would accept, of which either may be null."""
    rows, labels = people(20)
    found, sampler = [], Sampler()
    for row, given_label in ((one, label), (two, other)):
        table, classes = np.vstack([rows, row]), np.append(labels, given_label)
        found.append(LabelledRecords.read(table, SCHEMA, classes))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DiscreteGaussian, "randomise", lambda *given: sampler(*given))
        before = _before()
        first, second = (
            noised(sampler, release(kind, each, Relation.REPLACE_ONE, before)) for each in found
        )
        charged = release(kind, found[0], Relation.REPLACE_ONE, before).cost(1).rho
    assert spent(first, second) <= charged * (1 + 1e-9)


_KEPT: list[Any] = []


def _before() -> Any:
    if not _KEPT:
        _KEPT.append(released(records(21), budget(21, relation=Relation.REPLACE_ONE, rho=0.5)))
    return _KEPT[0]


# --- with real noise ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "draws"), [("tables", 250), ("moments", 150), ("calibration", 900)]
)
def test_the_best_attack_on_real_noise_sees_what_is_charged(kind: str, draws: int) -> None:
    """Of all that is drawn, weighted by what a row adds to it over the variance of its noise: two
    neighbours lie √(2·rho) deviations apart. From so many draws that is off by 35 %, more than 5.5
    of its errors, with a chance below 10^-6."""
    found = records(ROWS)
    before = released(found, budget(ROWS, rho=10.0))
    one, two = (
        release(kind, each, Relation.BLANK_ONE, before, rho=10.0)
        for each in (found, blanked(found, 3))
    )
    sampler = Sampler()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DiscreteGaussian, "randomise", lambda *given: sampler(*given))
        exact = [noised(sampler, each) for each in (one, two)]
    weights = np.concatenate(
        [((x - y) / sigma**2).ravel() for (sigma, x), (_, y) in zip(*exact, strict=True)]
    )

    def attacked(target: Any) -> NDArray[np.float64]:
        drawn = (target.draw().blocks for _ in range(draws))
        return np.array([weights @ np.concatenate([b.ravel() for b in blocks]) for blocks in drawn])

    seen, other = attacked(one), attacked(two)
    apart = (seen.mean() - other.mean()) / np.sqrt((seen.var() + other.var()) / 2)
    assert apart == pytest.approx(np.sqrt(2 * one.cost(1).rho), rel=0.35)


# --- planted faults, each of which must be seen -------------------------------------------------


def with_public_rows(codes: Any, labels: Any, bins: Any, target: Any) -> list[NDArray[np.int64]]:
    """Centred with the public number of rows in place of those that are not null."""
    found = centred_sums(codes, labels, bins, target)
    return [block + len(labels) - ROWS for block in found[: len(bins)]] + found[len(bins) :]


def raw_counts(codes: Any, labels: Any, bins: Any, target: Any) -> list[NDArray[np.int64]]:
    """Not centred at all, with noise for what is."""
    found = centred_sums(codes, labels, bins, target)
    total = int(found[-1][0])
    return [
        *(block + len(labels) for block in found[: len(bins)]),
        *(block + total for block in found[len(bins) : -1]),
        found[-1],
    ]


def pairs_twice(codes: Any, bins: Any) -> list[NDArray[np.int64]]:
    found = centred_products(codes, bins)
    return [*found, *found]


def with_diagonal(codes: Any, bins: Any) -> list[NDArray[np.int64]]:
    found = centred_products(codes, bins)
    for place, count in enumerate(bins):
        own = count * np.eye(count, dtype=np.int64)[codes[:, place]] - 1
        found.append(own.T @ own)
    return found


def larger(shapes: Callable[[tuple[int, ...]], list[tuple[int, int]]]) -> Any:
    """Noise blocks for more products, each with the deviation of its kind."""
    plain = MomentsNoise.products_blocks.func  # type: ignore[attr-defined]

    def blocks(self: MomentsNoise) -> Any:
        more = tuple(shapes(self.bins))
        sigmas = tuple(one * two * self.products_deviation for one, two in more)
        found = plain(self)
        return replace(found, sigmas=found.sigmas + sigmas, shapes=found.shapes + more)

    return property(blocks)


def all_pairs(bins: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(one, two) for place, one in enumerate(bins) for two in bins[place + 1 :]]


def test_the_public_number_of_rows_in_the_centring_is_seen(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases_module, "centred_sums", with_public_rows)
    assert most_spent(sampler, "moments", Relation.BLANK_ONE) > 1.05


def test_noise_on_raw_counts_is_seen(sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases_module, "centred_sums", raw_counts)
    assert most_spent(sampler, "moments", Relation.BLANK_ONE) > 1.05


def test_pairs_that_are_counted_twice_are_seen(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases_module, "centred_products", pairs_twice)
    monkeypatch.setattr(MomentsNoise, "products_blocks", larger(all_pairs))
    assert most_spent(sampler, "moments", Relation.BLANK_ONE) > 1.2


def test_a_diagonal_that_is_sent_as_well_is_seen(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases_module, "centred_products", with_diagonal)
    own = larger(lambda bins: [(count, count) for count in bins])
    monkeypatch.setattr(MomentsNoise, "products_blocks", own)
    assert most_spent(sampler, "moments", Relation.BLANK_ONE) > 1.1


def test_bins_from_exact_quantiles_are_seen(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exact(self: PrivateMoments) -> MergedTables:
        found = MergedTables(self.budget, self.tables.blocks)
        pressure = self.records.rows[~self.records.null, 1]
        edges = FeatureBins("pressure", edges=tuple(np.quantile(pressure, [1 / 3, 2 / 3]).tolist()))
        bins = tuple(edges if each.name == "pressure" else each for each in found.bins)
        assert edges in bins
        found.__dict__["bins"] = bins
        return found

    before = released(records(ROWS), budget(ROWS, rho=0.5))
    descriptor = cached_property(exact)
    descriptor.__set_name__(PrivateMoments, "merged")
    monkeypatch.setattr(PrivateMoments, "merged", descriptor)
    assert most_spent(sampler, "moments", Relation.BLANK_ONE, before) > 1.05


@pytest.mark.parametrize("kind", KINDS)
def test_noise_that_costs_more_than_its_share_is_refused(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = records(ROWS)
    before = released(found, budget(ROWS, rho=0.5))
    plain = budget_module._deviation
    monkeypatch.setattr(budget_module, "_deviation", lambda *given: plain(*given) / 1.001)
    with pytest.raises(InvalidInput, match="more than its share"):
        release(kind, found, Relation.BLANK_ONE, before)


# --- null rows and reading ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_null_row_adds_nothing(kind: str) -> None:
    rows, labels = people(ROWS)
    nothing, unlabelled = np.full((1, 5), np.nan), rows[:1]
    more = LabelledRecords.read(
        np.vstack([nothing, rows, unlabelled]), SCHEMA, np.concatenate([[1.0], labels, [np.nan]])
    )
    assert more.null.tolist() == [True] + [False] * ROWS + [True]
    before = released(more, budget(ROWS + 2, rho=0.5))
    whole = release(kind, more, Relation.BLANK_ONE, before)
    without = LabelledRecords.read(rows, SCHEMA, labels)
    pairs = zip(whole.exact(more.present), whole.exact(without), strict=True)
    assert all(np.array_equal(one, two) for one, two in pairs)


def test_raw_tables_are_read_and_never_raise() -> None:
    table = {
        "age": ["34", None, "old", "1e400"],
        "pressure": [120.0, np.inf, -np.inf, np.nan],
        "income": ["", "nan", object(), 3],
        "region": ["north", "Mars", None, 7],
        "smoker": ["yes", "yes", "no", "maybe"],
        "ill": ["yes", "no", "unknown", None],
    }
    found = LabelledRecords.read(table, SCHEMA)
    assert found.null.tolist() == [False, False, True, True]
    assert found.rows[1].tolist() == [54.0, 200.0, 50_000.0, 0.0, 1.0]
    released(found)


@pytest.mark.parametrize(
    "labels", [["a", "b"], [None, 2], [[1, 2], object()], np.array(["x", None], dtype=object)]
)
def test_labels_that_are_none_make_null_rows(labels: Any) -> None:
    found = LabelledRecords.read(people(2)[0], SCHEMA, labels)
    assert found.null.all()
    released(found)


def test_records_that_nobody_read_are_brought_inside() -> None:
    strange = LabelledRecords(
        np.array([[1e9, -5.0, np.nan, 17.0, 2.0], [30, 120, 5, 1, 1], [30, 120, 5, 1, 1]]),
        np.array([1, 7, 0]),
        np.array([False, False, True]),
    )
    found = LabelledRecords.read(strange, SCHEMA)
    assert found.rows[0].tolist() == [90.0, 80.0, 50_000.0, 0.0, 0.0]
    assert found.null.tolist() == [False, True, True]
    released(strange)


def test_a_party_without_rows_sends_noise() -> None:
    given_budget = budget(100, parties=3)
    empty = LabelledRecords.read(np.empty((0, 5)), SCHEMA, np.empty(0))
    found = PrivateFineTables(empty, given_budget, **terms(given_budget)).draw()
    assert sum(int(np.abs(block).sum()) for block in found.blocks) > 0
    with pytest.raises(InvalidInput, match="for 100 rows, found 0"):
        PrivateFineTables(empty, budget(100), **terms(budget(100)))


def test_only_public_structure_raises() -> None:
    rows, labels = people(5)
    with pytest.raises(InvalidInput, match="needs labels"):
        LabelledRecords.read(rows, SCHEMA)
    with pytest.raises(InvalidInput, match="5 labels"):
        LabelledRecords.read(rows, SCHEMA, labels[:4])
    with pytest.raises(InvalidInput, match="for 6 rows, found 5"):
        PrivateFineTables(records(5), budget(6), **terms(budget(6)))
    for label in (None, Label("ill", Categories(("yes",)))):
        with pytest.raises(InvalidInput, match="at least two classes"):
            StatisticsBudget(
                schema=replace(SCHEMA, label=label), rows=5, relation=Relation.BLANK_ONE, rho=0.1
            )


# --- what is promised ---------------------------------------------------------------------------


def test_all_three_together_cost_what_an_account_grants() -> None:
    found = StatisticsBudget.within(
        schema=SCHEMA, rows=800, relation=Relation.BLANK_ONE, epsilon=2.0, delta=1e-5
    )
    assert found.rho == pytest.approx(zcdp_budget(2.0, 1e-5))
    shares = (found.tables_rho, found.moments_rho, found.calibration_rho)
    assert shares == pytest.approx([found.rho * part for part in (0.1425, 0.8075, 0.05)])
    about = terms(found)["protected"]
    assert 1.999 < joint_guarantee(found, protected=about, delta=1e-5).epsilon <= 2.0
    assert sum(shares) <= zcdp_budget(2.0, 1e-5)


def test_a_release_states_the_epsilon_of_its_own_cost() -> None:
    found = PrivateFineTables(records(50), budget(50), **terms(budget(50)))
    assert found.epsilon == zcdp_to_epsilon(found.cost(1).rho, 1e-5)


def test_what_nobody_paid_for_is_not_built_upon() -> None:
    found, given_budget = records(50), budget(50)
    unpaid = PrivateFineTables(found, given_budget, **terms(given_budget)).draw()
    assert isinstance(unpaid, FineTables)
    with pytest.raises(Refused, match="nobody was charged"):
        PrivateMoments(found, given_budget, **terms(given_budget), tables=unpaid)


def test_a_private_number_of_rows_is_refused() -> None:
    with pytest.raises(Refused, match="add or remove one"):
        budget(50, relation=Relation.ADD_OR_REMOVE_ONE)


def test_too_little_signal_is_said_before_anything_is_spent() -> None:
    weak, strong = budget(60, rho=0.01), budget(60, rho=10.0)
    assert weak.signal < 30 < strong.signal
    previews = [
        str(PrivateFineTables(records(60), each, **terms(each)).preview())
        for each in (weak, strong)
    ]
    assert ["mostly noise" in preview for preview in previews] == [True, False]


def test_new_tables_ask_for_new_moments() -> None:
    found = records(50)
    one, two = released(found), released(found)
    identities = {
        release("moments", found, Relation.BLANK_ONE, each).identity.parameters
        for each in (one, two, one)
    }
    assert len(identities) == 2


def test_parties_hold_parts_of_the_rows() -> None:
    given_budget = budget(100, parties=3)
    found = PrivateFineTables(records(30), given_budget, **terms(given_budget))
    assert found.cost(1).rho == budget(100).tables_rho
    with pytest.raises(InvalidInput, match="for 100 rows, found 101"):
        PrivateFineTables(records(101), given_budget, **terms(given_budget))
