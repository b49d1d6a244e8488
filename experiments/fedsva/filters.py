"""Fixed, public filters for pictures: edges by direction, pooled. They know no data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

DIRECTIONS, CELLS = 8, 4
Floats = NDArray[np.float32]


def filtered(pictures: NDArray[np.uint8]) -> Floats:
    """Features of pictures (n, height, width[, colours]), each row of length 1.

    Strength of edges in eight directions within a grid of 4 × 4 cells, and mean colours of the
    cells where there are colours. Each row has length 1 whatever the picture, so one row's
    features do not depend on any other row.
    """
    found = [
        _features(pictures[start : start + 2000]) for start in range(0, max(len(pictures), 1), 2000)
    ]
    return np.concatenate(found)


def _features(pictures: NDArray[np.uint8]) -> Floats:
    given = np.asarray(pictures, dtype=np.float32) / 255
    grey = given if given.ndim == 3 else given.mean(axis=3)
    down, right = np.gradient(grey, axis=(1, 2))
    angle = np.arctan2(down, right) * DIRECTIONS / (2 * np.pi)
    parts = []
    for direction in range(DIRECTIONS):  # a linear share to the two nearest directions
        away = np.abs((angle - direction + DIRECTIONS / 2) % DIRECTIONS - DIRECTIONS / 2)
        parts.append(_pooled(np.hypot(down, right) * np.maximum(0, 1 - away)))
    edges: Floats = np.sqrt(np.stack(parts, axis=1).reshape(len(given), -1))
    edges /= np.maximum(np.linalg.norm(edges, axis=1, keepdims=True), 1e-6)
    if given.ndim == 3:
        return edges
    colours = np.stack([_pooled(given[..., c] - 0.5) for c in range(3)], axis=1)
    colours = colours.reshape(len(given), -1)
    colours /= np.maximum(np.linalg.norm(colours, axis=1, keepdims=True), 1e-6)
    both: Floats = (np.concatenate([edges, colours], axis=1) / np.sqrt(2)).astype(np.float32)
    return both


def _pooled(plane: NDArray[Any]) -> Floats:
    """Means over a grid of cells."""
    count, height, width = plane.shape
    cells = plane.reshape(count, CELLS, height // CELLS, CELLS, width // CELLS)
    pooled: Floats = cells.mean(axis=(2, 4))
    return pooled
