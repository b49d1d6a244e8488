"""What a node computes in a round; voile's node of the benchmark computes the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH, ROWS, STEPS = 64, 500, 20


def start() -> NDArray[np.float32]:
    return np.zeros((WIDTH, WIDTH), dtype=np.float32)


def change(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Some steps of least squares on made-up rows."""
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(ROWS, WIDTH)).astype(np.float32)
    moved = weights.copy()
    for _ in range(STEPS):
        moved -= np.float32(0.1 / ROWS) * (rows.T @ (rows @ moved - rows))
    return np.asarray(moved - weights, dtype=np.float32)
