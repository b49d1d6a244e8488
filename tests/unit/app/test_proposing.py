"""A schema from rows that are public: everything fits, with room, and oddities are left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voile.app.schemas import proposal_text, propose
from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Feature, Numbers, Schema

TABLE = {
    "id": [f"p{number}" for number in range(30)],
    "age": ["40", "57.0", "", *["61"] * 27],
    "dose": ["0.31", "1.7", "NA", *["0.9"] * 27],
    "sex": ["f", " m", "", *["f"] * 27],
    "smokes": ["0", "1", "1.0", *["0"] * 27],
    "empty": [""] * 30,
    "grade": ["1", "3", "2", *["3"] * 27],
}
COLUMNS = {name: np.array(values, dtype=object) for name, values in TABLE.items()}


def test_numbers_categories_and_what_is_left_out() -> None:
    proposal = propose("trial", COLUMNS, "grade")
    found = {feature.name: feature.domain for feature in proposal.schema.features}
    assert found == {
        "age": Categories((40, 57, 61)),
        "dose": Numbers(0.0, 2.0),
        "sex": Categories(("f", "m")),
        "smokes": Categories((0, 1)),
    }
    assert proposal.left_out == ("id", "empty")
    assert proposal.schema.label is not None
    assert proposal.schema.label.domain == Categories((1, 2, 3))
    assert proposal.schema.check(COLUMNS).missing_columns == ()
    text = proposal_text(proposal)
    assert Schema.loads(text) == proposal.schema
    assert "'id'" in text


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=5))
def test_bounds_hold_every_value(values: list[float]) -> None:
    column = np.array(values)
    label = np.array(["a", "b"], dtype=object)[np.arange(len(values)) % 2]
    schema = propose("any", {"x": column, "y": label}, "y").schema
    (feature,) = schema.features
    if isinstance(feature.domain, Numbers):
        assert feature.domain.lower <= min(values)
        assert max(values) <= feature.domain.upper


def test_a_frequent_word_for_nothing_is_a_category() -> None:
    words = ["none"] * 10 + ["penicillin"] * 20 + [""] * 5 + ["NA"]
    table = {
        "allergy": np.array([*words, *["nuts"] * 64], dtype=object),
        "y": np.array(["a", "b"] * 50, dtype=object),
    }
    proposal = propose("trial", table, "y")
    assert proposal.schema.features[0].domain == Categories(("none", "nuts", "penicillin"))
    assert proposal.missing == {"allergy": ("", "NA")}
    assert "# Taken as missing in 'allergy': '', 'NA'" in proposal_text(proposal)


def test_two_frequent_words_for_nothing_are_categories_and_one_alone_is_not() -> None:
    table = {
        "smoker": np.array(["none", "NA"] * 50, dtype=object),
        "empty": np.array(["NA", ""] * 50, dtype=object),
        "y": np.array(["a", "b"] * 50, dtype=object),
    }
    proposal = propose("trial", table, "y")
    assert proposal.schema.features == (Feature("smoker", Categories(("NA", "none"))),)
    assert proposal.left_out == ("empty",)


def test_a_few_whole_numbers_are_proposed_as_categories_with_a_comment() -> None:
    table = {
        "stage": np.arange(100) % 5,
        "visits": np.arange(100) % 11,
        "y": np.array(["a", "b"] * 50, dtype=object),
    }
    proposal = propose("trial", table, "y")
    found = {feature.name: feature.domain for feature in proposal.schema.features}
    assert found == {"stage": Categories((0, 1, 2, 3, 4)), "visits": Numbers(0, 10, whole=True)}
    assert proposal.coded == ("stage",)
    assert "Proposed as categories: 'stage'" in proposal_text(proposal)
    assert Schema.loads(proposal_text(proposal)) == proposal.schema


def test_what_gives_no_schema_is_said() -> None:
    with pytest.raises(InvalidInput, match="no column 'nothing'"):
        propose("trial", COLUMNS, "nothing")
    with pytest.raises(InvalidInput, match="no schema follows"):
        propose("trial", {"id": COLUMNS["id"], "grade": COLUMNS["grade"]}, "grade")
