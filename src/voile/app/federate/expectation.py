"""How good a model can be expected to be, before anything is spent on it.

From public facts, how much noise there is for each unit of signal; from rows that nobody protects,
what a plain model reaches on them and what always guessing the commonest class would. What becomes
of the difference under noise was measured once, in federations of generated data
(`experiments/expected_quality`), and stands in a table with its spread.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.federation import Pipeline
from voile.federation.stage import Stage
from voile.pipelines.network_task import NetworkTask
from voile.pipelines.objectives import LearnLabels
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging.tasks import GlobalModel
from voile.training import Softmax, TargetLoss, TrainingPlan, fit, perceptron

TABLE: Final = "expected_quality.json"
ACCURACY, FIDELITY = "accuracy", "fidelity"
STUDIED_ROWS: Final = 1_000
"""Held-out rows of each studied federation."""
_FOLDS: Final = 5
_MOST_ROWS: Final = 5_000
_FEWEST_ROWS: Final = 20
_PLAIN: Final = TrainingPlan(steps=300, batch_rows=256, peak_rate=0.05, checks=1)
_NORMAL: Final = 1.96


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
