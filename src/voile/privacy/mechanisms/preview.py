"""What a release will be like, said before anything is spent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NoisePreview:
    """How much noise each value will carry.

    Args:
        standard_deviation: of the noise on one value.
        half_width: the noise stays within ± this with 95 %.
        gap: two values that lie this far apart keep their order with 95 %.
    """

    standard_deviation: float
    half_width: float
    gap: float

    def __str__(self) -> str:
        return (
            f"noise of standard deviation {self.standard_deviation:.4g} on each value "
            f"(within ±{self.half_width:.4g} with 95 %); two values must lie {self.gap:.4g} apart "
            "to keep their order with 95 %"
        )


@dataclass(frozen=True)
class ChoicePreview:
    """How reliable a private choice will be.

    Args:
        truth: the probability that the true answer is named; for a set, the share of true items
            that is named on average; for a choice by scores, the worst case (all scores equal).
        gap: two scores that lie this far apart are told apart with 95 %; None where there are no
            scores.
    """

    truth: float
    gap: float | None

    def __str__(self) -> str:
        apart = (
            "" if self.gap is None else f"; scores {self.gap:.4g} apart are told apart with 95 %"
        )
        return f"the true answer is named with probability at least {self.truth:.3f}{apart}"
