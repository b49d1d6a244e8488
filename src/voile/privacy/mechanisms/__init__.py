"""Mechanisms: frozen data that say what they cost and draw exact noise.

- noise on numbers: `LaplaceMechanism`, `GaussianMechanism`; on whole numbers: `DiscreteLaplace`,
  `DiscreteGaussian`
- a choice by scores: `ExponentialMechanism`
- a category or a set toward a third party: `SubsetSelection`

Each has `event()` (what it costs), `preview()` (what it will be like) and `randomise(...)`. None
has a default sensitivity.
"""

from voile.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from voile.privacy.mechanisms.noise import GaussianMechanism, LaplaceMechanism
from voile.privacy.mechanisms.parameters import ChoicePreview, NoisePreview, WeakPrivacyWarning
from voile.privacy.mechanisms.selection import (
    ExponentialMechanism,
    SubsetSelection,
)

__all__ = [
    "ChoicePreview",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "NoisePreview",
    "SubsetSelection",
    "WeakPrivacyWarning",
]
