"""The contribution rate: exact, sampled, free, charged; and what a choice by it promises."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.paying import Ledger, as_if_paid
from tests.unit.app.budget_examples import House
from voile.core.errors import BudgetExceeded, InvalidInput, Refused, UnreadableFile
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.models import Simplex, wrap
from voile.pipelines.shapley_guided_noise import (
    AttributeGroups,
    ChargedRate,
    ContributionRate,
    DeclaredLevels,
    contribution_rate,
    free_rate,
)
from voile.pipelines.shapley_guided_noise.contribution import RIDGE, ridge_weights
from voile.pipelines.tables import TableRecords
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.calibration import NoisyStage, dp_sgd_noise
from voile.privacy.events import Composed, Gaussian, PrivacyEvent, PureDp
from voile.records.ledger.event_text import event_text
from voile.records.ledger.history import entries_of
from voile.release.charged import paid_artefact

SCHEMA = Schema(
    "people",
    tuple(Feature(name, Numbers(-3, 3), 0) for name in ("a", "b", "c")),
    Label("ill", Categories(("no", "yes"))),
)
PROTECTED = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "people v1")
GROUPS = AttributeGroups.two(SCHEMA, ("c",))


def records(rows: int = 400, seed: int = 0) -> TableRecords:
    draw = np.random.default_rng(seed)
    found = draw.normal(size=(rows, 3)).clip(-3, 3)
    labels = (found[:, 0] + found[:, 2] > 0).astype(float)
    return TableRecords(SCHEMA, found, labels, np.zeros(rows, dtype=np.bool_))


def test_a_rate_is_the_share_of_a_shapley_value() -> None:
    worth = {(0,): 0.6, (1,): 0.2, (0, 1): 0.8}
    found = contribution_rate(lambda s: worth[tuple(sorted(s))], 2, 1)
    assert found == pytest.approx(((0.2 - 0) + (0.8 - 0.6)) / 2 / 0.8)


@given(st.lists(st.floats(-2, 2), min_size=31, max_size=31), st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_a_rate_lies_between_0_and_1_and_all_of_them_are_one(
    worths: list[float], players: int
) -> None:
    def worth(coalition: frozenset[int]) -> float:
        return worths[int(sum(2**p for p in coalition)) - 1]

    rates = [contribution_rate(worth, players, p) for p in range(players)]
    assert all(0 <= rate <= 1 for rate in rates)
    everybody = worth(frozenset(range(players)))
    if everybody <= 0:
        assert rates == [0.5] * players


def test_where_it_is_undefined_it_is_one_half() -> None:
    assert contribution_rate(lambda _: 0.0, 3, 0) == 0.5
    assert contribution_rate(lambda _: math.nan, 3, 0) == 0.5
    assert contribution_rate(lambda _: -1.0, 2, 0) == 0.5


def test_permutations_come_near_what_is_exact() -> None:
    """Additive worths are met exactly; each coalition is asked about once."""
    asked = []

    def worth(coalition: frozenset[int]) -> float:
        asked.append(coalition)
        return float(sum(coalition))

    found = contribution_rate(worth, 8, 7, np.random.default_rng(0))
    assert found == pytest.approx(7 / 28)
    assert len(set(asked)) == len(asked)
    with pytest.raises(InvalidInput, match="generator"):
        contribution_rate(worth, 8, 7)
    with pytest.raises(InvalidInput, match="two players"):
        contribution_rate(worth, 1, 0)


def test_a_free_rate_is_that_of_a_model_on_reference_rows() -> None:
    def model(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        yes = 1 / (1 + np.exp(-(rows[:, 0] + 3 * rows[:, 2])))
        return np.stack([1 - yes, yes], axis=1)

    wrapped = wrap(model, outputs=Simplex())
    other = AttributeGroups.two(SCHEMA, ("b",))
    assert free_rate(wrapped, records(), other) < free_rate(wrapped, records(), GROUPS)
    with pytest.raises(InvalidInput, match="every feature"):
        free_rate(wrapped, records(), AttributeGroups({"private": ("c",), "rest": ("a",)}, "c"))


def rate_of(data: TableRecords, blocks: int, noise: float) -> ChargedRate:
    return ChargedRate(
        data, GROUPS, blocks=blocks, noise_multiplier=noise, protected=PROTECTED, delta=1e-5
    )


def paid(rate: float) -> ContributionRate:
    """As a ledger would give it back."""
    kept = json.dumps(rate).encode()
    return paid_artefact(rate_of(records(), 20, 5.0), "charge 1", Ledger(kept))


# --- charged ------------------------------------------------------------------------------------


@given(
    st.integers(0, 99), st.sampled_from(["blank", "null", "label", "extreme"]), st.integers(0, 9)
)
@settings(max_examples=60, deadline=None)
def test_one_row_moves_the_mean_of_blocks_by_one_share_at_most(
    place: int, how: str, seed: int
) -> None:
    blocks, data = 10, records(100, seed)
    rows, labels, null = data.rows.copy(), data.labels.copy(), data.null.copy()
    match how:
        case "blank":
            rows[place] = 0
        case "null":
            null[place] = True
        case "label":
            labels[place] = np.nan
        case _:
            rows[place], labels[place] = 3, 1 - labels[place]
    charged = rate_of(data, blocks, 1.0)
    changed = replace(charged, records=TableRecords(SCHEMA, rows, labels, null))
    first, second = (each._rates(np.random.default_rng(0)) for each in (charged, changed))
    assert ((first >= 0) & (first <= 1)).all()
    assert (first != second).sum() <= 1
    moved = abs(first.mean() - second.mean())
    assert moved <= charged.sensitivity().value + 1e-12


def test_the_bound_is_attained() -> None:
    """A block of two rows says anything: 1/blocks, blanked or replaced."""
    blocks = 2
    rows = np.array([[0, 0, 3], [0, 0, 0], [0, 0, 3], [0, 0, 0]], dtype=np.float64)
    null = np.zeros(4, dtype=np.bool_)
    found = set()
    for value in (-3.0, 3.0):
        for label in (0.0, 1.0):
            changed, labels = rows.copy(), np.array([1.0, 0.0, label, 0.0])
            changed[2, 2] = value
            data = TableRecords(SCHEMA, changed, labels, null)
            charged = rate_of(data, blocks, 1.0)
            found.add(round(float(charged._rates(np.random.default_rng(0)).mean()), 6))
    assert max(found) - min(found) <= 0.5
    assert max(found) > min(found)


def test_a_release_has_noise_and_says_what_it_costs() -> None:
    charged = rate_of(records(), 10, 2.0)
    assert charged.cost(1) == Gaussian(2.0)
    assert charged.guarantees(1)[0].epsilon == charged.epsilon > 0
    found = [as_if_paid(charged).value for _ in range(40)]
    exact = charged._rates(np.random.default_rng(0)).mean()
    assert len(set(found)) > 30
    assert abs(np.mean(found) - exact) < 0.2  # 0.2/√40 · 6.3
    for unit in (ProtectedUnit.ROW, ProtectedUnit.COLUMNS):
        columns = ("c",) if unit is ProtectedUnit.COLUMNS else ()
        for relation in (Relation.BLANK_ONE, Relation.REPLACE_ONE):
            protected = Protected(unit, relation, "v1", columns)
            (promised,) = replace(charged, protected=protected).guarantees(1)
            assert replace(charged, protected=protected).sensitivity().value == 0.1
            assert any("correlated" in said for said in promised.assumptions) == bool(columns)
    added = Protected(ProtectedUnit.ROW, Relation.ADD_OR_REMOVE_ONE, "v1")
    with pytest.raises(Refused, match="shifts"):
        replace(charged, protected=added)
    for unit in (ProtectedUnit.USER, ProtectedUnit.CLIENT, ProtectedUnit.EXPLAINED_ROW):
        with pytest.raises(Refused, match="every block"):
            replace(charged, protected=Protected(unit, Relation.REPLACE_ONE, "v1"))
    for blocks in (1, 2.5, math.inf, True):
        with pytest.raises(InvalidInput, match="two blocks"):
            rate_of(records(), blocks, 1.0)  # type: ignore[arg-type]


def test_a_rate_that_nobody_paid_for_cannot_be_read(tmp_path: Path) -> None:
    charged = rate_of(records(), 10, 2.0)
    drawn = charged.draw()
    assert "0." not in repr(drawn).replace("2.0", "")
    with pytest.raises(Refused, match="nobody was charged"):
        _ = drawn.value
    with pytest.raises(Refused, match="nobody was charged"):
        LEVELS.by_charged_rate(drawn, PureDp)
    house = House.create("memory:", tmp_path)
    house.open("people", protected=PROTECTED, epsilon=4.0)
    with pytest.raises(BudgetExceeded):
        house.service.obtain(rate_of(records(), 10, 0.2), payer="people", caller="custodian")
    paid, again = (
        house.service.obtain(charged, payer="people", caller="custodian") for _ in range(2)
    )
    assert paid.value == again.value
    entries = house.vault.storage.submit(lambda t: list(entries_of(t, "people")))
    assert [entry.event for entry in entries if entry.event] == [event_text(Gaussian(2.0))]


@pytest.mark.parametrize("content", [b"", b"{}", b"1", b'"0.5"', b"[0.5]"])
def test_a_stored_rate_that_was_damaged_is_said_so(content: bytes) -> None:
    with pytest.raises(UnreadableFile, match="stored answer"):
        rate_of(records(), 10, 2.0).codec.unpack(content)


@pytest.mark.parametrize("rows", [3, 6, 7, 40])
def test_either_system_gives_the_weights_of_least_squares(rows: int) -> None:
    """A ridge is rows of their own: one for each column, with the target 0."""
    draw = np.random.default_rng(rows)
    inputs, targets = draw.normal(size=(rows, 6)), draw.normal(size=(rows, 2))
    ridge = np.sqrt(RIDGE) * np.eye(6)
    both = np.vstack([inputs, ridge]), np.vstack([targets, np.zeros((6, 2))])
    wanted = np.linalg.lstsq(*both, rcond=None)[0]
    found = ridge_weights(inputs, targets.astype(np.float32))
    assert np.allclose(found, wanted, atol=1e-6)


def test_small_or_empty_blocks_never_raise() -> None:
    assert rate_of(records(20), 50, 1.0)._rates(np.random.default_rng(0)).shape == (50,)
    nobody = records(60)
    nobody = TableRecords(SCHEMA, nobody.rows, nobody.labels, np.ones(60, dtype=np.bool_))
    assert (rate_of(nobody, 50, 1.0)._rates(np.random.default_rng(0)) == 0.5).all()


# --- levels -------------------------------------------------------------------------------------

LEVELS = DeclaredLevels({0.0: 2.0, 0.3: 1.0, 0.6: 0.2}, leave_out_below=0.05)


def training(epsilon: float) -> PrivacyEvent:
    stage = NoisyStage(0.1, 20)
    noise = dp_sgd_noise([stage], epsilon=epsilon, delta=1e-5, relation=Relation.BLANK_ONE)
    return stage.event(noise, Relation.BLANK_ONE)


@pytest.mark.parametrize(
    ("rate", "level"), [(0.0, None), (0.04, None), (0.05, 2.0), (0.3, 1.0), (0.59, 1.0), (1.0, 0.2)]
)
def test_a_level_chosen_by_a_charged_rate_carries_the_weakest_with_the_rate(
    rate: float, level: float | None
) -> None:
    chosen = LEVELS.by_charged_rate(paid(rate), training)
    assert chosen.epsilon == level
    assert chosen.event == Composed((Gaussian(5.0), training(2.0)))
    weakest = PrivacyLoss().compose(training(2.0)).epsilon(1e-5)
    assert chosen.promised(1e-5) > weakest > 1.99  # never a level's own, and never without the rate


def test_levels_that_train_in_other_ways_are_refused() -> None:
    """The stricter one has the smaller epsilon at 1e-5, and six times the other's at 1e-8."""

    def another_way(epsilon: float) -> PrivacyEvent:
        stage = NoisyStage(1.0, 1) if epsilon == 2.0 else NoisyStage(2e-5, 1)
        noise = dp_sgd_noise([stage], epsilon=epsilon, delta=1e-5, relation=Relation.BLANK_ONE)
        return stage.event(noise, Relation.BLANK_ONE)

    spent = [[PrivacyLoss().compose(another_way(level)).epsilon(delta) for level in (2.0, 1.0)]
             for delta in (1e-5, 1e-8)]  # fmt: skip
    assert spent[0][0] > spent[0][1]
    assert spent[1][0] < spent[1][1]
    with pytest.raises(Refused, match="same way"):
        LEVELS.by_charged_rate(paid(0.5), another_way)


def test_levels_of_events_that_name_an_epsilon() -> None:
    assert LEVELS.by_charged_rate(paid(0.5), PureDp).event == Composed((Gaussian(5.0), PureDp(2.0)))
    with pytest.raises(Refused, match="same way"):
        LEVELS.by_charged_rate(paid(0.5), lambda epsilon: PureDp(1 / epsilon))


@pytest.mark.parametrize(
    ("epsilons", "message"),
    [
        ({}, "begin at the rate 0"),
        ({0.1: 1.0}, "begin at the rate 0"),
        ({0.0: 1.0, 0.5: 2.0}, "weaker level"),
        ({0.0: math.inf}, "finite"),
    ],
)
def test_levels_are_declared_in_order(epsilons: dict[float, float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        DeclaredLevels(epsilons)
