"""Guarantees: what is refused, what is kept, and what is printed."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.protecting import explained_row_of, joined
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import (
    SMALLEST_DELTA,
    Adversary,
    Guarantee,
    Protected,
    ProtectedUnit,
    Relation,
)

SOUND: dict[str, Any] = {
    "epsilon": 1.5,
    "delta": 1e-6,
    "unit": ProtectedUnit.ROW,
    "relation": Relation.BLANK_ONE,
    "dataset": "clinic v3",
    "against": (Adversary.PUBLIC,),
    "computational": False,
    "mechanism": "Laplace noise",
    "composition": "one release",
    "public_facts": ("number of rows: 10",),
    "assumptions": ("running time is not observed",),
}
SUBNORMAL = 5e-324
LARGEST = 1.7976931348623157e308


def guarantee(**changes: Any) -> Guarantee:
    return Guarantee(**joined(SOUND | changes))


words = st.text(min_size=1, max_size=20).filter(str.strip)
facts = st.lists(words, max_size=3).map(tuple)
figures = st.floats(0, allow_infinity=False)


@st.composite
def protections(draw: st.DrawFn) -> Protected:
    unit, relation = draw(st.sampled_from(ProtectedUnit)), draw(st.sampled_from(Relation))
    if unit is ProtectedUnit.EXPLAINED_ROW:
        relation = Relation.REPLACE_ONE
    named = st.lists(words, min_size=1, max_size=3, unique=True).map(tuple)
    columns = draw(named) if unit is ProtectedUnit.COLUMNS else ()
    return Protected(unit, relation, draw(words), columns)


@st.composite
def guarantees(draw: st.DrawFn) -> Guarantee:
    protected = draw(protections())
    counted = protected.unit in (ProtectedUnit.ROW, ProtectedUnit.COLUMNS)
    return Guarantee(
        epsilon=draw(figures),
        delta=draw(st.floats(0, 1, exclude_max=True)),
        protected=protected,
        against=tuple(draw(st.lists(st.sampled_from(Adversary), min_size=1, max_size=4))),
        computational=draw(st.booleans()),
        mechanism=draw(words),
        composition=draw(words),
        public_facts=draw(facts),
        assumptions=draw(facts),
        parts=draw(facts),
        records_per_person=draw(st.none() | st.integers(1, 9)) if counted else None,
    )


# --- what is refused ------------------------------------------------------------------------------

NOT_WORDS = [None, "", "  ", 3, ["a"]]
NOT_TEXTS = [None, "one text", [""], [3], {"a"}, [["a"]]]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            (field, value)
            for field in ("epsilon", "delta")
            for value in (
                math.nan,
                math.inf,
                -math.inf,
                -1e-9,
                True,
                "1",
                None,
                10**400,
                -(10**400),
            )
        ),
        ("delta", 1),
        ("delta", 1.5),
        *(("unit", value) for value in (None, "rows", "", 1)),
        *(("relation", value) for value in (None, "blank", "", 1)),
        *(("against", value) for value in (*NOT_TEXTS, (), ["everybody"])),
        *(("computational", value) for value in (None, 0, 1, "no")),
        *((field, v) for field in ("dataset", "mechanism", "composition") for v in NOT_WORDS),
        *((field, value) for field in ("public_facts", "assumptions") for value in NOT_TEXTS),
        *(("records_per_person", value) for value in (0, -1, 2.0, True, "2", [2])),
    ],
)
def test_a_wrong_field_is_refused_and_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=field):
        guarantee(**{field: value})


PARTS = ("unit", "relation", "dataset")
FIGURES = [name for name in SOUND if name not in (*PARTS, "public_facts", "assumptions")]


@pytest.mark.parametrize("field", ["protected", *FIGURES])
def test_no_field_that_matters_has_a_default(field: str) -> None:
    with pytest.raises(TypeError, match=field):
        Guarantee(**{name: value for name, value in joined(SOUND).items() if name != field})


@pytest.mark.parametrize("field", PARTS)
def test_no_part_of_what_is_protected_has_a_default(field: str) -> None:
    with pytest.raises(TypeError, match=field):
        Protected(**{name: SOUND[name] for name in PARTS if name != field})


@pytest.mark.parametrize("given", [None, "row", SOUND])
def test_what_is_protected_is_one_value(given: Any) -> None:
    with pytest.raises(InvalidInput, match="what is protected"):
        guarantee(protected=given)


@pytest.mark.parametrize("relation", [Relation.BLANK_ONE, Relation.ADD_OR_REMOVE_ONE])
def test_an_explained_row_stands_against_any_other_row(relation: Relation) -> None:
    with pytest.raises(Refused, match="use replace one"):
        guarantee(unit=ProtectedUnit.EXPLAINED_ROW, relation=relation)


def test_an_explained_row_can_be_protected_under_replace_one() -> None:
    kept = guarantee(unit=ProtectedUnit.EXPLAINED_ROW, relation=Relation.REPLACE_ONE)
    assert kept.protected == explained_row_of("clinic v3")


# --- what is kept ---------------------------------------------------------------------------------


def test_plain_values_become_their_types() -> None:
    kept = guarantee(
        epsilon=2,
        delta=np.float64(0.25),
        unit="user",
        relation="replace one",
        against=["other clients", "the public"],
        assumptions=["a"],
    )
    assert type(kept.epsilon) is float
    assert type(kept.delta) is float
    assert kept.protected.unit is ProtectedUnit.USER
    assert kept.protected.relation is Relation.REPLACE_ONE
    assert kept.against == (Adversary.OTHER_CLIENTS, Adversary.PUBLIC)
    assert kept.assumptions == ("a",)


def test_a_list_that_is_changed_afterwards_changes_nothing() -> None:
    given = ["a"]
    kept = guarantee(assumptions=given)
    given.append("b")
    assert kept.assumptions == ("a",)


@pytest.mark.parametrize("field", list(SOUND))
def test_a_guarantee_is_frozen(field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(guarantee(), field, SOUND[field])


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("epsilon", 1.6),
        ("delta", 0),
        ("unit", "user"),
        ("relation", "replace one"),
        ("dataset", "clinic v4"),
        ("against", ("other clients",)),
        ("computational", True),
        ("mechanism", "x"),
        ("composition", "x"),
        ("public_facts", ()),
        ("assumptions", ()),
    ],
)
def test_guarantees_that_differ_in_one_field_are_not_equal(field: str, other: object) -> None:
    assert guarantee() == guarantee()
    assert hash(guarantee()) == hash(guarantee())
    assert guarantee(**{field: other}) != guarantee()


def test_a_negative_zero_is_zero() -> None:
    kept = guarantee(epsilon=-0.0, delta=-0.0)
    assert math.copysign(1, kept.epsilon) == math.copysign(1, kept.delta) == 1
    assert "-" not in str(kept).partition(")")[0]


# --- as plain values ------------------------------------------------------------------------------


@given(guarantees())
def test_a_guarantee_survives_json_bit_for_bit(stated: Guarantee) -> None:
    stored = json.loads(json.dumps(stated.to_dict(), allow_nan=False))
    restored = Guarantee.from_dict(stored)
    assert restored == stated
    assert restored.epsilon.hex() == stated.epsilon.hex()
    assert restored.delta.hex() == stated.delta.hex()
    assert type(restored.protected.unit) is ProtectedUnit
    assert all(type(adversary) is Adversary for adversary in restored.against)


def test_stored_words_never_change() -> None:
    """The compatibility promise: these words are in files that people have."""
    assert {str(unit) for unit in ProtectedUnit} == {
        "row",
        "explained row",
        "declared columns of a row",
        "user",
        "client",
    }
    assert {str(relation) for relation in Relation} == {
        "blank one",
        "replace one",
        "add or remove one",
    }
    assert {str(adversary) for adversary in Adversary} == {
        "the public",
        "a server that sees single updates",
        "a server that sees only sums of updates",
        "other clients",
        "other users",
    }
    assert set(guarantee().to_dict()) == set(SOUND)


@pytest.mark.parametrize("field", list(SOUND))
def test_a_stored_guarantee_must_be_complete(field: str) -> None:
    stored = guarantee().to_dict()
    del stored[field]
    with pytest.raises(InvalidInput, match=rf"missing \['{field}'\]"):
        Guarantee.from_dict(stored)


def test_a_stored_guarantee_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"unknown \['strength'\]"):
        Guarantee.from_dict(guarantee().to_dict() | {"strength": 3})


@pytest.mark.parametrize("stored", [None, [], "row", 3])
def test_a_stored_guarantee_is_an_object(stored: Any) -> None:
    with pytest.raises(InvalidInput, match="object"):
        Guarantee.from_dict(stored)


# --- what is protected ----------------------------------------------------------------------------

COLUMNS = ProtectedUnit.COLUMNS


@given(protections())
def test_what_is_protected_is_stored_as_three_texts(stated: Protected) -> None:
    assert list(stated.texts) == list(PARTS)
    assert Protected.from_texts(**json.loads(json.dumps(stated.texts))) == stated


@given(protections())
def test_each_unit_says_itself_in_words(stated: Protected) -> None:
    told = [f"each {stated.unit} of"] if not stated.columns else map(repr, stated.columns)
    assert all(part in str(stated) for part in told)


def test_declared_columns_are_stored_with_the_unit() -> None:
    stated = Protected(COLUMNS, Relation.BLANK_ONE, "clinic v3", ("income", "größe"))
    assert stated == Protected(COLUMNS, Relation.BLANK_ONE, "clinic v3", ("größe", "income"))
    assert stated.texts["unit"] == 'declared columns of a row: ["größe", "income"]'
    assert str(stated) == "the columns 'größe', 'income' of each row of 'clinic v3', zero-out"


@pytest.mark.parametrize(
    ("unit", "columns"),
    [
        (COLUMNS, ()),
        (ProtectedUnit.ROW, ("age",)),
        (COLUMNS, ("age", "age")),
        (COLUMNS, ("",)),
        (COLUMNS, "age"),
        (COLUMNS, (3,)),
    ],
)
def test_columns_are_declared_for_their_unit_alone(unit: ProtectedUnit, columns: Any) -> None:
    with pytest.raises(InvalidInput, match="columns"):
        Protected(unit, Relation.BLANK_ONE, "clinic v3", columns)


@pytest.mark.parametrize(
    "unit",
    [
        "row: ",
        'row: ["age"]',
        "declared columns of a row",
        "declared columns of a row: ",
        "declared columns of a row: []",
        "declared columns of a row: age",
        "declared columns of a row: {}",
        'declared columns of a row: ["b", "a"]',
        'declared columns of a row: ["a","b"]',
        "declared columns of a row: " + "[" * 100_000,
        None,
        3,
    ],
)
def test_a_unit_is_read_only_as_it_is_written(unit: Any) -> None:
    with pytest.raises(InvalidInput):
        Protected.from_texts(unit, "blank one", "clinic v3")


def test_people_write_zero_out_and_files_hold_blank_one() -> None:
    written = Protected(ProtectedUnit.ROW, Relation("zero-out"), "clinic v3")
    assert written == Protected(ProtectedUnit.ROW, Relation("blank one"), "clinic v3")
    assert written.texts["relation"] == "blank one"
    assert [relation.word for relation in Relation] == [
        "zero-out",
        "replace one",
        "add or remove one",
    ]
    with pytest.raises(InvalidInput, match="relation must be as it is stored, found 'zero-out'"):
        Protected.from_texts("row", "zero-out", "clinic v3")
    with pytest.raises(InvalidInput, match="one of 'zero-out', 'replace one', 'add or remove one'"):
        Protected(ProtectedUnit.ROW, "swap", "clinic v3")  # type: ignore[arg-type]


def test_every_part_in_which_two_differ_is_named() -> None:
    row = Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "a")
    assert not row.difference(row)
    user = Protected(ProtectedUnit.USER, Relation.BLANK_ONE, "b")
    assert row.difference(user) == "the unit 'row', not 'user' and the dataset 'a', not 'b'"
    age = Protected(COLUMNS, Relation.BLANK_ONE, "a", ("age",))
    assert '["age"]' in age.difference(replace(age, columns=("income",)))


# --- as text --------------------------------------------------------------------------------------


def printed_figures(stated: Guarantee) -> tuple[Decimal, Decimal]:
    found = re.match(r"\(ε = (\S+), δ = (\S+)\) ", str(stated))
    assert found, str(stated)
    return Decimal(found[1]), Decimal(found[2])


@given(figures, st.floats(0, 1, exclude_max=True))
@example(1.0000001, 1.0000001e-5)
@example(LARGEST, math.nextafter(1, 0))
@example(2 * SUBNORMAL, SMALLEST_DELTA)
def test_printing_never_rounds_down_and_hardly_up(epsilon: float, delta: float) -> None:
    stated = guarantee(epsilon=epsilon, delta=delta)
    assert stated.delta == (delta if delta == 0 or delta >= SMALLEST_DELTA else SMALLEST_DELTA)
    for shown, true in zip(printed_figures(stated), (epsilon, stated.delta), strict=True):
        assert float(shown) >= true
        assert Decimal(repr(true)) <= shown <= Decimal(repr(true)) * Decimal("1.00001")


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (0, "0"),
        (1, "1"),
        (0.5, "0.5"),
        (100, "100"),
        (123456, "123456"),
        (0.1, "0.1"),  # although the double nearest to 0.1 is above it
        (0.1 + 0.2, "0.300001"),
        (0.0001, "0.0001"),
        (1e-5, "1e-5"),
        (2**-17, "7.6294e-6"),
        (2**30, "1.07375e+9"),
    ],
)
def test_printed_figures_are_short(figure: float, text: str) -> None:
    assert f"(ε = {text}, " in str(guarantee(epsilon=figure))


@given(guarantees())
def test_the_text_says_whom_and_how(stated: Guarantee) -> None:
    text = str(stated)
    assert f"for {stated.protected}, against" in text
    for part in (stated.protected.relation.word, repr(stated.protected.dataset), *stated.against):
        assert part in text
    assert stated.mechanism in text
    assert stated.composition in text


@pytest.mark.parametrize("computational", [False, True])
def test_the_text_says_when_it_holds_against_bounded_computers_only(computational: bool) -> None:
    assert (", computational;" in str(guarantee(computational=computational))) is computational


# --- a declared number of records of one person ---------------------------------------------------


def test_what_is_declared_is_an_assumption_and_stored_once() -> None:
    declared = guarantee(unit=ProtectedUnit.ROW, records_per_person=3)
    told = f"at most 3 records belong to one person in {declared.protected.dataset!r}: declared"
    assert sum(each.startswith(told) for each in declared.assumptions) == 1
    assert declared.to_dict()["records_per_person"] == 3
    again = Guarantee.from_dict(declared.to_dict())
    assert again == declared
    assert again.assumptions == declared.assumptions


def test_a_guarantee_without_a_declaration_is_stored_as_ever() -> None:
    plain = guarantee(unit=ProtectedUnit.ROW)
    assert "records_per_person" not in plain.to_dict()
    assert Guarantee.from_dict(plain.to_dict()).records_per_person is None


@pytest.mark.parametrize("unit", [ProtectedUnit.USER, ProtectedUnit.CLIENT])
def test_records_are_counted_only_where_one_is_protected(unit: ProtectedUnit) -> None:
    with pytest.raises(InvalidInput, match="does not count rows"):
        guarantee(unit=unit, records_per_person=2)
