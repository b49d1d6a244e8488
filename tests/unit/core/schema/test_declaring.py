"""Schemas declared in Python: short forms, the keys of a file, and errors that name the column."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import date, datetime
from typing import Any

import numpy as np
import pytest

import voile
from voile.core.errors import SchemaError
from voile.core.schema import Categories, Feature, Label, Numbers, Schema


def test_the_declaration_of_the_page() -> None:
    schema = voile.Schema({"age": (18, 100), "sex": ["f", "m"], "income": (0, 500_000)})
    assert schema == Schema(
        "table",
        (
            Feature("age", Numbers(18, 100)),
            Feature("sex", Categories(("f", "m"))),
            Feature("income", Numbers(0, 500_000)),
        ),
    )


@pytest.mark.parametrize(
    ("short", "domain"),
    [
        ((0, 1), Numbers(0, 1)),
        ((np.int64(0), np.float32(2)), Numbers(0, 2)),
        (range(3), Numbers(0, 2, whole=True)),
        ([1, 2, 3], Categories((1, 2, 3))),
        (np.array(["a", "b"]), Categories(("a", "b"))),
        (("a", "b"), Categories(("a", "b"))),
        (bool, Categories((0, 1))),
        ([False, True], Categories((0, 1))),
        (Numbers(0, 5), Numbers(0, 5)),
        ({"bounds": (0, 5)}, Numbers(0, 5)),
        ({"kind": "integer", "bounds": [0, 5]}, Numbers(0, 5, whole=True)),
        ({"categories": ("a", "b"), "default": "b"}, Categories(("a", "b"))),
    ],
)
def test_what_a_column_may_hold(short: Any, domain: object) -> None:
    assert Schema({"x": short}).features[0].domain == domain


def test_a_pair_never_rounds() -> None:
    """Petals of 1.4 cm between (0, 8) stay what they are."""
    assert Schema({"petal": (0, 8)}).rows({"petal": [1.4]}).tolist() == [[1.4]]


@pytest.mark.parametrize(
    "label", ["ill", {"ill": ["no", "yes"]}, Label("ill", Categories(("no", "yes")))]
)
def test_a_label_is_one_of_the_columns_or_beside_them(label: Any) -> None:
    columns: dict[str, Any] = {"age": (18, 100)}
    columns |= {"ill": ["no", "yes"]} if label == "ill" else {}
    schema = Schema(columns, label=label, name="patients")
    assert schema.label == Label("ill", Categories(("no", "yes")))
    assert (schema.name, schema.feature_names) == ("patients", ("age",))


def test_a_label_of_numbers_with_a_unit() -> None:
    schema = Schema({"age": (18, 100)}, label={"stay": {"bounds": (0, 30), "unit": "days"}})
    assert schema.label == Label("stay", Numbers(0, 30), "days")
    assert Schema({"x": (0, 1)}, label={"n": range(5)}).label == Label("n", Numbers(0, 4))


def test_cut_points() -> None:
    stated = Schema({"age": (18, 100)}, cuts={"age": [40, 65]})
    assert stated == Schema({"age": {"bounds": (18, 100), "cuts": (40, 65)}})
    assert stated.features[0].cuts == (40.0, 65.0)


def test_what_is_declared_is_a_schema_like_any_other() -> None:
    schema = Schema({"age": (18, 100), "ill": bool}, label="ill")
    assert Schema.loads(schema.dumps()) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert replace(schema, label=None).label is None


WRONG: dict[str, tuple[Any, str]] = {
    "age": ((100, 18), "features.age.bounds: the lower bound must be below"),
    "sex": (["f", 1], "features.sex.categories: expected strings only"),
    "size": ([0.5, 1.5], r"features.size: .*write \(low, high\)"),
    "grade": ((1, 2, 3), "features.grade: .*categories are a list"),
    "weight": (float, "features.weight: .*<class 'float'>.*for numbers"),
    "kind": ({"kind": "intger", "bounds": (0, 1)}, "did you mean 'integer'"),
    "key": ({"bounds": (0, 1), "lable": 3}, "features.key.lable: unknown key"),
    "city": ({"x", "y"}, "has no order: write the list"),
    "rooms": (range(0, 9, 2), "features.rooms: .*one after the other"),
    "other": (Feature("name", Numbers(0, 1)), "features.other: is called 'name'"),
}


@pytest.mark.parametrize("column", WRONG)
def test_errors_name_the_column_and_the_fix(column: str) -> None:
    values, message = WRONG[column]
    with pytest.raises(SchemaError, match=message):
        Schema({"fine": (0, 1), column: values})


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(SchemaError) as raised:
        Schema({name: values for name, (values, _) in WRONG.items()}, cuts={"nobody": [1]})
    assert len(str(raised.value).splitlines()) == len(WRONG) + 1


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"label": "ill"}, r"'ill' is not among the columns \['age'\]"),
        ({"label": 3}, "label: expected the name of a column"),
        ({"label": {"age": (0, 1)}}, "'age' is also a feature"),
        ({"cuts": {"age": [200]}}, "features.age.cuts: cut points must be"),
        ({"name": ""}, "name: must not be empty"),
    ],
)
def test_what_is_wrong_beside_the_columns(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema({"age": (18, 100)}, **stated)


@pytest.mark.parametrize("given", [(), ([("age", (18, 100))],), ("patients",)])
def test_what_is_no_declaration(given: tuple[Any, ...]) -> None:
    with pytest.raises(SchemaError, match="expected a declaration by column"):
        Schema(*given)


@pytest.mark.parametrize(
    "days",
    [
        ("2020-01-01", "2023-12-31"),
        (date(2020, 1, 1), date(2023, 12, 31)),
        (datetime(2020, 1, 1), datetime(2023, 12, 31)),
    ],
    ids=["texts", "dates", "times"],
)
def test_bounds_that_are_dates_are_not_two_categories(days: Any) -> None:
    with pytest.raises(SchemaError, match="days since a fixed day"):
        Schema({"admitted": days})
    assert Schema({"quarter": ["2020-01-01", "2020-04-01"]}).feature_names == ("quarter",)


def test_a_file_is_not_a_declaration() -> None:
    declared: Any = Schema
    with pytest.raises(SchemaError, match=r"Schema\.load\(path\)"):
        declared("clinic.toml")
