"""The declared set that a model's outputs are clamped to: two numbers are all a bound needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from voile.core.errors import InvalidInput
from voile.privacy.sensitivity.bound import positive, width_of


@dataclass(frozen=True)
class OutputSet:
    """A declared set of output vectors.

    Two outputs are at most twice the radius apart, so a smaller radius is refused: it would make
    "blank one" cheaper than any set allows.

    Args:
        diameter: the largest l2 distance between two outputs.
        radius: the largest l2 distance from the null output (the centre) to an output.
    """

    diameter: float
    radius: float

    def __post_init__(self) -> None:
        diameter, radius = width_of("diameter", self.diameter), width_of("radius", self.radius)
        if diameter > 2 * radius * (1 + 1e-12):
            raise InvalidInput(
                f"no set of diameter {diameter} lies within {radius} of one point: "
                f"the radius must be at least {diameter / 2}"
            )


def interval(width: float) -> OutputSet:
    """One output in an interval. A binary classifier releases one output, not two."""
    width = width_of("width", width)
    return OutputSet(width, width / 2)


def box(width: float, outputs: int) -> OutputSet:
    """Several outputs, each in an interval of the same width."""
    diagonal = width_of("width", width) * math.sqrt(positive("outputs", outputs))
    return OutputSet(diagonal, diagonal / 2)


def simplex(outputs: int) -> OutputSet:
    """Probabilities of several classes: √2 across, however many classes.

    From the centre to a corner it is √((k−1)/k), more than half of √2 from three classes on.
    """
    if positive("outputs", outputs) < 2:
        raise InvalidInput("probabilities of one class are no output: at least two are needed")
    return OutputSet(math.sqrt(2), math.sqrt((outputs - 1) / outputs))


def output_set(output_width: float | OutputSet) -> OutputSet:
    """A bare number means one output in an interval of that width."""
    return output_width if isinstance(output_width, OutputSet) else interval(output_width)
