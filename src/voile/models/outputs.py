"""Output sets: where a model's outputs may lie. A guarantee rests on them, so they are declared.

- `Simplex`: probabilities of exclusive classes; derived for classifiers that have `predict_proba`.
- `Box`: each output between two declared bounds; `Box(0, 1)` for one probability.
- `Unbounded`: nothing is declared, nothing is clamped, and no sensitivity can be derived.

Nothing here is estimated from outputs: a bound read off the data would depend on the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.digest_names import digest_name
from voile.core.errors import InvalidInput

Outputs: TypeAlias = NDArray[np.float64]
"""Shape (n, outputs): what a model answers for n rows."""

# A float32 softmax misses 1 by a few 1e-7; that is rounding, not a wrong declaration.
ROUNDING = 1e-5


class DeclaredOutputs(Protocol):
    """A declared convex set that all outputs are brought into."""

    def width(self, outputs: int) -> float:
        """The largest Euclidean distance between two points of the set; infinite if unbounded."""

    def centre(self, outputs: int) -> Outputs:
        """The point of shape (outputs,) that stands for "no answer"."""

    def radius(self, outputs: int) -> float:
        """The largest Euclidean distance of a point of the set from its centre."""

    def clamp(self, values: Outputs) -> tuple[Outputs, int]:
        """Values brought inside, and how many rows had to be moved."""

    def selected(self, places: tuple[int, ...]) -> DeclaredOutputs:
        """The set in which some of the outputs lie."""


@digest_name("voile.models.outputs.Unbounded")
@dataclass(frozen=True)
class Unbounded:
    """Nothing is declared."""

    def width(self, outputs: int) -> float:  # noqa: ARG002
        return math.inf

    def centre(self, outputs: int) -> Outputs:
        raise InvalidInput(
            f"{outputs} outputs without a declared range have no centre; "
            "declare one: wrap(model, outputs=Box(lower, upper))"
        )

    def radius(self, outputs: int) -> float:  # noqa: ARG002
        return math.inf

    def clamp(self, values: Outputs) -> tuple[Outputs, int]:
        return values, 0

    def selected(self, places: tuple[int, ...]) -> Unbounded:  # noqa: ARG002
        return self


@digest_name("voile.models.outputs.Box")
@dataclass(frozen=True)
class Box:
    """Every output lies between two bounds: one pair for all outputs, or one bound per output."""

    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.lower, int | float):
            object.__setattr__(self, "lower", tuple(float(bound) for bound in self.lower))
        if not isinstance(self.upper, int | float):
            object.__setattr__(self, "upper", tuple(float(bound) for bound in self.upper))
        lower, upper = np.asarray(self.lower, float), np.asarray(self.upper, float)
        if lower.ndim and upper.ndim and lower.shape != upper.shape:
            raise InvalidInput("a box needs as many lower as upper bounds")
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
            raise InvalidInput(
                "the bounds of a box must be finite, each lower one below its upper one, "
                f"found [{self.lower}, {self.upper}]"
            )

    def _bounds(self, outputs: int) -> tuple[Outputs, Outputs]:
        try:
            lower = np.broadcast_to(np.asarray(self.lower, float), (outputs,))
            upper = np.broadcast_to(np.asarray(self.upper, float), (outputs,))
        except ValueError:
            raise InvalidInput(
                f"the box declares bounds for another number of outputs than {outputs}"
            ) from None
        return lower, upper

    def width(self, outputs: int) -> float:
        lower, upper = self._bounds(outputs)
        return float(np.linalg.norm(upper - lower))

    def centre(self, outputs: int) -> Outputs:
        lower, upper = self._bounds(outputs)
        middle: Outputs = lower + (upper - lower) / 2
        return middle

    def radius(self, outputs: int) -> float:
        return self.width(outputs) / 2

    def clamp(self, values: Outputs) -> tuple[Outputs, int]:
        lower, upper = self._bounds(values.shape[1])
        outside = (values < lower) | (values > upper)
        if not outside.any():
            return values, 0
        return np.clip(values, lower, upper), int(outside.any(axis=1).sum())

    def selected(self, places: tuple[int, ...]) -> Box:
        def chosen(bound: float | tuple[float, ...]) -> float | tuple[float, ...]:
            return tuple(bound[p] for p in places) if isinstance(bound, tuple) else bound

        return Box(chosen(self.lower), chosen(self.upper))


@digest_name("voile.models.outputs.Simplex")
@dataclass(frozen=True)
class Simplex:
    """Outputs are at least 0 and add up to 1."""

    def width(self, outputs: int) -> float:
        return math.sqrt(2) if outputs > 1 else 0.0

    def centre(self, outputs: int) -> Outputs:
        return np.full(outputs, 1 / outputs)

    def radius(self, outputs: int) -> float:
        return math.sqrt((outputs - 1) / outputs)

    def clamp(self, values: Outputs) -> tuple[Outputs, int]:
        outside = (np.abs(values.sum(axis=1) - 1) > ROUNDING) | (values < 0).any(axis=1)
        if not outside.any():
            return values, 0
        inside = values.copy()
        inside[outside] = _nearest_on_simplex(values[outside])
        return inside, int(outside.sum())

    def selected(self, places: tuple[int, ...]) -> Box:  # noqa: ARG002
        # Some of the probabilities need not add up to 1; each by itself is still one.
        return Box(0.0, 1.0)


def _nearest_on_simplex(values: Outputs) -> Outputs:
    """The Euclidean projection: subtract a common number, cut at 0, so that the rest adds up to 1.

    With the values in falling order, the number belongs to the longest prefix that stays positive.
    """
    falling = -np.sort(-values, axis=1)
    surplus = (np.cumsum(falling, axis=1) - 1) / np.arange(1, values.shape[1] + 1)
    kept = (falling > surplus).sum(axis=1)
    common = surplus[np.arange(len(values)), kept - 1]
    nearest: Outputs = np.maximum(values - common[:, np.newaxis], 0.0)
    return nearest
