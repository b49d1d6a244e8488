"""A record in which nothing can be read adds nothing: in no stage, under no norm, in no company."""

from __future__ import annotations

import logging
import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.protecting import row_of
from tests.unit.training.private.stubs import Known, KnownSource
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.datasets import Dataset
from voile.federation import Instruction, Unprotected
from voile.federation.pipeline import name_arrays
from voile.models import Box, wrap
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.objectives import BLACK_BOX, EXPLAINER, SURROGATE
from voile.pipelines.private_explainer.plan import (
    Facts,
    PipelinePlan,
    Setting,
    StageSpending,
    separate_budgets,
)
from voile.pipelines.tables import TableRecords

SCHEMA = Schema(
    "people",
    (
        Feature("age", Numbers(0, 100), 30),
        Feature("sex", Categories(("f", "m"))),
        Feature("visits", Numbers(0, 9, whole=True)),
    ),
    Label("ill", Categories(("no", "yes"))),
)
STAGES = (BLACK_BOX, SURROGATE, EXPLAINER)
EMPTY = ("", "?", "nan")


def read(*people: tuple[Any, ...]) -> TableRecords:
    """People as (age, sex, visits, ill), read as a file is."""
    names = (*SCHEMA.feature_names, "ill")
    columns = zip(*people, strict=True)
    return TableRecords.read(SCHEMA, dict(zip(names, map(list, columns), strict=True)))


def plan(size: int, norm: Any, **changes: Any) -> PipelinePlan:
    facts = Facts(SCHEMA, {"north": size}, row_of("v1"), rounds=1, **changes)
    training = dict.fromkeys(
        STAGES, Training(hidden=(4,), clipping_norm=norm, sampling_rate=1.0, epochs=2)
    )
    names = STAGES[1:] if facts.black_box is not None else STAGES
    budgets = dict.fromkeys(names, StageSpending(1.0, 1e-3))
    return separate_budgets(facts, budgets, setting=Setting.FULL_PRIVATE, training=training)


def change(task: NetworkTask, agreed: PipelinePlan, records: TableRecords) -> np.ndarray:
    """By how much one participation moves the arrays if every noise value is zero."""
    given: dict[str, Any] = {}
    for name in (n for n in STAGES if n in agreed.noise):
        given |= name_arrays(name, wild(agreed.tasks[name].start(0)))
    stage = next(name for name, each in agreed.tasks.items() if each is task)
    message = Instruction(stage, 1, wild(task.start(0)), given)
    source = KnownSource(Known(normal=0.0))
    moved = task.fit(message, records, len(records), source).change
    return np.concatenate([array.ravel() for array in moved.values()])


def wild(arrays: dict[str, Any]) -> dict[str, Any]:
    """Whatever a server sends: nothing is zero, so nothing is hidden."""
    draw = np.random.default_rng(3)
    return {n: draw.normal(size=a.shape).astype(np.float32) for n, a in arrays.items()}


@pytest.mark.parametrize("stage", STAGES)
def test_null_records_move_nothing(stage: str) -> None:
    agreed = plan(3, 0.3)
    task = agreed.tasks[stage]
    assert not change(task, agreed, read(*[(*EMPTY, "yes")] * 3)).any()
    assert change(task, agreed, read((44, "m", 3, "yes"), *[(*EMPTY, "")] * 2)).any()


def test_a_null_record_is_like_none_and_its_label_says_nothing() -> None:
    agreed, alone = plan(2, 0.3), plan(1, 0.3)
    task, one = agreed.tasks[BLACK_BOX], (44.0, "m", 3, "yes")
    found = [change(task, agreed, read(one, (*EMPTY, label))) for label in ("no", "yes", "")]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    # Adam knows no scale, so dividing by two records or by one comes to the same.
    without = change(alone.tasks[BLACK_BOX], alone, read(one))
    np.testing.assert_allclose(found[0], without, atol=2e-5)


