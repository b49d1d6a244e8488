"""A blanked record of a federation, against what its client claims.

One client with one record, asked by a server that chose the arrays: the worst case. The record's
own gradient is clipped to the norm. What the update looks like with the record, and with the record
blanked in the file, may differ by what one participation costs and by no more.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.protecting import row_of
from tests.statistical import bounds
from voile.core.schema import Feature, Label, Numbers, Schema
from voile.datasets import read_table
from voile.federation import Client, CountingGuard, Instruction
from voile.pipelines.network_task import Training
from voile.pipelines.objectives import BLACK_BOX, SURROGATE
from voile.pipelines.private_explainer.plan import (
    Facts,
    PipelinePlan,
    StageSpending,
    separate_budgets,
)
from voile.pipelines.tables import TableRecords
from voile.privacy.accounting import PrivacyLoss
from voile.training.optimisers import ADAM_FLOOR

RUNS, EPSILON, DELTA = 1_000, 1.0, 0.1
NORM, RATE = 1e-5, 0.02
SCHEMA = Schema("one", (Feature("x", Numbers(-1, 1)),), Label("y", Numbers(0, 1)))
HALF_WAY = np.float32(np.log(3.0))
"""The answer 3/4: a label of 1 pulls it up, the label in the middle of the bounds down."""


@cache
def plan() -> PipelinePlan:
    training = Training(hidden=(), clipping_norm=NORM, sampling_rate=1.0, epochs=1, rate=RATE)
    return separate_budgets(
        Facts(SCHEMA, {"north": 1}, row_of("v1"), rounds=1),
        dict.fromkeys((BLACK_BOX, SURROGATE), StageSpending(EPSILON, DELTA)),
        training=dict.fromkeys((BLACK_BOX, SURROGATE), training),
    )


def pulls(content: str, folder: Path) -> NDArray[np.float64]:
    """How hard each of many updates pulled the answer up, noise and all, in units of the norm."""
    (folder / "rows.csv").write_text("x,y\n" + content)
    records = TableRecords.read(SCHEMA, read_table(folder / "rows.csv"))
    client = Client("north", 1, records, plan().tasks, CountingGuard(RUNS))
    arrays: dict[str, Any] = {
        name: np.full_like(array, HALF_WAY) if "bias" in name else np.zeros_like(array)
        for name, array in plan().tasks[BLACK_BOX].start(0).items()
    }
    answers = [client.answer(Instruction(BLACK_BOX, n + 1, arrays)) for n in range(RUNS)]
    moved = np.array([float(update.arrays["0.bias"][0]) for update in answers]) / RATE
    # One step of Adam is rate·g/(|g| + floor), which shows g.
    shown: NDArray[np.float64] = moved / np.maximum(1 - np.abs(moved), 1e-9) * ADAM_FLOOR / NORM
    return shown


def delta_at_least(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """For four events that are fixed beforehand; wrong once in 1e6.

    The likelihood of normal laws a distance of 2 (or 1) apart exceeds e^ε where a pull does z²/2
    (or z² + 1/2), and likewise on the other side.
    """
    noise = plan().noise[BLACK_BOX]
    assert noise is not None
    risk, reaches = bounds.RISK / 8, (noise**2 / 2, noise**2 + 0.5)
    found = []
    for sign, reach in itertools.product((1, -1), reaches):
        hits = [int((sign * pull > reach).sum()) for pull in (first, second)]
        surely = bounds.at_least(hits[0], RUNS, risk)
        found.append(surely - math.exp(EPSILON) * bounds.at_most(hits[1], RUNS, risk))
    return max(found)


@pytest.fixture(scope="module")
def with_record(tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float64]:
    return pulls("0,1\n", tmp_path_factory.mktemp("client"))


def test_no_event_tells_a_record_from_a_blank_one_beyond_the_claim(
    with_record: NDArray[np.float64], tmp_path: Path
) -> None:
    event = plan().events(BLACK_BOX)[0]
    claim = PrivacyLoss().compose(event).delta(EPSILON)
    assert claim == pytest.approx(DELTA, rel=1e-3)
    blank = pulls(",\n", tmp_path)
    assert with_record.mean() == pytest.approx(1, abs=5 * with_record.std() / RUNS**0.5)
    assert delta_at_least(with_record, blank) <= claim
    assert delta_at_least(blank, with_record) <= claim


def test_a_blank_record_that_is_read_as_defaults_is_found_out(
    with_record: NDArray[np.float64], tmp_path: Path
) -> None:
    """The mistake this test is there for: defaults and the label in the middle, 2C away."""
    assert delta_at_least(with_record, pulls("0,0.5\n", tmp_path)) > DELTA
