from __future__ import annotations

import copy
import dataclasses
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import voile.core.schema
from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Feature, Label, Numbers, Problem, Schema

CLINIC = Schema(
    "clinic",
    (
        Feature("age", Numbers(18, 100), 50, "demographics"),
        Feature("visits", Numbers(0, 21, whole=True), 3, "history"),
        Feature("sex", Categories(("female", "male")), "male", "demographics"),
        Feature("ward", Categories((3, 1, 20)), 1),
    ),
    Label("readmitted", Categories(("no", "yes"))),
)
INSIDE: dict[str, list[Any]] = {"age": [40], "visits": [2], "sex": ["female"], "ward": [20]}

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
finite = st.floats(-1e307, 1e307)


@st.composite
def numbers(draw: st.DrawFn, *, whole: bool = False) -> Numbers:
    values = st.integers(-(2**49), 2**49) if whole else finite
    lower, upper = sorted(draw(st.lists(values, min_size=2, max_size=2, unique=True)))
    return Numbers(lower, upper, whole)


categories = st.one_of(
    st.lists(names.map(str.strip), min_size=1, max_size=5, unique=True).map(
        lambda texts: Categories(tuple(texts))
    ),
    st.lists(st.integers(-100, 100), min_size=1, max_size=5, unique=True).map(
        lambda integers: Categories(tuple(integers))
    ),
)
domains = st.one_of(numbers(), numbers(whole=True), categories)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    # A mark at the end keeps "a" with the category "b" apart from a feature "a=b".
    keys = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    features = tuple(
        Feature(f"{key}/{place}", draw(domains), semantic=draw(st.none() | names))
        for place, key in enumerate(keys)
    )
    label_domains = st.one_of(numbers(), categories)
    label = draw(st.none() | st.builds(Label, names.map("label {}".format), label_domains))
    return Schema(draw(names), features, label)


garbage: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.just(-(10**5000)),
    st.floats(),
    st.complex_numbers(),
    st.decimals(),
    st.fractions(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.sampled_from(["", " ", "nan", "inf", "-1e999", "True", "female", " 3.0 ", "\ud800", "1_0"]),
    st.sampled_from([pd.NA, pd.NaT, Decimal("sNaN"), np.datetime64("NaT"), np.float16(7)]),
    st.sampled_from([np.complex64(1 + 2j), np.array([1.0]), np.str_("male"), np.bool_(True)]),
    st.lists(st.integers(), max_size=2),
    st.dates(),
    st.builds(object),
)


def assert_inside(schema: Schema, rows: Any) -> None:
    assert rows.dtype == np.float64
    for values, feature in zip(rows.T, schema.features, strict=True):
        domain = feature.domain
        if isinstance(domain, Categories):
            assert np.isin(values, np.arange(len(domain.values))).all()
        else:
            assert isinstance(domain, Numbers)
            assert ((domain.lower <= values) & (values <= domain.upper)).all()
            assert not domain.whole or (values == np.rint(values)).all()


# --- the description -----------------------------------------------------------------------------


@given(schemas())
def test_dumps_and_loads_are_inverse(schema: Schema) -> None:
    again = Schema.loads(schema.dumps())
    assert again == schema
    assert again.digest == schema.digest
    assert again.dumps() == schema.dumps()


def test_digest_follows_the_content_and_nothing_else() -> None:
    text = CLINIC.dumps()
    assert Schema.loads("# a comment\n" + text.replace("18.0", "18")).digest == CLINIC.digest
    swapped = dataclasses.replace(CLINIC, features=CLINIC.features[::-1])
    for changed in (
        swapped,
        dataclasses.replace(CLINIC, label=None),
        Schema.loads(text.replace("18.0", "18.5")),
    ):
        assert changed.digest != CLINIC.digest
    zeros = [Schema("z", (Feature("a", Numbers(zero, 1)),)) for zero in (0, 0.0, -0.0)]
    assert len({schema.digest for schema in zeros}) == 1


