"""`AdditiveModel`: closed-form values are Shapley values, and files come back to the bit."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protecting import row_of

from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.guarantee import Adversary, Guarantee
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.models import Model
from voile.models.additive import AdditiveModel, FeatureBins

SCHEMA = Schema(
    "people",
    (
        Feature("age", Numbers(0, 100, whole=True)),
        Feature("colour", Categories(("red", "green", "blue", "grey"))),
        Feature("unused", Numbers(0.0, 1.0)),
        Feature("weight", Numbers(40.0, 120.0)),
    ),
    Label("ill", Categories(("no", "yes"))),
)
BINS = (
    FeatureBins("age", edges=(30.5, 60.5)),
    FeatureBins("colour", groups=(0, 1, 1, 2)),
    FeatureBins("weight", edges=(80.0,)),
)
ROWS = np.array([[10.0, 0, 0.2, 50], [45, 2, 0.9, 80], [90, 3, 0.5, 110], [31, 1, 0.0, 80.5]])
PROMISE = Guarantee(
    epsilon=1.0,
    delta=1e-5,
    protected=row_of("people 1"),
    against=(Adversary.PUBLIC,),
    computational=False,
    mechanism="noise",
    composition="one release",
)


def model(seed: int = 0) -> AdditiveModel:
    draw = np.random.default_rng(seed)
    masses = np.concatenate([draw.dirichlet(np.ones(each.count)) for each in BINS])
    root = draw.normal(size=(8, 8)) / 10
    return AdditiveModel(
        schema=SCHEMA,
        bins=BINS,
        intercept=float(draw.normal()),
        scores=draw.normal(size=8),
        masses=masses,
        covariance=root @ root.T,
        guarantees=(PROMISE,),
    )


def brute_force(found: AdditiveModel, row: Any) -> list[float]:
    """Shapley values over all rows of bins, weighted by the product of their masses."""
    own = [int(each.codes(row[[place]])[0]) for each, place in zip(BINS, (0, 1, 3), strict=True)]
    starts = (0, 3, 6)

    def worth(present: tuple[int, ...]) -> float:
        total = 0.0
        for background in itertools.product(*(range(each.count) for each in BINS)):
            weight = math.prod(found.masses[starts[j] + k] for j, k in enumerate(background))
            bins = [own[j] if j in present else background[j] for j in range(3)]
            score = found.intercept + sum(found.scores[starts[j] + k] for j, k in enumerate(bins))
            total += weight * score
        return total

    values = []
    for player in range(3):
        others = [j for j in range(3) if j != player]
        value = 0.0
        for size in range(3):
            for group in itertools.combinations(others, size):
                share = math.factorial(size) * math.factorial(2 - size) / math.factorial(3)
                value += share * (worth(tuple(sorted((*group, player)))) - worth(group))
        values.append(value)
    return values


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_values_are_shapley_values_over_the_background(seed: int) -> None:
    found = model(seed)
    explained = found.explain(ROWS)
    for row, values in zip(ROWS, explained.values[:, :, 0], strict=True):
        age, colour, weight = brute_force(found, row)
        assert values == pytest.approx([age, colour, 0.0, weight], abs=1e-10)
    total = explained.values.sum(axis=(1, 2)) + explained.base_values[:, 0]
    assert total == pytest.approx(found.log_odds(ROWS))


def test_errors_are_those_of_the_row_s_bins() -> None:
    found = model()
    explained = found.explain(ROWS)
    assert explained.standard_errors is not None
    expected = np.sqrt(np.diag(found.covariance))[[0, 3, 6]]
    assert explained.standard_errors[0, [0, 1, 3], 0] == pytest.approx(expected)
    assert (explained.standard_errors[:, 2] == 0).all()
    assert explained.reach == pytest.approx(1.96 * explained.standard_errors)
    assert explained.guarantees == (PROMISE,)


def test_it_is_a_model() -> None:
    found = model()
    assert isinstance(found, Model)
    chance = found.predict(ROWS)
    assert chance.sum(axis=1) == pytest.approx(np.ones(4))
    assert np.log(chance[:, 1] / chance[:, 0]) == pytest.approx(found.log_odds(ROWS))
    assert found.output_names == ("no", "yes")
    assert found.digest == model().digest != model(1).digest


def test_tables_and_arrays_read_alike_and_nothing_raises() -> None:
    found = model()
    table = {"age": ["10"], "colour": ["red"], "unused": [None], "weight": [50.0]}
    assert found.log_odds(table) == pytest.approx(found.log_odds(ROWS[:1]))
    strange = np.array([[np.nan, np.inf, -np.inf, 1e300], [-5, 17, 2, 0.5]])
    assert np.isfinite(found.predict(strange)).all()
    assert np.isfinite(found.explain(strange).values).all()


def test_a_row_s_answer_does_not_depend_on_its_neighbours() -> None:
    found, draw = model(), np.random.default_rng(1)
    rows = draw.uniform(0, 100, size=(1000, 4))
    together = found.log_odds(rows)
    for place in (0, 17, 999):
        assert found.log_odds(rows[[place]])[0] == together[place]
        assert found.log_odds(rows[place:])[0] == together[place]


def test_it_is_saved_and_loaded_to_the_bit(tmp_path: Path) -> None:
    found = model()
    again = AdditiveModel.load(found.save(tmp_path / "model.voile"))
    assert again.to_bytes() == found.to_bytes()
    assert again.schema == SCHEMA
    assert again.bins == BINS
    assert again.guarantees == (PROMISE,)
    assert np.array_equal(again.log_odds(ROWS), found.log_odds(ROWS))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    content = model().to_bytes()
    for place in (20, len(content) // 2, len(content) - 3):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises(UnreadableFile):
            AdditiveModel.from_bytes(bytes(damaged))
    for wrong in (b"", content[:-5], b"[]"):
        with pytest.raises(UnreadableFile):
            AdditiveModel.from_bytes(wrong)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        AdditiveModel.load(tmp_path / "nothing.voile")


def test_people_can_read_it() -> None:
    found = model()
    told = json.loads(found.to_json())
    age, colour, weight = told["features"]
    assert [(each["from"], each["to"]) for each in age["bins"]] == [
        (0, 30.5),
        (30.5, 60.5),
        (60.5, 100),
    ]
    assert [each["values"] for each in colour["bins"]] == [["red"], ["green", "blue"], ["grey"]]
    assert weight["bins"][1]["score"] == pytest.approx(found.centred_scores[7])
    assert weight["bins"][1]["standard_error"] == pytest.approx(found.standard_errors[7])
    assert told["without_influence"] == ["unused"]
    assert told["base_value"] == pytest.approx(found.base_value)


def test_what_does_not_fit_is_refused() -> None:
    found = model()
    with pytest.raises(InvalidInput, match="8 bins"):
        replace(found, scores=np.zeros(7))
    with pytest.raises(InvalidInput, match="order"):
        replace(found, bins=BINS[::-1])
    with pytest.raises(InvalidInput, match="two classes"):
        replace(found, schema=replace(SCHEMA, label=None))
    with pytest.raises(InvalidInput, match="edges or groups"):
        FeatureBins("age")
    with pytest.raises(InvalidInput, match="rise"):
        FeatureBins("age", edges=(2.0, 2.0))
    with pytest.raises(InvalidInput, match="gaps"):
        FeatureBins("colour", groups=(0, 2))


def test_values_of_known_bins_are_those_of_rows() -> None:
    found = model()
    codes = found.codes(ROWS)
    explained = found.explain(ROWS).values[:, [0, 1, 3], 0]
    assert np.array_equal(found.explain_codes(codes), explained)
    assert np.array_equal(found.explain_codes(codes.astype(np.uint8)), explained)
    many = np.random.default_rng(0).uniform(0, 100, size=(10_000, 4))  # more than one block
    assert np.array_equal(found.codes(many)[-5:], found.codes(many[-5:]))
