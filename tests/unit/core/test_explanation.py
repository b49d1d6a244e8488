"""Explanations: what is accepted, that nothing is shared with the caller, and looking at parts."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from tests.protecting import about
from voile.core.errors import InvalidInput
from voile.core.explanation import NO_GUARANTEE, Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.row_note import KnownNote

ROWS, FEATURES, OUTPUTS = 4, 3, 2
NAMES = ("age", "bmi", "ward")
PROMISE = Guarantee(
    epsilon=0.5,
    delta=0.0,
    protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "clinic v3"),
    against=(Adversary.PUBLIC,),
    computational=False,
    mechanism="Laplace noise",
    composition="one release",
)


def numbered(*shape: int) -> NDArray[np.float64]:
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


def complete(**changes: Any) -> Explanation:
    """Every part present, every number different."""
    parts: dict[str, Any] = {
        "values": numbered(ROWS, FEATURES, OUTPUTS),
        "base_values": 100 + numbered(ROWS, OUTPUTS),
        "feature_names": NAMES,
        "output_names": ("risk", "cost"),
        "data": 1000 + numbered(ROWS, FEATURES),
        "standard_errors": numbered(ROWS, FEATURES, OUTPUTS) / 100,
        "half_widths": numbered(ROWS, FEATURES, OUTPUTS) / 50,
        "guarantees": (PROMISE,),
        "notes": ("measured twice",),
    }
    return Explanation(**(parts | changes))


def small(values: Any = ((1.0, 2.0),), **changes: Any) -> Explanation:
    """One row, two features, one output, and nothing that is optional."""
    parts: dict[str, Any] = {"values": values, "base_values": 0, "feature_names": ("a", "b")}
    return Explanation(**(parts | changes))


# --- shapes ---------------------------------------------------------------------------------------


def test_the_three_axes_are_rows_features_outputs() -> None:
    explanation = complete()
    assert explanation.shape == (ROWS, FEATURES, OUTPUTS)
    assert len(explanation) == ROWS
    assert explanation.base_values.shape == (ROWS, OUTPUTS)


def test_one_output_may_be_given_without_its_axis() -> None:
    explanation = small([[1, 2]], standard_errors=[[3, 4]], half_widths=[[6, 8]])
    assert explanation.shape == (1, 2, 1)
    assert explanation.output_names == ("output",)
    assert explanation.values[0, :, 0].tolist() == [1, 2]
    assert explanation.standard_errors is not None
    assert explanation.half_widths is not None
    assert explanation.standard_errors[0, :, 0].tolist() == [3, 4]


@pytest.mark.parametrize(
    "shape", [(), (2,), (0, 2), (1, 0), (0, 2, 1), (1, 0, 1), (1, 2, 0), (1, 2, 1, 1), (0,)]
)
def test_values_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="values must have shape") as caught:
        small(np.ones(shape))
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("field", ["values", "base_values", "standard_errors", "half_widths"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(field: str, wrong: float) -> None:
    array = np.array(getattr(complete(), field))
    array.flat[-1] = wrong
    with pytest.raises(InvalidInput, match=f"{field} must be finite"):
        complete(**{field: array})


@pytest.mark.parametrize("field", ["values", "base_values", "standard_errors", "half_widths"])
@pytest.mark.parametrize(
    "wrong",
    [
        "text",
        np.array([[1, 2]], dtype=object),
        [[1.0, "2"]],
        [[1 + 2j, 0]],
        np.array([["2026-01-01", "2026-01-02"]], dtype="datetime64[D]"),
        [[1.0, 2.0], [3.0]],
        {"a": 1},
    ],
    ids=["text", "objects", "mixed", "complex", "dates", "ragged", "mapping"],
)
def test_what_is_not_a_number_is_refused(field: str, wrong: object) -> None:
    with pytest.raises(InvalidInput, match=f"{field} must be an array of numbers"):
        small(**{field: wrong})


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 1), (3, 4, 2), (2,), ()])
def test_standard_errors_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="standard_errors must have shape"):
        complete(standard_errors=np.ones(shape))


def test_negative_standard_errors_are_refused() -> None:
    with pytest.raises(InvalidInput, match="not be negative"):
        small(standard_errors=[[0.0, -1e-300]])
    assert small(standard_errors=[[0.0, 0.0]]).standard_errors is not None


@pytest.mark.parametrize(
    ("given", "row"),
    [
        (7, [7, 7]),
        ([7, 8], [7, 8]),
        ([[7, 8]], [7, 8]),
        (np.float32(7), [7, 7]),
    ],
)
def test_base_values_are_repeated_for_every_row(given: Any, row: list[float]) -> None:
    assert complete(base_values=given).base_values.tolist() == [row] * ROWS


@pytest.mark.parametrize("shape", [(1,), (4,), (4, 1), (2, 4), (3,), (1, 1), (4, 2, 1)])
def test_base_values_are_not_repeated_when_there_is_a_doubt(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="base_values must have shape"):
        complete(base_values=np.ones(shape))


# --- names and data -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("age", "age"), "found more than once: \\['age'\\]"),
        (("age", ""), "empty name"),
        (("age",), "hold 2 names, found 1"),
        (("a", "b", "c"), "hold 2 names, found 3"),
        ((), "hold 2 names, found 0"),
        ("ab", "sequence of str"),
        (("age", 3), "sequence of str"),
        (None, "sequence of str"),
        (7, "sequence of str"),
    ],
)
@pytest.mark.parametrize("field", ["feature_names", "output_names"])
def test_wrong_names_are_refused(field: str, wrong: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"{field} must.*{message}"):
        Explanation(
            **{
                "values": np.ones((1, 2, 2)),
                "base_values": 0,
                "feature_names": ("a", "b"),
                "output_names": ("c", "d"),
                field: wrong,
            }
        )


@pytest.mark.parametrize(
    "given", [["x", "y"], np.array(["x", "y"]), iter(["x", "y"]), {"x": 1, "y": 2}]
)
def test_names_may_come_in_any_sequence(given: Any) -> None:
    assert small(feature_names=given).feature_names == ("x", "y")


@pytest.mark.parametrize("wrong", [PROMISE, "text", [PROMISE, "ε = 1"], [{"epsilon": 1}], None])
def test_guarantees_are_guarantees(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="guarantees must be a sequence of Guarantee"):
        small(guarantees=wrong)


@pytest.mark.parametrize("wrong", ["a note", [3], None])
def test_notes_are_texts(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="notes must be a sequence of texts"):
        small(notes=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        np.array([[1, "x"]], dtype=object),
        [[None, 1.0]],
        [[b"a", b"b"]],
        [[1j, 1]],
        [[1.0, 2.0], [3.0]],
        [1.0, 2.0],
        [[1.0], [2.0]],
        [[[1.0], [2.0]]],
        np.empty((1, 0)),
    ],
)
def test_data_are_numbers_or_text_of_one_row_each(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="data must"):
        small(data=wrong)


def test_data_may_be_missing_here_and_there_or_text() -> None:
    numbers = small(data=[[np.nan, np.inf]]).data
    assert numbers is not None
    assert np.isnan(numbers[0, 0])
    texts = small(data=[["männlich", ""]]).data
    assert texts is not None
    assert texts.tolist() == [["männlich", ""]]


def test_the_width_of_text_does_not_tell_of_rows_that_were_left_out() -> None:
    explanation = small([[1, 2], [3, 4]], data=[["a", "b"], ["a very long diagnosis", ""]])
    first = explanation[0]
    assert first == small([[1, 2]], data=[["a", "b"]])
    assert first.data is not None
    assert first.data.dtype == np.dtype("<U1")


# --- nothing is shared ----------------------------------------------------------------------------

ARRAYS = ("values", "base_values", "data", "standard_errors", "half_widths")
LAYOUTS: list[Callable[[NDArray[Any]], NDArray[Any]]] = [
    np.array,
    np.asfortranarray,
    lambda array: np.repeat(array, 2, axis=0)[::2],
    lambda array: array[::-1].copy()[::-1],
    lambda array: array.astype(array.dtype.newbyteorder(">")),
]
KINDS: list[Any] = [np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_]


@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
@pytest.mark.parametrize("kind", KINDS)
def test_any_numeric_array_becomes_an_own_copy(kind: Any, layout: int) -> None:
    given = {name: LAYOUTS[layout](getattr(complete(), name).astype(kind)) for name in ARRAYS}
    before = {name: array.copy() for name, array in given.items()}
    explanation = complete(**given)
    for name, array in given.items():
        kept = getattr(explanation, name)
        assert kept.dtype == np.float64
        assert kept.dtype.isnative
        assert kept.flags.c_contiguous
        assert kept.tolist() == before[name].astype(np.float64).tolist()
        assert array.tobytes() == before[name].tobytes()
        assert array.flags.writeable
        assert not np.shares_memory(kept, array)
        array[...] = 0
        assert kept.tolist() == before[name].astype(np.float64).tolist()


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "made",
    [
        lambda: complete(),
        lambda: complete()[:2],
        lambda: copy.deepcopy(complete()),
        lambda: copy.copy(complete()),
        lambda: pickle.loads(pickle.dumps(complete())),
    ],
    ids=["made", "sliced", "deep copy", "copy", "unpickled"],
)
def test_arrays_refuse_to_be_written_to(made: Callable[[], Explanation], name: str) -> None:
    array = getattr(made(), name)
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 0


def test_copies_are_equal() -> None:
    assert copy.deepcopy(complete()) == complete()
    assert pickle.loads(pickle.dumps(complete())) == complete()


def test_other_notes_change_nothing_else() -> None:
    before, given = complete(), ["said later"]
    after = before.with_notes(given)
    given.append("never said")
    assert after == dataclasses.replace(before, notes=("said later",))
    assert before.notes == complete().notes
    assert not any(getattr(after, name).flags.writeable for name in ARRAYS)
    with pytest.raises(InvalidInput, match="notes must be a sequence of texts"):
        before.with_notes([1])  # type: ignore[list-item]


@pytest.mark.parametrize("field", [*ARRAYS, "feature_names", "guarantees", "notes"])
def test_fields_cannot_be_set(field: str) -> None:
    explanation = complete()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(explanation, field, getattr(explanation, field))


def test_names_that_are_changed_afterwards_change_nothing() -> None:
    names, notes, promises = ["a", "b"], ["n"], [PROMISE]
    explanation = small(feature_names=names, notes=notes, guarantees=promises)
    for changed in (names, notes, promises):
        changed.clear()
    assert explanation == small(notes=("n",), guarantees=(PROMISE,))


# --- parts ----------------------------------------------------------------------------------------

AXIS_SELECTIONS: list[Any] = [
    0,
    -1,
    np.int64(1),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(-2, 10),
    [1, 0],
    [-1],
    (1,),
    range(2),
    np.array([0, 1]),
    np.array(1),
]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("selection", AXIS_SELECTIONS, ids=str)
def test_every_axis_can_be_sliced(axis: int, selection: Any) -> None:
    explanation = complete()
    places: list[Any] = [np.arange(size) for size in explanation.shape]
    chosen = list(selection) if isinstance(selection, tuple) else selection
    places[axis] = np.atleast_1d(places[axis][chosen])
    row, feature, output = places
    picked: list[Any] = [slice(None)] * 3
    picked[axis] = selection
    part = explanation[tuple(picked)]
    block = np.ix_(row, feature, output)
    assert explanation.data is not None
    assert explanation.standard_errors is not None
    assert explanation.half_widths is not None
    assert part == complete(
        values=explanation.values[block],
        base_values=explanation.base_values[np.ix_(row, output)],
        data=explanation.data[np.ix_(row, feature)],
        standard_errors=explanation.standard_errors[block],
        half_widths=explanation.half_widths[block],
        feature_names=[explanation.feature_names[i] for i in feature],
        output_names=[explanation.output_names[i] for i in output],
    )


def test_masks_choose_on_every_axis() -> None:
    explanation = complete()
    rows = explanation.values[:, 0, 0] > 8
    part = explanation[rows, [True, False, True], np.array([False, True])]
    assert part == explanation[2:, [0, 2], 1]


def test_features_and_outputs_can_be_chosen_by_name() -> None:
    explanation = complete()
    assert explanation[:, "bmi"] == explanation[:, 1]
    assert explanation[:, ["ward", "age"]] == explanation[:, [2, 0]]
    assert explanation[:, np.array(["ward", "age"])] == explanation[:, [2, 0]]
    assert explanation[1, "age", "cost"] == explanation[1, 0, 1]
    assert explanation.output("cost") == explanation[:, :, 1]
    assert explanation.output("cost").shape == (ROWS, FEATURES, 1)


@pytest.mark.parametrize(
    "selection",
    [
        4,
        -5,
        10**30,
        1.5,
        None,
        ...,
        [],
        [4],
        [0.5],
        slice(0, 0),
        slice("age", "bmi"),
        slice(None, None, 0),
        "age",
        ["age"],
        [True, False],
        np.array([[0, 1]]),
        np.zeros(4, bool),
        (0, 3),
        (0, "height"),
        (0, ["age", "height"]),
        (0, ["age", "age"]),
        (0, 0, 2),
        (0, 0, "age"),
        (0, 0, 0, 0),
    ],
    ids=str,
)
def test_what_is_not_there_cannot_be_chosen(selection: Any) -> None:
    with pytest.raises(InvalidInput):
        complete()[selection]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="no feature is called 'height'; known: age, bmi, ward"):
        complete()[:, "height"]
    with pytest.raises(InvalidInput, match="no output is called 'age'; known: risk, cost"):
        complete().output("age")
    with pytest.raises(InvalidInput, match="a row has no name"):
        complete()["age"]


def test_iterating_gives_one_row_after_the_other_and_ends() -> None:
    explanation = complete()
    rows = list(explanation)
    assert len(rows) == ROWS
    assert all(row == explanation[i] for i, row in enumerate(rows))
    assert [row.shape for row in rows] == [(1, FEATURES, OUTPUTS)] * ROWS


@pytest.mark.parametrize(
    "part",
    [
        lambda e: e[0],
        lambda e: e[:, "age"],
        lambda e: e.output("risk"),
        lambda e: next(iter(e)),
        lambda e: e.group({"body": ["age", "bmi"]}),
    ],
)
def test_guarantees_and_notes_stay_on_every_part(
    part: Callable[[Explanation], Explanation],
) -> None:
    assert part(complete()).guarantees == (PROMISE,)
    assert part(complete()).notes[0] == "measured twice"


def test_choosing_changes_nothing() -> None:
    explanation = complete()
    part = explanation[:2, "age"]
    assert not np.shares_memory(part.values, explanation.values)
    assert explanation == complete()


# --- groups ---------------------------------------------------------------------------------------


def test_a_group_is_the_sum_of_its_features() -> None:
    explanation = complete()
    grouped = explanation.group({"body": ["ward", "age"]})
    assert grouped.feature_names == ("body", "bmi")
    assert np.array_equal(grouped.values[:, 0], explanation.values[:, [0, 2]].sum(axis=1))
    assert np.array_equal(grouped.values[:, 1], explanation.values[:, 1])
    assert np.array_equal(grouped.base_values, explanation.base_values)
    assert grouped.output_names == explanation.output_names
    assert explanation == complete()


@given(
    hnp.arrays(float, (2, 3, 2), elements=st.floats(-1e9, 1e9)),
    hnp.arrays(float, (2, 3, 2), elements=st.floats(0, 1e9)),
)
def test_groups_keep_the_total_and_bound_the_error(
    values: NDArray[np.float64], errors: NDArray[np.float64]
) -> None:
    explanation = complete(
        values=values, standard_errors=errors, half_widths=errors, base_values=0, data=None
    )
    grouped = explanation.group({"body": ["age", "bmi"]})
    assert np.allclose(grouped.values.sum(axis=1), values.sum(axis=1), rtol=1e-12, atol=1e-6)
    assert np.array_equal(grouped.values[:, 1], values[:, 2])
    assert grouped.standard_errors is not None
    # Perfectly correlated errors reach the sum; nothing goes beyond.
    assert np.array_equal(grouped.standard_errors[:, 0], errors[:, 0] + errors[:, 1])
    assert np.array_equal(grouped.standard_errors[:, 1], errors[:, 2])
    assert explanation.half_widths is not None
    assert grouped.half_widths is None


def test_a_group_has_no_data_and_errors_only_if_there_were_some() -> None:
    assert complete().group({"body": ["age"]}).data is None
    assert complete(standard_errors=None).group({"body": ["age"]}).standard_errors is None


def test_sums_are_noted_exactly_once() -> None:
    once = complete().group({"body": ["age", "bmi"]})
    assert once.notes == ("measured twice", KnownNote.SUMMED)
    assert once.group({"all": ["body", "ward"]}).notes == ("measured twice", KnownNote.SUMMED)
    assert str(KnownNote.SUMMED) == "sum of attributions"


def test_a_group_may_take_the_name_of_a_member() -> None:
    assert complete().group({"age": ["age", "bmi"]}).feature_names == ("age", "ward")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"ward": ["age", "bmi"]}, r"differ from ungrouped features, both have \['ward'\]"),
        ({"x": ["age", "height"]}, r"unknown: \['height'\]"),
        ({"x": ["age"], "y": ["age"]}, r"found twice: \['age'\]"),
        ({"x": ["age", "age"]}, r"found twice: \['age'\]"),
        ({"x": []}, "at least one feature"),
        ({"x": ["age"], "y": []}, "at least one feature"),
        ({}, "there must be a group"),
        ({"x": "age"}, "group 'x' must be a sequence of str"),
        ({"x": [1]}, "group 'x' must be a sequence of str"),
        ({"": ["age"]}, "empty name"),
        ({3: ["age"]}, "feature_names must be a sequence of str"),
    ],
)
def test_wrong_groups_are_refused(groups: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        complete().group(groups)


# --- comparing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"values": numbered(ROWS, FEATURES, OUTPUTS) + 1e-9},
        {"base_values": 100 + numbered(ROWS, OUTPUTS) + 1e-9},
        {"data": numbered(ROWS, FEATURES)},
        {"data": numbered(ROWS, FEATURES).astype(str)},
        {"data": None},
        {"standard_errors": None},
        {"standard_errors": numbered(ROWS, FEATURES, OUTPUTS)},
        {"feature_names": ("age", "bmi", "Ward")},
        {"output_names": ("risk", "Cost")},
        {"guarantees": ()},
        {"guarantees": (PROMISE, PROMISE)},
        {"guarantees": (dataclasses.replace(PROMISE, epsilon=0.6),)},
        {"notes": ()},
    ],
    ids=lambda change: next(iter(change)),
)
def test_explanations_that_differ_in_one_part_are_not_equal(change: dict[str, Any]) -> None:
    assert complete() == complete()
    assert complete(**change) != complete()
    assert complete() != complete(**change)


def test_equality_is_about_bits() -> None:
    assert small([[0.0, 1.0]]) != small([[-0.0, 1.0]])
    assert small([[0.0, 1.0]]).allclose(small([[-0.0, 1.0]]))
    assert small(data=[[np.nan, 1.0]]) == small(data=[[np.nan, 1.0]])
    assert small(data=[[np.nan, 1.0]]).allclose(small(data=[[np.nan, 1.0]]))
    assert small(data=[[np.nan, 1.0]]) != small(data=[[1.0, np.nan]])


def test_the_same_numbers_in_another_shape_are_not_equal() -> None:
    wide = small(np.ones((1, 4)), feature_names=tuple("abcd"))
    tall = small(np.ones((4, 1)), feature_names=("a",))
    assert wide != tall
    assert not wide.allclose(tall)


def test_texts_are_equal_whatever_the_width_of_their_arrays() -> None:
    narrow = small(data=np.array([["a", "b"]], dtype="U1"))
    assert narrow == small(data=np.array([["a", "b"]], dtype=">U9"))
    assert narrow.allclose(small(data=np.array([["a", "b"]], dtype="U9")))
    assert narrow != small(data=[["a", "c"]])
    assert not narrow.allclose(small(data=[["a", "c"]]))


@pytest.mark.parametrize("other", [None, 3, "text", np.ones((1, 2, 1))])
def test_an_explanation_is_not_equal_to_anything_else(other: Any) -> None:
    assert (small().__eq__(other)) is NotImplemented
    if not isinstance(other, np.ndarray):
        assert small() != other


def test_close_means_within_the_tolerances() -> None:
    moved = complete(values=numbered(ROWS, FEATURES, OUTPUTS) * (1 + 1e-6))
    assert not complete().allclose(moved)
    assert complete().allclose(moved, rtol=1e-5)
    assert small([[0.0, 0.0]]).allclose(small([[1e-13, 0.0]]))
    assert not small([[0.0, 0.0]]).allclose(small([[1e-11, 0.0]]))
    assert small([[0.0, 0.0]]).allclose(small([[1e-11, 0.0]]), atol=1e-10)
    for part in ("base_values", "data", "standard_errors"):
        moved = complete(**{part: getattr(complete(), part) * (1 + 1e-6)})
        assert not complete().allclose(moved), part
        assert complete().allclose(moved, rtol=1e-5), part


@pytest.mark.parametrize(
    "change", [{"data": None}, {"guarantees": ()}, {"notes": ()}, {"output_names": ("a", "b")}]
)
def test_close_needs_the_same_labels_and_parts(change: dict[str, Any]) -> None:
    assert not complete().allclose(complete(**change), rtol=10)


def test_explanations_do_not_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(complete())


# --- reading --------------------------------------------------------------------------------------


def test_the_text_leads_with_the_guarantees() -> None:
    second = about(PROMISE, dataset="clinic v4")
    lines = repr(complete(guarantees=(PROMISE, second))).splitlines()
    assert lines[:5] == [
        "Explanation",
        f"  guarantee: {PROMISE}",
        f"  guarantee: {second}",
        "  note: measured twice",
        "  4 rows × 3 features × 2 outputs (risk, cost)",
    ]
    assert not any(NO_GUARANTEE in line for line in lines)


def test_the_text_leads_with_the_absence_of_guarantees() -> None:
    lines = repr(complete(guarantees=())).splitlines()
    assert lines[:2] == ["Explanation", "  no privacy guarantee"]


def test_one_row_and_output_is_shown_with_signs_and_the_largest_first() -> None:
    text = repr(small([[1.5, -2.25]]))
    assert text.endswith("largest attributions:\n    b  -2.25\n    a  +1.50")


def test_several_rows_are_shown_as_means_of_sizes() -> None:
    text = repr(small([[1.0, 10.0], [-3.0, -30.0]]))
    assert text.endswith("largest mean |attribution|:\n    b  20\n    a  2")


def test_several_outputs_are_shown_side_by_side() -> None:
    text = repr(small([[[1.0, 10.0], [-3.0, -30.0]]], output_names=("x", "y")))
    assert text.endswith("largest attributions:\n    b  -3, -30\n    a  +1, +10")


def test_the_text_says_how_uncertain_attributions_are() -> None:
    text = repr(small([[1.5, -2.25]], half_widths=[[0.1, 0.2]]))
    assert text.endswith("largest attributions:\n    b  -2.25 ± 0.20\n    a  +1.50 ± 0.10")


def test_the_text_stays_short() -> None:
    names = tuple(f"f{i}" for i in range(50))
    text = repr(small([range(50)], feature_names=names))
    assert "and 45 more" in text
    assert "f49" in text
    assert "f44" not in text


@pytest.mark.parametrize("data", [np.full((1, 2), 98765.4321), [["secret-value", "secret-value"]]])
def test_the_text_never_shows_the_data(data: Any) -> None:
    text = repr(small(data=data))
    assert text == repr(small())
    assert "98765" not in text
    assert "secret" not in text