def test_digest_form_never_changes() -> None:
    schema = Schema("x", (Feature("a", Numbers(0, 1)),), Label("y", Categories((0, 1))))
    assert schema.digest == "ceb61fe3d5246c54aefecb1a4645a0fd7775f523135d2e126d38d0b7973ea895"


def test_names_and_groups() -> None:
    assert CLINIC.feature_names == ("age", "visits", "sex", "ward")
    assert CLINIC.semantic_groups() == {
        "demographics": ("age", "sex"),
        "history": ("visits",),
        "ward": ("ward",),
    }
    assert CLINIC.column_names == (
        *("age", "visits", "sex=female", "sex=male"),
        *("ward=3", "ward=1", "ward=20"),
    )
    assert CLINIC.column_features.tolist() == [0, 1, 2, 2, 3, 3, 3]
    assert CLINIC.null_row.tolist() == [50, 3, 1, 1]
    for array in (CLINIC.column_features, CLINIC.null_row):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_defaults_that_are_not_given() -> None:
    assert Feature("a", Numbers(0, 5)).default == 2.5
    assert Feature("a", Numbers(-4, 1, whole=True)).default == -2
    assert Feature("a", Categories(("x", "y"))).default == "x"


def test_exports() -> None:
    package = voile.core.schema
    assert all(hasattr(package, name) for name in package.__all__)
    assert list(package.__all__) == sorted(package.__all__)


# --- reading raw values ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [
        ("age", 17, 18),
        ("age", "101", 100),
        ("age", float("inf"), 100),
        ("age", "-inf", 18),
        ("age", 10**400, 100),
        ("age", " 4.25e1 ", 42.5),
        ("age", None, 50),
        ("age", float("nan"), 50),
        ("age", "", 50),
        ("age", "old", 50),
        ("age", pd.NA, 50),
        ("age", [40], 50),
        ("age", np.datetime64("2020-01-01"), 50),
        ("visits", 2.6, 3),
        ("visits", "2.4", 2),
        ("visits", True, 1),
        ("visits", 2 + 0j, 2),
        ("visits", 2 + 1j, 3),
        ("visits", "TRUE", 1),
        ("visits", "False", 0),
        ("sex", "female", 0),
        ("sex", " female ", 0),
        ("sex", b"female", 0),
        ("sex", "Female", 1),
        ("sex", None, 1),
        ("sex", 0, 1),
        ("ward", 20, 2),
        ("ward", "3.0", 0),
        ("ward", "3", 0),
        ("ward", 3.5, 1),
        ("ward", 4, 1),
        ("ward", None, 1),
    ],
)
def test_reading_one_value(name: str, raw: object, expected: float) -> None:
    rows = CLINIC.rows({**INSIDE, name: [raw]})
    assert rows[0, CLINIC.feature_names.index(name)] == expected


@pytest.mark.parametrize(
    ("listed", "raw", "place"),
    [
        (("0", "1"), 1, 1),
        (("0", "1"), 1.0, 1),
        (("0", "1"), True, 1),
        (("a", "1.0"), 1, 1),
        (("False", "True"), True, 1),
        (("False", "True"), 1, 1),
        (("false", "true"), np.bool_(True), 1),
        (("a", "nan"), "nan", 1),
        (("a", "0.5"), 0.5, 1),
        (("a", "12345678901234567891"), 12345678901234567891, 1),
        (("0", "1"), "1.0", 1),
        (("0", "1"), " 1.00 ", 1),
        (("0", "1"), b"1.", 1),
        (("1", "0"), "-0.0", 1),
        (("0", "1"), "True", 1),
        (("1", "0"), "FALSE", 1),
        (("0", "True"), "1.0", 1),
        (("a", "1.0"), "1", 1),
        (("a", "-7"), "-7.0", 1),
        # Listed letter by letter comes first.
        (("1", "1.0"), "1.0", 1),
        (("1", "TRUE"), "TRUE", 1),
        # Codes, and what could be the number beside, stand for themselves.
        (("a", "1"), "01", 0),
        (("a", "01"), "1", 0),
        (("a", "1"), "+1", 0),
        (("a", "1"), "1e0", 0),
        (("a", "1"), "\u0661", 0),
        (("a", "1.1"), "1.10", 0),
        (("a", "12345678901234567892"), "12345678901234567891.0", 0),
        (("a", "12345678901234567168"), "12345678901234567891.0", 0),
    ],
)
def test_numbers_and_booleans_for_string_categories(
    listed: tuple[str, ...], raw: object, place: int
) -> None:
    schema = Schema("x", (Feature("a", Categories(listed)),))
    assert schema.rows({"a": [raw]}).item() == place


