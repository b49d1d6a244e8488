"""The frozen rule: how a budget is spent on the item side, from public facts alone.

It was chosen once (on MovieLens, other splits than those that results are reported on) and is not
tuned to anybody's data: a setting that is tried out on protected users is a release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.privacy.accounting.conversion import (
    gaussian_epsilon,
    gaussian_noise_multiplier,
    zcdp_budget,
)
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.mechanisms.noise import GRID_DISTANCE
from voile.privacy.mechanisms.parameters import MARGIN, checked_target
from voile.privacy.sensitivity import unit_row_gram, unit_row_sum
from voile.privacy.sensitivity.bound import positive

RIDGE: Final = 20.0
HEAD_FACTOR: Final = 7.0
SHARES: Final = ((400.0, 0.10), (150.0, 0.25), (0.0, 0.50))
"""From this many users times μ on, the share of μ² that popularity gets."""
LEAST: Final = 100.0
"""Below this many users times μ, the Gram matrix would be noise: popularity gets everything."""
# What the sampler's grid may cost besides, as a share of mu and of delta (`stated_epsilon`).
SLACK: Final = 1e-6
MOST_USERS: Final = 5_000_000
"""The diagonal of the Gram matrix, a sum over users, is rounded when it is divided by √2. Beside
what one user adds that grows with their number; up to here it stays below the margin, 10⁻⁹."""


@dataclass(frozen=True, kw_only=True)
class MomentsBudget:
    """What both releases may tell, and how it is divided.

    Args:
        users, items: how many there are; public.
        relation: how neighbours differ.
        mu: sensitivity over noise, of both releases together (Gaussian differential privacy): two
            Gaussian releases of μ₁ and μ₂ tell exactly as much as one of √(μ₁² + μ₂²).
        parties: how many add up their users, each with the whole noise of its own: then noise in
            the sum is √parties times as large.
    """

    users: int
    items: int
    relation: Relation
    mu: float
    parties: int = 1

    def __post_init__(self) -> None:
        if positive("users", self.users) > MOST_USERS:
            raise InvalidInput(
                f"sums over more than {MOST_USERS:,} users are rounded by more than the margin of "
                f"the noise covers, found {self.users:,}; split them into data sets of their own"
            )
        positive("parties", self.parties)
        if positive("items", self.items) < 2:
            raise InvalidInput("a catalogue has two items at least")
        if not (math.isfinite(self.mu) and self.mu > 0):
            raise InvalidInput(f"mu must be finite and above 0, found {self.mu}")

    @classmethod
    def exact(
        cls, *, users: int, items: int, relation: Relation, epsilon: float, delta: float
    ) -> Self:
        """The least noise for (epsilon, delta), by exact composition: for a plan, or by itself."""
        epsilon, delta = checked_target(epsilon, delta, pure=False)
        multiplier = gaussian_noise_multiplier(epsilon, delta * (1 - 2 * SLACK)) * (1 + MARGIN)
        return cls(users=users, items=items, relation=relation, mu=(1 - SLACK) / multiplier)

    @classmethod
    def concentrated(
        cls, *, users: int, items: int, relation: Relation, epsilon: float, delta: float
    ) -> Self:
        """The least noise that an adaptive account of (epsilon, delta) grants (zCDP)."""
        epsilon, delta = checked_target(epsilon, delta, pure=False)
        mu = math.sqrt(2 * zcdp_budget(epsilon, delta)) * (1 - SLACK)
        return cls(users=users, items=items, relation=relation, mu=mu)

    @property
    def signal(self) -> float:
        """Users times μ, as far as noise in the sum leaves it: what decides everything else."""
        return self.users * self.mu / math.sqrt(self.parties)

    @property
    def popularity_only(self) -> bool:
        return self.signal < LEAST

    @property
    def popularity_share(self) -> float:
        """Of μ²."""
        if self.popularity_only:
            return 1.0
        return next(share for least, share in SHARES if self.signal >= least)

    @property
    def head(self) -> int:
        """How many items the Gram matrix is about."""
        return max(2, min(self.items, round(HEAD_FACTOR * math.sqrt(self.signal))))

    @property
    def noises(self) -> tuple[GaussianMechanism, ...]:
        """Of both releases, or of the one there is."""
        both = not self.popularity_only
        return (self.popularity_noise, self.gram_noise) if both else (self.popularity_noise,)

    @cached_property
    def popularity_noise(self) -> GaussianMechanism:
        """As one party adds it."""
        sensitivity = unit_row_sum(relation=self.relation)
        sigma = sensitivity.value / (self.mu * math.sqrt(self.popularity_share))
        return GaussianMechanism(sigma=sigma, sensitivity=sensitivity, shape=(self.items,))

    @property
    def gram_deviation(self) -> float:
        """Of the noise on one entry of the Gram matrix above its diagonal, in the sum."""
        return self.gram_noise.sigma * math.sqrt(self.parties)

    @cached_property
    def gram_noise(self) -> GaussianMechanism:
        """Of the folded matrix, as one party adds it; none if popularity gets everything."""
        if self.popularity_only:
            raise InvalidInput(
                f"users times mu is {self.signal:.3g}, below {LEAST:g}: there is no Gram matrix"
            )
        sensitivity = unit_row_gram(relation=self.relation)
        sigma = sensitivity.value / (self.mu * math.sqrt(1 - self.popularity_share))
        shape = (self.head * (self.head + 1) // 2,)
        return GaussianMechanism(sigma=sigma, sensitivity=sensitivity, shape=shape)


def stated_epsilon(noises: Sequence[GaussianMechanism], delta: float) -> float:
    """Of several Gaussian releases together, each of which may depend on the answers before it.

    They are no easier to see through than one of μ = √(Σ μᵢ²) (Dong, Roth and Su 2022, Corollary
    3). That is about the continuous law; the sampler's differs from it by so little in total
    variation that a share of delta pays for it, which is checked.
    """
    mu = math.sqrt(sum(noise.event().noise_multiplier ** -2 for noise in noises))
    epsilon = gaussian_epsilon(1 / mu, delta * (1 - SLACK))
    check_grid(noises, epsilon, delta)
    return epsilon


def check_grid(noises: Sequence[GaussianMechanism], epsilon: float, delta: float) -> None:
    """Refuse a delta of which a millionth does not pay for the sampler's grid."""
    values = sum(math.prod(noise.shape) for noise in noises)
    if values * (1 + math.exp(min(epsilon, 700.0))) * GRID_DISTANCE > delta * SLACK:
        raise InvalidInput(
            f"delta = {delta:g} at epsilon = {epsilon:g} is below the accuracy of the sampler"
        )
