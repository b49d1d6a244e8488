"""What is said before a budget is touched: about the promise, sizes, open rows and quality."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.app.federate.test_guided import write_guided
from tests.unit.app.federate.test_run import agreed, write_files

from voile.app.federate import Job, read_job
from voile.app.federate import expectation as previewing
from voile.app.federate.expectation import (
    AttainableQuality,
    FederationPreview,
    attainable,
    expected_of,
    noise_to_signal,
    studied,
)
from voile.app.federate.preview import preview
from voile.datasets import clinic_federation
from voile.pipelines.tables import TableRecords

CLINIC = clinic_federation(300, seed=6)
PATIENTS = CLINIC.hospitals["city"]
FLIPPED = np.random.default_rng(0).random(len(PATIENTS)) < 0.1
OPEN = TableRecords.from_dataset(
    replace(PATIENTS, labels=((PATIENTS.rows[:, 0] > 65) != FLIPPED).astype(np.float64))
)
"""A task that a linear model learns well."""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    read = read_job(write_files(tmp_path_factory.mktemp("previewed")))
    server = replace(read.server, held_out=OPEN)
    sizes = dict.fromkeys(read.agreement.sizes, 5_000)
    return agreed(replace(read, server=server), rounds=1, sizes=sizes)


def found(job: Job, **changes: Any) -> FederationPreview:
    changed = agreed(job, **changes)
    return preview(changed.agreement, changed.server)


def blocking_warnings(job: Job, **changes: Any) -> list[str]:
    return [each.text for each in found(job, **changes).blocking]


def test_a_sound_plan_is_told_with_what_to_expect(job: Job) -> None:
    told = found(job)
    assert told.blocking == ()
    accuracy, fidelity = told.expected
    assert accuracy.figure == "accuracy of the black box"
    assert fidelity.figure == "fidelity of the surrogate"
    assert told.attainable is not None
    assert told.attainable.majority < accuracy.middle < accuracy.high <= 1
    assert told.seconds > 0
    assert "(ε = " in str(told)
    assert "expected accuracy of the black box" in str(told)
    assert not job.server.folder.joinpath("checkpoints").exists()


def test_what_is_reserved_for_a_count_is_said(job: Job) -> None:
    assert "reserved" not in str(found(job))
    told = str(found(job, members_count=0.1))
    assert "reserved: a count of members, at ε = 0.1, that each party may release once" in told
    assert "for both together ε = 3 is promised" in told


def test_nobody_is_advised_to_take_the_pipeline_that_is_there(job: Job) -> None:
    few = {"sizes": {"city": 20, "coast": 20, "harbour": 20}, "epsilon": 0.1}
    other = 'or pipeline = "logistic regression"'
    assert any(other in each for each in blocking_warnings(job, **few))
    told = blocking_warnings(job, **few, pipeline="logistic regression", hidden=None)
    assert any("too much noise" in each for each in told)
    assert not any(other in each for each in told)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": 100.0}, "close to none"),
        ({"delta": 0.01}, "publishing each record with probability"),
        ({"delta": 1e-3}, "is not below one over the 5000 rows"),
        (
            {"sizes": {"city": 60, "coast": 60, "harbour": 60}, "epsilon": 0.3},
            "too much noise for this many rows",
        ),
    ],
)
def test_what_would_mean_nothing_is_blocking(job: Job, changes: dict[str, Any], words: str) -> None:
    assert any(words in text for text in blocking_warnings(job, **changes))


def test_a_rare_answer_that_accuracy_cannot_see_is_blocking(job: Job) -> None:
    """There is little noise; but always saying the other answer is as good."""
    rare = (np.random.default_rng(3).random(len(OPEN)) < 0.02).astype(np.float64)
    rows = TableRecords(OPEN.schema, OPEN.rows, rare, OPEN.null)
    (text,) = blocking_warnings(replace(job, server=replace(job.server, held_out=rows)))
    assert text.startswith("the expected accuracy of the black box, 0.")
    assert "the result of always giving the most common answer" in text


def test_a_wide_interval_is_said_and_stops_nobody(job: Job) -> None:
    """Few rows to measure on; what is most likely is better than the commonest answer."""
    small = agreed(job, sizes=dict.fromkeys(("city", "coast", "harbour"), 150), epsilon=1.0)
    few = replace(job.server, held_out=OPEN.only(np.arange(48)))
    found = preview(small.agreement, few)
    said = [each for each in found.concerns if "most common answer" in each.text]
    (accuracy,) = [each for each in found.expected if each.kept is not None]
    assert found.attainable is not None
    assert accuracy.low <= found.attainable.majority < accuracy.middle - 0.01
    assert [each.blocking for each in said] == [False]


def test_small_parties_and_few_open_rows_are_said_and_not_blocking(job: Job) -> None:
    few = replace(job, server=replace(job.server, held_out=OPEN.only(np.arange(30))))
    told = found(few, sizes={"city": 5_000, "coast": 5_000, "harbour": 40})
    texts = [str(each) for each in told.concerns]
    assert any(text.startswith("- fewer than 100 rows at 'harbour'") for text in texts)
    assert any(text.startswith("- 30 held-out rows with a label") for text in texts)
    wide, narrow = told.expected[0], found(job).expected[0]
    assert wide.high - wide.low > narrow.high - narrow.low


def test_held_out_rows_of_one_class_are_blocking(job: Job) -> None:
    same = OPEN.only(np.flatnonzero(OPEN.labels == 0))
    told = found(replace(job, server=replace(job.server, held_out=same)))
    assert any("the same label" in each.text for each in told.blocking)


def test_open_rows_are_learned_from_without_noise() -> None:
    told = attainable(OPEN)
    assert told is not None
    assert told.majority == pytest.approx(max(OPEN.labels.mean(), 1 - OPEN.labels.mean()), abs=1e-6)
    assert told.majority + 0.02 < told.accuracy < 0.95
    shuffled = np.random.default_rng(0).permutation(OPEN.labels)
    nothing = attainable(TableRecords(OPEN.schema, OPEN.rows, shuffled, OPEN.null))
    assert nothing is not None
    assert nothing.accuracy < nothing.majority + 0.02
    assert attainable(OPEN.only(np.arange(10))) is None


def test_noise_falls_with_rows_parties_and_epsilon(job: Job) -> None:
    def noise(**changes: Any) -> float:
        agreement = agreed(job, **changes).agreement
        level = noise_to_signal(agreement.plan.stages[0], agreement.sizes)
        assert level is not None
        return level

    assert noise(sizes={"city": 500, "coast": 500, "harbour": 500}) > 2 * noise()
    assert noise(epsilon=0.5) > 2 * noise()
    assert noise(pipeline="logistic regression", hidden=None) < noise() / 2


def test_more_noise_leaves_less_and_any_noise_is_in_the_table() -> None:
    task = AttainableQuality(rows=1_000, majority=0.6, accuracy=0.9)
    for pipeline, stages in studied().items():
        for stage, lines in stages.items():
            levels = [line.up_to for line in lines]
            assert levels == sorted(levels)
            assert expected_of({stage: 1e6}, task, pipeline)
            if lines[0].figure == "accuracy":
                assert lines[0].kept > 0.9 > 0.25 > lines[-1].kept
    quiet, loud = (expected_of({"black box": n}, task, "private explainer")[0] for n in (1e-3, 2))
    assert quiet.middle > 0.85
    assert loud.middle < 0.65
    assert expected_of({"trusted": 0.1}, task, "trusted") == ()


def test_the_table_is_the_one_that_the_study_has_written() -> None:
    import json

    results = Path(__file__).parents[4] / "results" / "expected_quality.json"
    shown = [figure["ours"] for figure in json.loads(results.read_text())["figures"]]
    table = [
        each
        for stages in studied().values()
        for lines in stages.values()
        for line in lines
        for each in (line.kept, line.spread)
    ]
    assert shown == table


def test_a_step_of_the_fast_explainer_is_timed_on_this_machine(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two short trials, on a clock in which a step takes two seconds and all else ten."""
    now = [0.0]

    def slow(*_: Any, plan: Any, **__: Any) -> None:
        now[0] += 10 + 2 * plan.steps

    monkeypatch.setattr(previewing, "distil", slow)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    steps = replace(job.server.distillation, steps=500)
    told = preview(job.agreement, replace(job.server, distillation=steps))
    assert told.seconds == pytest.approx(10 + 2 * 500)


def test_training_for_declared_columns_is_timed_too(tmp_path: Path) -> None:
    read = read_job(write_guided(tmp_path))
    assert preview(read.agreement, read.server).seconds > 0
