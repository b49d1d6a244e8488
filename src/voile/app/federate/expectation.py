"""How good a model can be expected to be, before anything is spent on it.

From public facts, how much noise there is for each unit of signal; from rows that nobody protects,
what a plain model reaches on them and what always guessing the commonest class would. What becomes
of the difference under noise was measured once, in federations of generated data
(`experiments/expected_quality`), and stands in a table with its spread.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution import Surrogate, distil
from voile.core.explanation_checks import counted
from voile.core.randomness import StreamCipher
from voile.core.schema import Categories, Numbers, Schema
from voile.core.schema.schema import draw_rows
from voile.federation import Pipeline
from voile.federation.messages import Instruction
from voile.federation.pipeline import name_arrays
from voile.federation.stage import Stage
from voile.pipelines.calibration import FEWEST_ROWS, split_open_rows
from voile.pipelines.network_task import NetworkTask
from voile.pipelines.objectives import SURROGATE, Imitate, LearnLabels
from voile.pipelines.private_explainer.plan import PipelinePlan
from voile.pipelines.shapley_guided_noise import GuidedTask
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging.tasks import GlobalModel
from voile.training import Softmax, TargetLoss, TrainingPlan, fit, perceptron, with_arrays

TABLE: Final = "expected_quality.json"
ACCURACY, FIDELITY = "accuracy", "fidelity"
STUDIED_ROWS: Final = 1_000
"""Held-out rows of each studied federation."""
_FOLDS: Final = 5
_MOST_ROWS: Final = 5_000
_FEWEST_ROWS: Final = 20
_PLAIN: Final = TrainingPlan(steps=300, batch_rows=256, peak_rate=0.05, checks=1)
_NORMAL: Final = 1.96
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
class AttainableQuality:
    """What open rows say about the task.

    Args:
        rows: how many have a label.
        majority: the share of the commonest class, which a constant answer reaches.
        accuracy: of a linear model without noise, on rows that it was not trained on.
    """

    rows: int
    majority: float
    accuracy: float


@dataclass(frozen=True)
class ExpectedFigure:
    """A figure of the report to come: with 95 %, if the task is like those that were studied.

    Args:
        kept: of an accuracy, the share that noise leaves of what a plain model gains over a
            constant answer.
    """

    figure: str
    low: float
    middle: float
    high: float
    kept: float | None = None

    def __str__(self) -> str:
        return f"{self.figure}: {self.low:.2f} to {self.high:.2f}, most likely {self.middle:.2f}"


@dataclass(frozen=True)
class StudiedNoise:
    """What was measured in federations with up to this much noise.

    Args:
        up_to: noise for each unit of signal, see `noise_to_signal`.
        figure: `ACCURACY` or `FIDELITY`.
        kept: of an accuracy, the share of what a plain model gains over a constant answer; a
            fidelity as it is.
        spread: half the width of a 95 % interval of the figure around that.
    """

    up_to: float
    figure: str
    kept: float
    spread: float


def expected_quality(
    plan: Pipeline, sizes: Mapping[str, int], found: AttainableQuality, pipeline: str
) -> tuple[ExpectedFigure, ...]:
    """The figures that can be expected; none for a pipeline or a label that was never studied."""
    noise = {stage.name: noise_to_signal(stage, sizes) for stage in plan.stages}
    return expected_of(
        {name: each for name, each in noise.items() if each is not None}, found, pipeline
    )


def expected_of(
    noise: Mapping[str, float], found: AttainableQuality, pipeline: str
) -> tuple[ExpectedFigure, ...]:
    """The same from the noise of each stage."""
    expected = []
    for stage, level in noise.items():
        for line in studied().get(pipeline, {}).get(stage, ()):
            if level <= line.up_to:
                expected.append(_expected(stage, line, found))
                break
    return tuple(expected)


def attainable(held_out: TableRecords) -> AttainableQuality | None:
    """None where there is no class to guess, or too few rows to say anything."""
    known = held_out.only(np.flatnonzero(~held_out.null & ~np.isnan(held_out.labels)))
    known = known.only(np.random.default_rng(0).permutation(len(known))[:_MOST_ROWS])
    if not isinstance(LearnLabels(held_out.schema).output_head.head, Softmax):
        return None
    if len(known) < _FEWEST_ROWS:
        return None
    wanted = known.targets.argmax(axis=1)
    right = [said == wanted[rest] for rest, said in _answers(known)]
    majority = float(np.bincount(wanted).max() / len(wanted))
    accuracy = float(np.concatenate(right).mean())
    return AttainableQuality(len(known), majority, max(accuracy, majority))


def noise_to_signal(stage: Stage, sizes: Mapping[str, int]) -> float | None:
    """Length of the noise in everything a stage adds up, over the most that records could add.

    A step adds up q·n clipped gradients and one noise vector of p coordinates, z clipping norms
    each. Over T steps of K parties the former grows with T·K, the latter with its root.
    """
    task = stage.task.local.network if isinstance(stage.task, GlobalModel) else stage.task
    if not isinstance(task, NetworkTask) or task.noise_multiplier is None:
        return None
    parameters = sum(math.prod(shape) for shape in task.shapes.values())
    steps = task.training.steps * stage.participations
    batch = task.training.sampling_rate * sum(sizes.values()) / len(sizes)
    signal = batch * math.sqrt(steps * stage.clients_per_round)
    return task.noise_multiplier * math.sqrt(parameters) / signal


@cache
def studied() -> dict[str, dict[str, tuple[StudiedNoise, ...]]]:
    """By pipeline and stage, in the order of noise; the last line is for any more."""
    text = (files("voile.app.federate") / TABLE).read_text(encoding="utf-8")
    return {
        pipeline: {
            stage: tuple(StudiedNoise(**line) for line in lines) for stage, lines in stages.items()
        }
        for pipeline, stages in json.loads(text).items()
    }


def _expected(stage: str, line: StudiedNoise, found: AttainableQuality) -> ExpectedFigure:
    if line.figure == FIDELITY:
        return _within(f"fidelity of the {stage}", line.kept, line.spread, found.rows)
    middle = found.majority + line.kept * (found.accuracy - found.majority)
    within = _within(f"accuracy of the {stage}", middle, line.spread, found.rows)
    return replace(within, kept=line.kept)


def _within(figure: str, middle: float, spread: float, rows: int) -> ExpectedFigure:
    """With fewer rows than in the studies, what is measured on them varies more."""
    further = max(1 / rows - 1 / STUDIED_ROWS, 0.0) * middle * (1 - middle)
    half = math.hypot(spread, _NORMAL * math.sqrt(max(further, 0.0)))
    return ExpectedFigure(figure, max(middle - half, 0.0), middle, min(middle + half, 1.0))


def _answers(known: TableRecords) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Of each fold: its places, and the classes that a linear model of the others says."""
    head = LearnLabels(known.schema).output_head
    for fold in range(_FOLDS):
        places = np.arange(len(known))
        rest, used = places[fold::_FOLDS], places[places % _FOLDS != fold]
        draw = np.random.default_rng(fold)
        network = perceptron(known.columns.shape[1], (), len(head.names), draw)

        def batch(used: NDArray[Any] = used, draw: np.random.Generator = draw) -> Any:
            chosen = draw.choice(used, min(_PLAIN.batch_rows, len(used)))
            return known.columns[chosen], known.targets[chosen]

        fit(network, batch, TargetLoss(head.head), _PLAIN)
        yield rest, network(known.columns[rest]).argmax(axis=1)


