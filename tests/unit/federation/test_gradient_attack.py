"""A secure sum hides whose update it is, not what rows are in it: that is what noise is for.

A malicious server chooses the arrays. All hidden units get the same weights and staggered biases,
so that two neighbouring units differ by the rows whose score lies between their biases. Where that
is a single row, the difference of two gradients of weights over that of biases *is* the row. Sums
of eight parties with eight rows each do not change that; clipping does not either. Noise does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.unit.federation.secret_toys import (
    AGREED,
    member,
    protocol,
    rounds_in_secret,
)
from tests.unit.federation.toys import client, stage
from voile.core.guarantee import Relation
from voile.federation import FitResult, Instruction, Node, Rounds
from voile.privacy.events import Gaussian, PoissonSampled, PrivacyEvent

FEATURES, UNITS, ROWS = 6, 256, 8
PARTIES = tuple(f"hospital {place}" for place in range(8))
CLIP = 0.5


@dataclass(frozen=True)
class OneStep:
    """One gradient step of a network with one hidden layer on all rows of a party.

    Args:
        noise: multiplier of Gaussian noise on the clipped sum; None for no noise.
        clips: whether each row's gradient is clipped.
    """

    noise: float | None
    clips: bool = True

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"weights": (UNITS, FEATURES), "biases": (UNITS,), "last": (UNITS,)}

    def cost(self, size: int) -> PrivacyEvent | None:  # noqa: ARG002
        if self.noise is None:
            return None
        return PoissonSampled(Gaussian(self.noise), 1.0, Relation.BLANK_ONE)

    def fit(self, instruction: Instruction, records: Any, size: int, source: Any) -> FitResult:
        found = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        for row, label in zip(*records, strict=True):
            gradient = _gradient(instruction.arrays, row, label)
            norm = np.sqrt(sum((part**2).sum() for part in gradient.values()))
            factor = min(1.0, CLIP / norm) if self.clips else 1.0
            for name, part in gradient.items():
                found[name] += factor * part
        draw = source.generator()
        for part in found.values():
            if self.noise is not None:
                part += draw.normal(0, self.noise * CLIP, part.shape)
            part /= -size
        change = {name: part.astype(np.float32) for name, part in found.items()}
        return FitResult(change, self.cost(size))

    def evaluate(self, *_: Any) -> Mapping[str, float]:
        return {}


def _gradient(arrays: Any, row: Any, label: float) -> dict[str, Any]:
    hidden = arrays["weights"] @ row + arrays["biases"]
    active = hidden > 0
    output = arrays["last"] @ np.maximum(hidden, 0)
    wrong = 1 / (1 + np.exp(-output)) - label
    back = wrong * arrays["last"] * active
    return {
        "weights": back[:, np.newaxis] * row,
        "biases": back,
        "last": wrong * np.maximum(hidden, 0),
    }


def chosen_arrays() -> dict[str, Any]:
    """Scores of rows in [0, 1]^d lie where the biases are staggered."""
    draw = np.random.default_rng(2)
    direction = draw.normal(size=FEATURES)
    direction /= np.abs(direction).sum()
    biases = -np.linspace(-1.0, 1.0, UNITS)
    return {
        "weights": np.tile(direction, (UNITS, 1)).astype(np.float32),
        "biases": biases.astype(np.float32),
        "last": np.full(UNITS, 1.0 / UNITS, dtype=np.float32),
    }


def rows_read(change: Mapping[str, Any], rows: Any) -> int:
    """How many rows lie within 0.01 of what the attack makes of a sum."""
    weights, biases = (np.diff(change[name].astype(np.float64), axis=0) for name in
                       ("weights", "biases"))  # fmt: skip
    with np.errstate(all="ignore"):
        guesses = weights / biases[:, np.newaxis]
    guesses = guesses[np.isfinite(guesses).all(axis=1)]
    distances = np.abs(rows[:, np.newaxis] - guesses).max(axis=2)
    return int((distances.min(axis=1) < 0.01).sum())


def attacked(task: OneStep) -> tuple[int, int]:
    """Rows that are read out of the sum of all parties, of how many."""
    draw = np.random.default_rng(7)
    data = {n: (draw.random((ROWS, FEATURES)), draw.integers(0, 2, ROWS)) for n in PARTIES}
    sums = replace(protocol(PARTIES), sizes=dict.fromkeys(PARTIES, ROWS))
    agreed = stage(
        task=task, protocol=sums, rounds=1, clients_per_round=len(PARTIES), participations=1
    )
    nodes = [
        Node(
            replace(client(name, ROWS, task=task, records=data[name]), agreement=AGREED),
            secure=member(agreed, name),
        )
        for name in PARTIES
    ]
    start = chosen_arrays()
    rounds: Rounds = rounds_in_secret(agreed, nodes)
    found = rounds.run(agreed, start)
    assert all(row.outcome.counts for row in found.rows)
    change = {name: found.arrays[name] - start[name] for name in start}
    rows = np.concatenate([own for own, _ in data.values()])
    return rows_read(change, rows), len(rows)


@pytest.mark.parametrize("clips", [False, True])
def test_without_noise_rows_are_read_out_of_a_secure_sum(clips: bool) -> None:
    read, rows = attacked(OneStep(None, clips))
    assert rows == 64
    assert read >= 0.2 * rows, read


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_with_noise_nothing_is_read(noise: float) -> None:
    read, _ = attacked(OneStep(noise))
    assert read == 0
