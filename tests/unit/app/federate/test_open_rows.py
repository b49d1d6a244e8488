"""What is said about rows that nobody protects, before a budget is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voile.app.federate.tables import check_open_rows
from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Feature, Label, Numbers, Schema

SCHEMA = Schema(
    "people",
    (Feature("age", Numbers(0, 100)), Feature("smoker", Categories(("0", "1")))),
    Label("ill", Categories(("no", "yes"))),
)
PATH = Path("held-out.csv")
FITTING = {"age": ["20", "30", "40"], "smoker": ["0", "1.0", "0"], "ill": ["no", "yes", "no"]}


def check(labelled: bool = True, schema: Schema = SCHEMA, **changes: list[Any]) -> tuple[str, ...]:
    table = {name: np.array(v, dtype=object) for name, v in (FITTING | changes).items() if v}
    return check_open_rows(schema, table, PATH, labelled=labelled)


def test_rows_that_fit_are_not_remarked_upon() -> None:
    assert check() == ()
    assert (
        check(schema=Schema("p", SCHEMA.features, Label("ill", Numbers(0, 9))), ill=[1, 2, 9]) == ()
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"smoker": ["n", "y", "1"]},
            r"'smoker' has 2 of 3 .* no list .*'n' in row 1, 'y' in row 2",
        ),
        ({"smoker": ["n", "y", "n"]}, r"'smoker' has 3 of 3"),
        ({"age": ["x", "y", "3"]}, r"'age' has 2 of 3 values that are no numbers"),
        ({"age": ["170", "-1", "3"]}, r"1 of 3 values below .* and 1 of 3 values above"),
        ({"ill": ["no", "yes", "sick"]}, r"'ill' has 1 of 3 values that are in no list"),
        ({"ill": ["", None, "nan"]}, r"'ill' is empty, and it is what is to be learned"),
        ({"ill": []}, r"'ill' is not there"),
        ({"age": [], "smoker": []}, r"'age' is not there; column 'smoker' is not there"),
    ],
)
def test_what_would_make_results_meaningless_is_refused(changes: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        check(**changes)
    assert str(refused.value).startswith("held-out.csv: does not fit the schema 'people'")
    assert "nothing was trained or charged" in str(refused.value)


def test_labels_beyond_their_bounds_are_clamped_up_to_a_half() -> None:
    numeric = Schema("p", SCHEMA.features, Label("ill", Numbers(0, 9)))
    (remark,) = check(schema=numeric, ill=[1, 2, 70])
    assert "'ill' has 1 of 3 values above the upper bound (70 in row 3)" in remark
    with pytest.raises(InvalidInput, match="2 of 3 values above"):
        check(schema=numeric, ill=[1, 20, 70])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"smoker": ["0", "1", "y"]}, "has 1 of 3 values that are in no list of the schema"),
        ({"age": ["", None, "nan"]}, "is empty"),
        ({"age": ["7", "7.0", 7]}, "has the same value in all 3 rows"),
        ({"ill": ["no", "", "yes"]}, "is empty in 1 of 3 rows"),
        ({"ill": ["no", "no", "no"]}, "has one value only"),
    ],
)
def test_what_is_odd_is_remarked_upon(changes: Any, said: str) -> None:
    (remark,) = check(**changes)
    assert remark.startswith("held-out.csv: column ")
    assert said in remark


def test_features_that_are_mostly_missing_are_named_with_what_to_do() -> None:
    (said,) = check(age=["20", "", "40"])
    assert "'age' is missing in 33% of rows" in said
    assert 'declare a category "missing" or add a column' in said
    ages = ["", "1", "2", "3", "4"]
    assert check(age=ages, smoker=["0", "1"] * 2 + ["0"], ill=["no", "yes"] * 2 + ["no"]) == ()


def test_reference_rows_need_no_label() -> None:
    assert check(labelled=False, ill=[]) == ()
    assert check(labelled=False, ill=["sick", "sick", "sick"]) == ()
    with pytest.raises(InvalidInput, match=r"held-out\.csv: expected at least one row"):
        check_open_rows(SCHEMA, {}, PATH, labelled=False)
