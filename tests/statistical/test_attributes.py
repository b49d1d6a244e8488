"""What difference clipping shows of private columns, against what it is charged with.

One row, one step at a time with parameters that never move, so that every step is a sample of the
same release. The public input is huge: through all noise it is seen whether the row is in the
public sum, which is exact and is to tell nothing about the other sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import tee
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.statistical import bounds
from voile.core.guarantee import Relation
from voile.core.randomness import Seeded
from voile.privacy.accounting import PrivacyLoss
from voile.training import Array, Perceptron, Softmax, TargetLoss
from voile.training.optimisers import Move
from voile.training.private import (
    AttributeSteps,
    PrivateColumns,
    PrivateSteps,
    attributes,
    fit_attributes_privately,
    loop,
)

STEPS, RATE, NORM, EPSILON, PUBLIC = 40_000, 0.3, 0.5, 1.0, 1e4
COLUMNS = PrivateColumns(np.array([False, True]), np.zeros(2, dtype=np.float32))
Sample = NDArray[np.float64]


class Keeping:
    """Keeps what the weights of one output are given, and moves nothing."""

    def __init__(self) -> None:
        self.kept: list[tuple[float, float]] = []

    def bind(self, parameters: Array) -> Move:  # noqa: ARG002
        def move(gradient: Array, share: float = 1.0) -> None:  # noqa: ARG001
            # Both outputs: a record moves them by opposite amounts.
            self.kept.append((float(gradient[0]), float(gradient[1] - gradient[3])))

        return move


def privacy(relation: Relation, rate: float = RATE, steps: int = STEPS) -> AttributeSteps:
    return AttributeSteps(
        difference=PrivateSteps(
            clipping_norm=NORM,
            noise_multiplier=1.0,
            sampling_rate=rate,
            steps=steps,
            rows=1,
            relation=relation,
        )
    )


def released(value: float, seed: int, promised: AttributeSteps) -> Sample:
    """(steps, 2): the public coordinate, and the one along which private columns move."""
    keeping = Keeping()
    fit_attributes_privately(
        Perceptron((2, 2), np.zeros(6, dtype=np.float32)),
        (np.array([[PUBLIC, value]], dtype=np.float32), np.array([[1, 0]], dtype=np.float32)),
        TargetLoss(Softmax()),
        COLUMNS,
        promised,
        optimiser=keeping,
        source=Seeded(seed),
    )
    return np.array(keeping.kept)


def claimed(promised: AttributeSteps, epsilon: float = EPSILON) -> float:
    """The delta of one step."""
    return PrivacyLoss().compose(_one(promised)).delta(epsilon)


def _one(promised: AttributeSteps) -> Any:
    event: Any = promised.event()
    return event.event


def refuted(pair: tuple[Sample, Sample]) -> float:
    """The largest lower bound on delta, over what an adversary may look at."""
    scores: list[Callable[[Sample], NDArray[np.float64]]] = [
        lambda seen: -seen[:, 1],
        lambda seen: np.where(np.abs(seen[:, 0]) > PUBLIC / 4, -seen[:, 1], -1e9),
    ]
    return max(
        bounds.delta_at_least(sign * score(pair[0]), sign * score(pair[1]), EPSILON)
        for score in scores
        for sign in (1, -1)
    )


@pytest.fixture(scope="module")
def blanked() -> tuple[Sample, Sample]:
    promised = privacy(Relation.BLANK_ONE)
    return released(1e3, 1, promised), released(0.0, 2, promised)


def test_no_event_refutes_what_is_charged(blanked: tuple[Sample, Sample]) -> None:
    seen = np.abs(blanked[0][:, 0]) > PUBLIC / 4
    assert 0.28 < seen.mean() < 0.32
    charged = claimed(privacy(Relation.BLANK_ONE))
    assert refuted(blanked) < charged
    # The test is not blind: noise of half the norm would be found out.
    half = blanked[0].copy()
    half[:, 1] *= 2
    twice = blanked[1].copy()
    assert refuted((half, twice)) > charged


def test_one_draw_for_both_sums_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact sum shows who was drawn, so nothing is amplified."""
    promised = privacy(Relation.BLANK_ONE)
    pair = []
    for value, seed in ((1e3, 1), (0.0, 2)):
        drawn: Any = loop.poisson_samples(np.random.default_rng(seed), 1, RATE, STEPS)
        shared: list[Iterator[Any]] = list(tee(drawn, 2))
        for module in (loop, attributes):
            monkeypatch.setattr(module, "poisson_samples", lambda *_, of=shared: of.pop())
        pair.append(released(value, seed + 10, promised))
        monkeypatch.undo()
    assert refuted((pair[0], pair[1])) > claimed(promised)


def test_replacing_needs_what_it_is_charged_with() -> None:
    """Opposite differences, 2C apart; what "blank one" is charged with would be refuted."""
    promised = privacy(Relation.REPLACE_ONE, rate=0.9, steps=8_000)
    found = refuted((released(1e3, 3, promised), released(-1e3, 4, promised)))
    assert found < claimed(promised)
    assert found > claimed(privacy(Relation.BLANK_ONE, rate=0.9))