def test_a_foreign_black_box_does_not_bring_a_null_record_to_life() -> None:
    box = wrap(lambda rows: rows[:, :1] / 100, outputs=Box(0, 1))
    agreed = plan(2, 0.3, black_box=box)
    assert not change(agreed.tasks[SURROGATE], agreed, read(*[(*EMPTY, "yes")] * 2)).any()


@pytest.mark.parametrize("fault", ["raises", "says NaN", "warns", "says too much"])
def test_a_foreign_black_box_that_fails_on_a_record_tells_nobody(fault: str) -> None:
    """One person of 66 makes it fail; the others are learned from as ever."""

    def says(rows: np.ndarray) -> np.ndarray:
        found, here = rows[:, :1] / 100, rows[:, 0] == 66
        if here.any() and fault == "raises":
            raise ValueError(f"66 years, and {rows[here][0, 1]}")
        if here.any() and fault == "says too much":
            return np.zeros((len(rows), 5))
        if here.any() and fault == "warns":
            warnings.warn("66 years", stacklevel=1)
            logging.getLogger("box").warning("66 years")
        return np.where(here[:, None], np.nan, found)

    box = wrap(says, outputs=Box(0, 1))
    agreed = plan(2, 0.3, black_box=box)
    task = agreed.tasks[SURROGATE]
    with_one = change(task, agreed, read((44, "m", 3, "yes"), (66, "f", 1, "no")))
    with_null = change(task, agreed, read((44, "m", 3, "yes"), (*EMPTY, "")))
    assert np.array_equal(with_one, with_null)
    assert with_one.any()


def test_a_record_without_a_label_teaches_none_and_takes_part_elsewhere() -> None:
    agreed = plan(1, 0.3)
    unlabelled = read((44, "m", 3, "perhaps"))
    assert not change(agreed.tasks[BLACK_BOX], agreed, unlabelled).any()
    assert change(agreed.tasks[SURROGATE], agreed, unlabelled).any()
    assert change(agreed.tasks[EXPLAINER], agreed, unlabelled).any()


def test_what_is_null_is_decided_by_the_schema_alone() -> None:
    table = {"age": ["", "7", "x"], "sex": ["?", "", None], "visits": [None, "nan", 2]}
    assert SCHEMA.null_records(table).tolist() == [True, False, False]
    nan = math.nan
    rows = np.array([[nan, nan, nan], [nan, 7, nan], [nan, 1, nan], [1e9, nan, nan]])
    assert SCHEMA.null_records(rows).tolist() == [True, True, False, False]
    found = TableRecords.from_dataset(Dataset("d", SCHEMA, rows, np.array([0.0, 1, nan, 1])))
    assert found.null.tolist() == [True, True, False, False]
    assert np.isnan(found.columns).all(axis=1).tolist() == [True, True, False, False]
    assert np.isnan(found.targets).all(axis=1).tolist() == [False, False, True, False]


@pytest.mark.parametrize("stage", STAGES)
def test_figures_and_twins_leave_null_records_out(stage: str) -> None:
    agreed = plan(3, 0.3)
    people = [(44, "m", 3, "yes"), (20, "f", 1, "no")]
    given: dict[str, Any] = {}
    for name in STAGES:
        given |= name_arrays(name, wild(agreed.tasks[name].start(0)))
    task = agreed.tasks[stage]
    figures = [
        task.evaluate(wild(task.start(0)), given, Unprotected(read(*rows), "generated"))
        for rows in (people, [*people, (*EMPTY, "no")])
    ]
    assert figures[0] == figures[1]
    twin = replace(task, noise_multiplier=None)
    message = Instruction(stage, 1, task.start(0), given)
    for rows in ([*people, (*EMPTY, "")], [(*EMPTY, "")]):
        moved = twin.fit(message, read(*rows), len(rows), KnownSource(Known())).change
        assert all(np.isfinite(array).all() for array in moved.values())