# --- what a federation will be like --------------------------------------------------------------


@dataclass(frozen=True)
class PreviewWarning:
    """What is odd; `blocking` if what is promised or measured would mean nothing."""

    text: str
    blocking: bool = False

    def __str__(self) -> str:
        return f"{'!' if self.blocking else '-'} {self.text}"


@dataclass(frozen=True, repr=False)
class FederationPreview:
    """What is known before the first round.

    Args:
        concerns: what is odd.
        seconds: how long it takes here, about.
        lines: what else a pipeline has to say.
        expected: figures of the report, with their spread.
        attainable: what open rows say about the task; None if that cannot be said.
        guarantee: what will be promised, in words.
        reserved: what is kept of the promise for something else, in words; empty if nothing is.
        charges: what each party will pay, in words.
    """

    concerns: tuple[PreviewWarning, ...] = ()
    seconds: float = 0.0
    lines: tuple[str, ...] = ()
    expected: tuple[ExpectedFigure, ...] = ()
    attainable: AttainableQuality | None = None
    guarantee: str = ""
    reserved: str = ""
    charges: str = ""

    @property
    def blocking(self) -> tuple[PreviewWarning, ...]:
        return tuple(each for each in self.concerns if each.blocking)

    def __str__(self) -> str:
        promised = [self.guarantee, *filter(None, (self.reserved, self.charges))]
        lines = [f"takes about {duration_in_words(self.seconds)} here", *self._expectation]
        return "\n".join([*promised, *lines, *map(str, self.concerns)])

    def __repr__(self) -> str:
        """As people read it, for notebooks."""
        return str(self)

    @property
    def _expectation(self) -> Iterator[str]:
        if self.attainable is not None:
            yield (
                f"on {self.attainable.rows} held-out rows a constant answer is right in "
                f"{self.attainable.majority:.1%}, a linear model without noise in "
                f"{self.attainable.accuracy:.1%}"
            )
        yield from self.lines
        for each in self.expected:
            yield f"expected {each} (95 % of what was seen in generated federations)"
        if not self.expected and not self.lines:
            yield "no expected figures: this pipeline or label was not studied"


def preview_of_networks(agreement: Any, server: Any) -> FederationPreview:
    """What can be said of networks over tables, from public facts and unprotected rows."""
    found, measured = attainable(server.held_out), split_open_rows(server.held_out)[1]
    expected: tuple[ExpectedFigure, ...] = ()
    if found is not None:
        # Figures are measured on the rows that are not needed to calibrate.
        fewer = replace(found, rows=min(found.rows, len(_known_labels(measured))))
        expected = expected_quality(agreement.plan, agreement.sizes, fewer, agreement.pipeline)
    return FederationPreview(
        concerns=(
            *_of_held_out(server.held_out),
            *_of_quality(found, expected, agreement.pipeline),
        ),
        seconds=_seconds(agreement, server),
        expected=expected,
        attainable=found,
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


def _seconds(agreement: Any, server: Any) -> float:
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


def _participation(agreement: Any, stage: Stage, given: Mapping[str, Any]) -> float:
    task = stage.task.local.network if isinstance(stage.task, GlobalModel) else stage.task
    if not isinstance(task, NetworkTask | GuidedTask):
        return 0.0
    size: int = sum(agreement.sizes.values()) // len(agreement.sizes)
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
