"""Guarantees in words never promise more than the formal line, and follow the unit."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from voile.core.errors import InvalidInput
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.views.text import guarantee_in_words, in_words, several_records

ROWS = Protected(ProtectedUnit.ROW, Relation.ADD_OR_REMOVE_ONE, "clinic v3")


def test_the_words_of_the_issue_with_what_is_at_stake() -> None:
    said = in_words(ROWS, 2.0, 1e-5)
    assert said == (
        "For each record of 'clinic v3', whether or not it had been there: what is shown was at "
        "most 7.39 times as likely as otherwise, but for a chance of 1 in 100,000."
    )
    assert "chance" not in in_words(ROWS, 2.0, 0.0)


@pytest.mark.parametrize(
    ("unit", "relation", "words"),
    [
        (ProtectedUnit.ROW, Relation.BLANK_ONE, "it was there or had been blank"),
        (ProtectedUnit.ROW, Relation.REPLACE_ONE, "another one in its place"),
        (ProtectedUnit.USER, Relation.BLANK_ONE, "each person in 'd', with all records"),
        (ProtectedUnit.CLIENT, Relation.BLANK_ONE, "each party of 'd', with all its records"),
        (ProtectedUnit.EXPLAINED_ROW, Relation.REPLACE_ONE, "the person whom this is about"),
    ],
)
def test_words_follow_unit_and_relation(
    unit: ProtectedUnit, relation: Relation, words: str
) -> None:
    assert words in in_words(Protected(unit, relation, "d"), 1.0, 1e-6)


def test_declared_columns_are_named() -> None:
    some = Protected(ProtectedUnit.COLUMNS, Relation.REPLACE_ONE, "d", ("income", "debt"))
    assert "For what 'debt', 'income' say in each record of 'd'" in in_words(some, 1.0, 0.0)


def test_a_large_epsilon_is_called_what_it_is() -> None:
    for epsilon in (5.0, 100.0, 1e6):
        assert "promises little" in in_words(ROWS, epsilon, 0.0)


def test_whom_it_holds_against() -> None:
    promise = Guarantee(
        epsilon=1.0,
        delta=0.0,
        protected=ROWS,
        against=(Adversary.PUBLIC, Adversary.OTHER_CLIENTS),
        computational=True,
        mechanism="noise",
        composition="one release",
    )
    said = guarantee_in_words(promise)
    assert "against the public and other clients, as far as their computing power" in said


@given(st.floats(0, 20), st.floats(0, 0.4))
@example(2.6222489997406666, 5e-324)  # which times 4 is hardly more than times 3
def test_several_records_are_never_promised_more_than_follows(epsilon: float, delta: float) -> None:
    """By walking from neighbour to neighbour: p <= e^eps q + delta, k times."""
    for found in several_records(ROWS, epsilon, delta):
        factor, lost = 1.0, 0.0
        for _ in range(found.records):
            factor, lost = factor * math.exp(epsilon), lost * math.exp(epsilon) + delta
        if found.epsilon is None or found.delta is None:
            assert lost > 1 - 1e-9
        else:
            assert found.epsilon >= math.log(factor) - 1e-12  # of rounding in the factor
            assert found.delta >= lost * (1 - 1e-9)


def test_a_person_with_two_and_with_five_records() -> None:
    two, five = several_records(ROWS, 1.0, 1e-6)
    assert (two.records, two.epsilon, five.records, five.epsilon) == (2, 2.0, 5, 5.0)
    assert two.delta == pytest.approx(1e-6 * (1 + math.e))
    assert "ε = 2, δ = 3.719e-06" in str(two)
    nothing = several_records(ROWS, 400.0, 1e-6)[1]
    assert "nothing is promised" in str(nothing)
    assert several_records(Protected(ProtectedUnit.USER, Relation.BLANK_ONE, "d"), 1.0, 0.0) == ()


def test_a_declared_maximum_takes_the_place_of_two_and_five() -> None:
    (three,) = several_records(ROWS, 1.0, 1e-6, records_per_person=3)
    assert (three.records, three.epsilon) == (3, 3.0)
    assert str(three).startswith(
        "A person, with at most 3 records (declared, and checked by nobody): ε = 3, δ = 1.111e-05"
    )
    (one,) = several_records(ROWS, 1.0, 1e-6, records_per_person=1)
    assert str(one) == (
        "A person, with at most 1 record (declared, and checked by nobody): what is promised for "
        "a record is promised for the person."
    )
    assert one.delta == pytest.approx(1e-6)
    with pytest.raises(InvalidInput, match="at least 1"):
        several_records(ROWS, 1.0, 1e-6, records_per_person=0)


@given(st.floats(1e-12, 0.49))
def test_chances_are_never_smaller_in_words(delta: float) -> None:
    said = in_words(ROWS, 0.0, delta)
    count = int(said.rpartition("1 in ")[2].rstrip(".").replace(",", ""))
    assert 1 / count >= delta * (1 - 1e-9)