@given(st.lists(st.tuples(garbage, garbage, garbage, garbage), max_size=6))
def test_protected_rows_never_raise_or_warn(records: list[tuple[Any, ...]]) -> None:
    columns = list(zip(*records, strict=True)) or [()] * 4
    table = dict(zip(CLINIC.feature_names, columns, strict=True))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        rows = CLINIC.rows(table)
        CLINIC.check(table)
        CLINIC.labels({"readmitted": columns[0]})
    assert rows.shape == (len(records), 4)
    assert_inside(CLINIC, rows)
    # A row means the same in whatever company it is read.
    for place, record in enumerate(records):
        alone = {name: [value] for name, value in zip(CLINIC.feature_names, record, strict=True)}
        assert np.array_equal(CLINIC.rows(alone)[0], rows[place])


class Impostor:
    """Claims to be 1, and is no number."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(1)


ZEROS = (0, 0.0, -0.0, False, Decimal("-0"), Decimal("0.0"), np.float32(-0.0), np.int8(0), -0j)
ONES = (1, 1.0, True, Decimal(1), Fraction(1), np.float64(1), np.bool_(True), 1 + 0j, Impostor())
OTHERS = (
    *("0", "-0.0", "0.0", "1", "1.0", "True", b"1", b"-0.0", np.str_("1.0"), np.bytes_(b"0")),
    *(None, pd.NA, pd.NaT, float("nan"), -float("nan"), Decimal("NaN"), np.float32("nan")),
    *(float("inf"), "-inf", 0.1, np.float32(0.1), Decimal("0.1"), 2**53 + 1, float(2**53)),
    *(pd.Timestamp(1), pd.Timedelta(1), np.datetime64(1, "s"), np.timedelta64(1, "s")),
)
mixtures = st.one_of(
    *(st.lists(st.sampled_from(cells), max_size=6) for cells in (ZEROS, ONES, ZEROS + ONES)),
    st.lists(st.sampled_from(ZEROS + ONES + OTHERS) | garbage, max_size=6),
)
lists = st.sampled_from(
    [
        *(("0", "1"), ("0.0", "1.0"), ("-0.0", "0.0", "1"), ("False", "True"), ("-0.0", "true")),
        *((0, 1), (1, 0, -5), ("0.1", "nan"), ("0.10000000149011612", str(2**53 + 1))),
    ]
)


@given(mixtures, lists | st.just(()), st.booleans())
def test_a_column_is_read_as_each_of_its_cells_alone(
    cells: list[Any], listed: tuple[Any, ...], whole: bool
) -> None:
    domain = Categories(listed) if listed else Numbers(-2, 2, whole)
    schema = Schema("x", (Feature("a", domain),), Label("b", domain) if not whole else None)
    together = (schema.rows({"a": cells}), schema.null_records({"a": cells}))
    alone = [(schema.rows({"a": [cell]}), schema.null_records({"a": [cell]})) for cell in cells]
    for place, (row, null) in enumerate(alone):
        assert row.tobytes() == together[0][place].tobytes()  # the sign of zero, too
        assert null.tolist() == [together[1][place]]
    if schema.label is not None:
        labels = schema.labels({"b": cells})
        each = [schema.labels({"b": [cell]}).item() for cell in cells]
        assert labels.tobytes() == np.array(each, dtype=np.float64).tobytes()


@pytest.mark.parametrize("make", [np.array, list])
@pytest.mark.parametrize("listed", [("0.0", "1.0"), ("-0.0", "1.0"), ("0", "1")])
def test_one_negative_zero_changes_no_other_record(make: Any, listed: tuple[str, ...]) -> None:
    schema = Schema("x", (Feature("dose", Categories(listed), "1.0" if "1.0" in listed else "1"),))
    zeros, one_negative = make([0.0, 0.0, 0.0]), make([-0.0, 0.0, 0.0])
    one, two = schema.rows({"dose": zeros}), schema.rows({"dose": one_negative})
    assert np.array_equal(one[1:], two[1:])


@pytest.mark.parametrize("whole", [False, True])
def test_rows_know_one_zero(whole: bool) -> None:
    schema = Schema("x", (Feature("a", Numbers(-1, 1, whole)),))
    tiny = -0.2 if whole else -0.0  # rounds to a negative zero
    for cells in ([-0.0, "-0.0", tiny], [Decimal("-0"), b"-0", tiny], np.array([-0.0, 0.0, tiny])):
        assert not np.signbit(schema.rows({"a": cells})).any()
    assert not np.signbit(schema.clamp([[-0.0], [tiny]])).any()


@given(
    st.one_of(
        hnp.arrays(np.float64, 4),
        hnp.arrays(np.float16, 4),
        hnp.arrays(np.int64, 4),
        hnp.arrays(np.uint64, 4),
        hnp.arrays(np.bool_, 4),
        hnp.arrays(np.complex128, 4),
        hnp.arrays("U4", 4),
        hnp.arrays("S4", 4),
        hnp.arrays("M8[ns]", 4),
        hnp.arrays("m8[s]", 4),
        hnp.arrays("i4,f8", 4),
        hnp.arrays(np.longdouble, 4),
    )
)
def test_any_dtype_can_be_read(column: Any) -> None:
    before = column.copy()
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        table = dict.fromkeys(CLINIC.feature_names, column)
        assert_inside(CLINIC, CLINIC.rows(table))
        CLINIC.check(table)
    assert column.tobytes() == before.tobytes()


def test_times_are_not_numbers() -> None:
    times = np.array(["1970-01-01T00:00:00.000000040"], dtype="M8[ns]")
    assert CLINIC.rows({**INSIDE, "age": times})[0, 0] == 50


def test_masked_values_are_missing() -> None:
    ages = np.ma.MaskedArray([30, 40], mask=[True, False])
    table = {name: values * 2 for name, values in INSIDE.items()} | {"age": ages}
    assert CLINIC.rows(table)[:, 0].tolist() == [50, 40]
    assert CLINIC.check(table).features[0].count(Problem.MISSING) == 1


def test_dataframes_and_extra_columns() -> None:
    frame = pd.DataFrame(
        {
            "extra": [1, 2, 3],
            "ward": pd.array([20, None, 1], dtype="Int64"),
            "sex": pd.Categorical(["male", "female", None]),
            "visits": [1.0, np.nan, 2.0],
            "age": ["40", "x", None],
        }
    )
    before = frame.copy(deep=True)
    assert CLINIC.rows(frame).tolist() == [[40, 1, 1, 2], [50, 3, 0, 1], [50, 2, 1, 1]]
    pd.testing.assert_frame_equal(frame, before)


def test_inputs_are_left_alone() -> None:
    table = {"age": [1, "x"], "visits": [None, 2.5], "sex": ["?", 1], "ward": [9, "3"]}
    before = copy.deepcopy(table)
    rows = CLINIC.rows(table)
    kept = rows.copy()
    encoded = CLINIC.encode(rows)
    CLINIC.decode(encoded)
    CLINIC.table(rows)["age"][0] = -1
    CLINIC.clamp(rows)[0] = -1
    assert table == before
    assert np.array_equal(rows, kept)


def test_labels() -> None:
    nan = np.nan
    found = CLINIC.labels({"readmitted": ["yes", "no", "?", None]})
    np.testing.assert_array_equal(found, [1, 0, nan, nan])
    regression = dataclasses.replace(CLINIC, label=Label("days", Numbers(0, 30)))
    np.testing.assert_array_equal(regression.labels({"days": ["40", 2, ""]}), [30, 2, nan])
    with pytest.raises(InvalidInput, match="declares no label"):
        dataclasses.replace(CLINIC, label=None).labels({})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"age": [1], "visits": [1]}, "'sex', 'ward'"),
        ({**INSIDE, "age": [1, 2]}, "different lengths"),
        ({**INSIDE, "age": np.zeros((1, 1))}, "'age' must be a list or an array with one"),
        ({**INSIDE, "age": "40"}, "'age' must be"),
        ({**INSIDE, "age": 40}, "'age' must be"),
        (np.zeros((1, 4)), "expected a table"),
    ],
)
def test_public_structure_raises(table: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        CLINIC.rows(table)


# --- encoding -------------------------------------------------------------------------------------


@given(schemas(), st.data())
def test_decode_undoes_encode(schema: Schema, data: st.DataObject) -> None:
    shape = (3, len(schema.features))
    rows = schema.clamp(data.draw(hnp.arrays(np.float64, shape, elements=st.floats(-1e300, 1e300))))
    encoded = schema.encode(rows)
    assert encoded.shape == (3, len(schema.column_names))
    assert ((encoded >= 0) & (encoded <= 1)).all()
    back = schema.decode(encoded)
    for place, feature in enumerate(schema.features):
        domain = feature.domain
        tolerance = 0.0
        if isinstance(domain, Numbers) and not domain.whole:
            tolerance = 4e-15 * max(abs(domain.lower), abs(domain.upper))
        np.testing.assert_allclose(back[:, place], rows[:, place], rtol=0, atol=tolerance)


def test_integers_at_the_limit_survive() -> None:
    limit = 2**49
    schema = Schema("x", (Feature("a", Numbers(-limit, limit, whole=True)),))
    draw = np.random.default_rng(5)
    rows = draw.integers(-limit, limit, (100_000, 1), endpoint=True).astype(np.float64)
    assert np.array_equal(schema.decode(schema.encode(rows)), rows)


@given(schemas(), st.data())
def test_decode_is_total(schema: Schema, data: st.DataObject) -> None:
    encoded = data.draw(hnp.arrays(np.float64, (2, len(schema.column_names))))
    with np.errstate(all="raise"):
        assert_inside(schema, schema.decode(encoded))


@given(schemas(), st.data())
def test_clamp_encode_and_table_are_total(schema: Schema, data: st.DataObject) -> None:
    rows = data.draw(hnp.arrays(np.float64, (2, len(schema.features))))
    with np.errstate(all="raise"):
        clamped = schema.clamp(rows)
        assert_inside(schema, clamped)
        assert np.array_equal(schema.encode(rows), schema.encode(clamped))
        again = schema.rows(schema.table(rows))
    assert np.array_equal(again, clamped)


@given(schemas(), st.data())
def test_rows_are_clamped_as_each_feature_would_be(schema: Schema, data: st.DataObject) -> None:
    values = st.one_of(st.floats(), st.integers(-2, 4).map(float))
    rows = data.draw(hnp.arrays(np.float64, (3, len(schema.features)), elements=values))
    with np.errstate(all="ignore"):
        each = [feature.settle(rows[:, place]) for place, feature in enumerate(schema.features)]
    assert np.array_equal(schema.clamp(rows), np.column_stack(each))


def test_strict_floating_point_settings_do_not_reach_values() -> None:
    schema = Schema("x", (Feature("a", Numbers(0, 1e300)),))
    with np.errstate(all="raise"):
        assert schema.encode([[1e-300]]).item() == 0
        assert schema.decode([[1e300], [-1e300], [np.inf]]).ravel().tolist() == [1e300, 0, 1e300]


def test_encoding_by_hand() -> None:
    encoded = CLINIC.encode([[59, 21, 1, 2]])
    assert encoded.tolist() == [[0.5, 1, 0, 1, 0, 0, 1]]
    table = CLINIC.table([[59, 21, 1, 2]])
    assert {name: column.tolist() for name, column in table.items()} == {
        "age": [59.0],
        "visits": [21],
        "sex": ["male"],
        "ward": [20],
    }
    assert table["visits"].dtype == np.int64


@pytest.mark.parametrize("rows", [[1, 2, 3, 4], [[1, 2]], [["a"] * 4], [[1], [1, 2]]])
def test_wrong_shapes_raise(rows: Any) -> None:
    for method in (CLINIC.encode, CLINIC.decode, CLINIC.table, CLINIC.clamp):
        with pytest.raises(InvalidInput, match="of shape"):
            method(rows)


# --- checking -------------------------------------------------------------------------------------


def test_a_clean_table_is_ok() -> None:
    report = CLINIC.check({**INSIDE, "readmitted": ["no"], "more": [1]})
    assert report.ok
    assert report.rows == 1
    assert report.unexpected_columns == ("more",)


def test_findings_count_and_quote() -> None:
    report = CLINIC.check(
        {
            "age": ["17", "", "x", "x", "101", "40"],
            "visits": ["2.5", "-1", "22", None, "1", "0.5"],
            "sex": ["?", "male", "", "?", "Male", "female"],
            "readmitted": ["no", "yes", "maybe", "", "no", "no"],
            "wards": range(6),
        }
    )
    assert not report.ok
    assert report.rows == 6
    assert report.missing_columns == ("ward",)
    assert report.unexpected_columns == ("wards",)
    age, visits, sex = report.features
    assert [(finding.problem, finding.count) for finding in age.findings] == [
        (Problem.MISSING, 1),
        (Problem.UNREADABLE, 2),
        (Problem.BELOW, 1),
        (Problem.ABOVE, 1),
    ]
    assert visits.count(Problem.NOT_WHOLE) == 2
    assert visits.count(Problem.MISSING) == 1
    assert sex.count(Problem.UNKNOWN) == 3
    unknown = sex.findings[1]
    assert [(example.value, example.row) for example in unknown.examples] == [
        ("'?'", 1),
        ("'Male'", 5),
    ]
    assert report.label is not None
    assert report.label.count(Problem.UNKNOWN) == 1
    assert report.label.count(Problem.MISSING) == 1


def test_examples_are_few_distinct_and_short() -> None:
    values = ["a" * 1000, "a" * 1000, *"bcdefgh"]
    report = CLINIC.check({"sex": values})
    examples = report.features[0].findings[1].examples
    assert [example.row for example in examples] == [1, 3, 4, 5, 6]
    assert max(len(example.value) for example in examples) <= 40


@pytest.mark.parametrize("problem", [{"age": [17]}, {"sex": [None]}, {"visits": [0.5]}])
def test_ok_means_that_reading_changes_nothing(problem: dict[str, list[Any]]) -> None:
    assert CLINIC.check(INSIDE).ok
    assert not CLINIC.check({"age": [40], "visits": [2]}).ok
    assert not CLINIC.check({**INSIDE, **problem}).ok


@pytest.mark.parametrize("problem", [{"age": [17]}, {"visits": [0.5]}, {"sex": ["?"]}])
def test_what_is_empty_fits_and_what_is_outside_does_not(problem: dict[str, list[Any]]) -> None:
    report = CLINIC.check({**INSIDE, "sex": [None], "readmitted": [""]})
    assert report.fits
    assert not report.ok
    assert (report.empty_cells, report.empty_labels) == (1, 1)
    assert not CLINIC.check({**INSIDE, **problem}).fits
    assert not CLINIC.check({"age": [40], "visits": [2]}).fits, "a column is missing"


def test_the_report_says_for_whom_it_is() -> None:
    assert "never for release" in " ".join((voile.core.schema.SchemaReport.__doc__ or "").split())


def test_columns_that_are_mostly_empty_are_told() -> None:
    schema = Schema("s", (Feature("full", Numbers(0, 9)), Feature("empty", Numbers(0, 9))))
    report = schema.check({"full": [1, 2, 3, 4, ""], "empty": [1, 2, 3, "", ""]})
    assert [column.name for column in report.mostly_empty] == ["empty"]
    assert report.fits
