"""What a federation will be like, said before any budget is touched.

From what all parties have agreed on, which is public, and from the server's unprotected rows.
Nobody's protected rows are looked at: their number is declared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.app.federate.agreement import FederationAgreement
from voile.app.federate.expectation import (
    AttainableQuality,
    ExpectedFigure,
    attainable,
    expected_quality,
)
from voile.app.federate.job import ServerSide
from voile.app.federate.party import check_name
from voile.app.federate.results import reserved
from voile.attribution import Surrogate, distil
from voile.core.explanation_checks import counted
from voile.core.one_thread import one_thread
from voile.core.randomness import StreamCipher
from voile.core.schema import Categories, Numbers, Schema
from voile.core.schema.schema import draw_rows
from voile.federation.messages import Instruction
from voile.federation.pipeline import name_arrays
from voile.federation.stage import Stage
from voile.pipelines.calibration import FEWEST_ROWS, split_open_rows
from voile.pipelines.network_task import NetworkTask
from voile.pipelines.objectives import SURROGATE, Imitate
from voile.pipelines.private_explainer.plan import PipelinePlan
from voile.pipelines.shapley_guided_noise import GuidedTask
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging.tasks import GlobalModel
from voile.privacy.mechanisms.parameters import weaknesses
from voile.training import TrainingPlan, with_arrays

_SMALL: Final = 100
_FEW_HELD_OUT: Final = 100
_NO_BETTER: Final = 0.01
"""What is most likely has to be above always saying the commonest answer by more."""
_TIMED_ROWS: Final = 20_000
_TIMED_STEPS: Final = (5, 25)
"""Of the fast explainer: two lengths, so that what is done once is told from a step."""
_WORTH_LEARNING: Final = 0.02
_HARDLY: Final = 0.25
_SMALLEST: Final = "logistic regression"
"""The pipeline that learns the least, and needs the least rows."""


@dataclass(frozen=True)
class PreviewWarning:
    """What is odd; `blocking` if what is promised or measured would mean nothing."""

    text: str
    blocking: bool = False

    def __str__(self) -> str:
        return f"{'!' if self.blocking else '-'} {self.text}"


@dataclass(frozen=True)
class FederationPreview:
    """What is known before the first round.

    Args:
        guarantee: what will be promised, in words.
        expected: figures of the report, with their spread.
        attainable: what open rows say about the task; None if that cannot be said.
        seconds: how long it takes here, about.
        reserved: what is kept of the promise for something else, in words; empty if nothing is.
    """

    guarantee: str
    concerns: tuple[PreviewWarning, ...]
    expected: tuple[ExpectedFigure, ...]
    attainable: AttainableQuality | None
    seconds: float
    reserved: str = ""

    @property
    def blocking(self) -> tuple[PreviewWarning, ...]:
        return tuple(each for each in self.concerns if each.blocking)

    def __str__(self) -> str:
        promised = [self.guarantee, *([self.reserved] if self.reserved else [])]
        lines = [f"takes about {duration_in_words(self.seconds)} here", *self._expectation]
        return "\n".join([*promised, *lines, *map(str, self.concerns)])

    @property
    def _expectation(self) -> Iterator[str]:
        if self.attainable is not None:
            yield (
                f"on {self.attainable.rows} held-out rows a constant answer is right in "
                f"{self.attainable.majority:.1%}, a linear model without noise in "
                f"{self.attainable.accuracy:.1%}"
            )
        for each in self.expected:
            yield f"expected {each} (95 % of what was seen in generated federations)"
        if not self.expected:
            yield "no expected figures: this pipeline or label was not studied"


def preview(agreement: FederationAgreement, server: ServerSide) -> FederationPreview:
    """Look at public facts and unprotected rows; nothing is charged, opened or written.

    `InvalidInput` for a federation that was renamed, which the run would refuse.
    """
    check_name(agreement.name, server.folder)
    with one_thread():
        found = attainable(server.held_out)
        expected: tuple[ExpectedFigure, ...] = ()
        if found is not None:
            # Figures are measured on the rows that are not needed to calibrate.
            measured = len(_known_labels(split_open_rows(server.held_out)[1]))
            fewer = replace(found, rows=min(found.rows, measured))
            sizes = dict(agreement.sizes)
            expected = expected_quality(agreement.plan, sizes, fewer, agreement.pipeline)
        return FederationPreview(
            guarantee=str(agreement.plan.guarantee()),
            concerns=(
                *map(PreviewWarning, server.remarks),
                *_of_promise(agreement),
                *_of_sizes(agreement.sizes),
                *_of_held_out(server.held_out),
                *_of_quality(found, expected, agreement.pipeline),
            ),
            expected=expected,
            attainable=found,
            seconds=_seconds(agreement, server),
            reserved="; ".join(f"reserved: {each}" for each in reserved(agreement)),
        )


def _of_promise(agreement: FederationAgreement) -> Iterator[PreviewWarning]:
    for weakness in weaknesses(agreement.weakest_epsilon, agreement.delta):
        yield PreviewWarning(weakness, blocking=True)
    most = max(agreement.sizes, key=lambda name: agreement.sizes[name])
    rows = agreement.sizes[most]
    if agreement.delta * rows >= 1:
        yield PreviewWarning(
            f"delta = {agreement.delta:g} is not below one over the {rows} rows of {most!r}: "
            "publishing a whole row would keep this promise. Choose a smaller delta",
            blocking=True,
        )


def _of_sizes(sizes: Mapping[str, int]) -> Iterator[PreviewWarning]:
    small = [name for name, rows in sizes.items() if rows < _SMALL]
    if small:
        yield PreviewWarning(
            f"fewer than {_SMALL} rows at {', '.join(map(repr, small))}: updates of such a small "
            "party are mostly noise and have little weight"
        )


def _of_held_out(held_out: TableRecords) -> Iterator[PreviewWarning]:
    known = _known_labels(held_out)
    measured = len(_known_labels(split_open_rows(held_out)[1]))
    if len(known) < _FEW_HELD_OUT:
        yield PreviewWarning(
            f"{len(known)} held-out rows with a label, {measured} of them for measuring: figures "
            f"are uncertain by at least {1 / np.sqrt(max(measured, 1)):.0%}"
        )
    if measured == len(known) and isinstance(_label(held_out.schema), Categories):
        yield PreviewWarning(
            f"fewer than {2 * FEWEST_ROWS} held-out rows with a label: the model will not be "
            "calibrated, so its probabilities may be too extreme"
        )
    if len(known) and isinstance(_label(held_out.schema), Categories) and np.ptp(known) == 0:
        yield PreviewWarning(
            "all held-out rows have the same label, so the figures of the report will mean little",
            blocking=True,
        )


def _known_labels(rows: TableRecords) -> NDArray[np.float64]:
    known: NDArray[np.float64] = rows.labels[~rows.null & ~np.isnan(rows.labels)]
    return known


def _of_quality(
    found: AttainableQuality | None, expected: tuple[ExpectedFigure, ...], pipeline: str
) -> Iterator[PreviewWarning]:
    if found is None or found.majority == 1:
        return
    if found.accuracy < found.majority + _WORTH_LEARNING:
        yield PreviewWarning(
            "on held-out rows, even a linear model without noise is hardly better than guessing "
            "the most common answer: accuracy will say little"
        )
    smaller = "" if pipeline == _SMALLEST else f', or pipeline = "{_SMALLEST}"'
    for each in expected:
        if each.kept is not None and each.kept < _HARDLY:
            yield PreviewWarning(
                f"too much noise for this many rows: it leaves {max(each.kept, 0):.0%} of what "
                "can be learned, and explanations would be mostly noise. Use more rows or "
                f"parties, fewer features, or a larger epsilon{smaller}",
                blocking=True,
            )
        elif each.kept is not None and each.low <= found.majority:
            yield PreviewWarning(
                f"the expected {each.figure}, {each.low:.2f} to {each.high:.2f}, is not above "
                f"{found.majority:.2f}, the result of always giving the most common answer. Use "
                "more rows or parties, or a larger epsilon; if one answer is rare, look at AUC "
                "instead",
                blocking=each.middle <= found.majority + _NO_BETTER,
            )


# --- how long -------------------------------------------------------------------------------------


def _seconds(agreement: FederationAgreement, server: ServerSide) -> float:
    """One participation of each stage is tried, with rows drawn from the schema.

    How stable explanations are is estimated by training the first stage again.
    """
    plan, total = agreement.plan, 0.0
    given: dict[str, Any] = {}
    for number, stage in enumerate(plan.stages):
        start = plan.start(stage.name)
        times = (
            stage.rounds * stage.clients_per_round * (1 if number else 1 + server.stability_runs)
        )
        total += times * _participation(agreement, stage, given)
        given |= name_arrays(stage.name, start)
    if isinstance(plan, PipelinePlan):
        total += _distilling(plan, agreement.schema, server.distillation)
    return total


def _distilling(plan: PipelinePlan, schema: Schema, full: TrainingPlan) -> float:
    """A few steps are tried, with a surrogate that knows nothing yet."""
    objective = plan.objectives[SURROGATE]
    assert isinstance(objective, Imitate)
    surrogate = objective.surrogate(with_arrays(plan.start(SURROGATE)))
    few, more = (_timed(surrogate, schema, replace(full, steps=steps)) for steps in _TIMED_STEPS)
    step = max(more - few, 0.0) / (_TIMED_STEPS[1] - _TIMED_STEPS[0])
    return more + step * max(full.steps - _TIMED_STEPS[1], 0)


def _timed(surrogate: Surrogate, schema: Schema, plan: TrainingPlan) -> float:
    began = time.perf_counter()
    distil(surrogate, schema, source=StreamCipher(), plan=plan)
    return time.perf_counter() - began


def _participation(agreement: FederationAgreement, stage: Stage, given: Mapping[str, Any]) -> float:
    task = stage.task.local.network if isinstance(stage.task, GlobalModel) else stage.task
    if not isinstance(task, NetworkTask | GuidedTask):
        return 0.0
    size = sum(agreement.sizes.values()) // len(agreement.sizes)
    rows = max(min(size, _TIMED_ROWS), 1)
    instruction = Instruction(stage.name, 1, agreement.plan.start(stage.name), given)
    records = _invented(agreement.schema, rows)
    began = time.perf_counter()
    task.fit(instruction, records, rows, StreamCipher())
    return (time.perf_counter() - began) * size / rows


def _invented(schema: Schema, count: int) -> TableRecords:
    draw = np.random.default_rng(0)
    domain = _label(schema)
    labels = (
        draw.integers(0, len(domain.values), count).astype(np.float64)
        if isinstance(domain, Categories)
        else draw.uniform(domain.lower, domain.upper, count)
    )
    rows = draw_rows(schema, count, draw)
    return TableRecords(schema, rows, labels, np.zeros(count, dtype=np.bool_))


def _label(schema: Schema) -> Categories | Numbers:
    assert schema.label is not None
    domain = schema.label.domain
    assert isinstance(domain, Categories | Numbers)
    return domain


def duration_in_words(seconds: float) -> str:
    """Rounded, as an estimate is said."""
    if seconds < 90:
        return counted(max(round(seconds), 1), "second")
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
