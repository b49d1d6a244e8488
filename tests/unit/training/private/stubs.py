"""Randomness whose every value a test knows, and an optimiser that shows what it was given."""

from __future__ import annotations

from typing import Any

import numpy as np

from voile.core.row_note import KnownNote
from voile.training import Array
from voile.training.optimisers import Move


class Known(np.random.Generator):
    """Words are those of a seed; every normal value is the same."""

    def __init__(self, seed: int = 0, normal: float = 1.0) -> None:
        super().__init__(np.random.PCG64(seed))
        self._value = normal

    def standard_normal(self, *_args: Any, out: Any = None, **_others: Any) -> Any:
        if out is None:
            return self._value
        out[...] = self._value
        return out


class KnownSource:
    note: KnownNote | None = KnownNote.SEEDED_NOISE

    def __init__(self, draw: np.random.Generator) -> None:
        self._draw = draw

    def generator(self) -> np.random.Generator:
        return self._draw


class Showing:
    """Keeps every gradient and moves nothing."""

    def __init__(self) -> None:
        self.gradients: list[Array] = []

    def bind(self, parameters: Array) -> Move:  # noqa: ARG002
        def move(gradient: Array, share: float = 1.0) -> None:  # noqa: ARG001
            self.gradients.append(gradient.copy())

        return move
