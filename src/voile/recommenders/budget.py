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
    zcdp_to_epsilon,
)
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.mechanisms.noise import GRID_DISTANCE
from voile.privacy.mechanisms.parameters import MARGIN, checked_target
from voile.privacy.mechanisms.shares import SharedGaussian
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
TAIL: Final = 12.0
"""Deviations of a party's noise that a sum has room for: beyond them once in 10^32."""
MOST_BITS: Final = 26
"""Of an entry: squares of it are exact."""
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
        shares: how many honest parties give all of the noise together, so that noise in the sum is
            √(parties/shares) times as large; with 1 it is each party's own.
    """

    users: int
    items: int
    relation: Relation
    mu: float
    parties: int = 1
    shares: int = 1

    def __post_init__(self) -> None:
        if positive("users", self.users) > MOST_USERS:
            raise InvalidInput(
                f"sums over more than {MOST_USERS:,} users are rounded by more than the margin of "
                f"the noise covers, found {self.users:,}; split them into data sets of their own"
            )
        if positive("shares", self.shares) > positive("parties", self.parties):
            raise InvalidInput(
                f"found {self.shares} shares of {self.parties} parties: no more parties than there "
                "are can give all of the noise"
            )
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
        cls,
        *,
        users: int,
        items: int,
        relation: Relation,
        epsilon: float,
        delta: float,
        most_rho: float = math.inf,
    ) -> Self:
        """The least noise that an adaptive account of (epsilon, delta) grants (zCDP).

        Args:
            most_rho: what the account can grant at all.
        """
        epsilon, delta = checked_target(epsilon, delta, pure=False)
        mu = math.sqrt(2 * min(zcdp_budget(epsilon, delta), most_rho)) * (1 - SLACK)
        return cls(users=users, items=items, relation=relation, mu=mu)

    @property
    def signal(self) -> float:
        """Users times μ, as far as noise in the sum leaves it: what decides everything else."""
        return self.users * self.mu / math.sqrt(self.growth)

    @property
    def growth(self) -> float:
        """Variance of the noise in the sum of all parties, over that of one."""
        return self.parties / self.shares

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
        """As one party adds it, or `shares` of them together."""
        sensitivity = unit_row_sum(relation=self.relation)
        sigma = sensitivity.value / (self.mu * math.sqrt(self.popularity_share))
        return GaussianMechanism(sigma=sigma, sensitivity=sensitivity, shape=(self.items,))

    @property
    def gram_deviation(self) -> float:
        """Of the noise on one entry of the Gram matrix above its diagonal, in the sum."""
        return self.gram_noise.sigma * math.sqrt(self.growth)

    @cached_property
    def gram_noise(self) -> GaussianMechanism:
        """Of the folded matrix, as one party adds it, or `shares` of them; none if popularity gets
        everything."""
        if self.popularity_only:
            raise InvalidInput(
                f"users times mu is {self.signal:.3g}, below {LEAST:g}: there is no Gram matrix"
            )
        sensitivity = unit_row_gram(relation=self.relation)
        sigma = sensitivity.value / (self.mu * math.sqrt(1 - self.popularity_share))
        shape = (self.head * (self.head + 1) // 2,)
        return GaussianMechanism(sigma=sigma, sensitivity=sensitivity, shape=shape)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What each release costs."""
        each = self.noises if self.shares == 1 else self.shared_noises
        return tuple(noise.event() for noise in each)

    # --- noise in shares, on whole numbers ------------------------------------------------------
    # Entries of users' vectors lie on a grid, so sums of them, and of products of two, are whole
    # numbers of its steps. With 2 to the power of -bits as a step, the sum over all parties stays
    # within 2^52, noise included: doubles hold it, so a stored sum says what was released.

    @cached_property
    def bits(self) -> int:
        """Binary digits of an entry of a user's vector, where parties share the noise."""
        reach = self.users + self.parties * TAIL * self.popularity_noise.sigma
        digits = 52 - math.ceil(math.log2(reach))
        if not self.popularity_only:
            reach = self.users + self.parties * TAIL * math.sqrt(2) * self.gram_noise.sigma
            digits = min(digits, (52 - math.ceil(math.log2(reach))) // 2)
        return min(digits, MOST_BITS)

    @cached_property
    def shared_noises(self) -> tuple[SharedGaussian, ...]:
        """Of both releases in steps of the grid, or of the one there is.

        The Gram matrix comes above the diagonal and on it. Noise on the diagonal is √2 times as
        large, which is the same as equal noise on the diagonal over √2.
        """
        noise, step = self.popularity_noise, 2.0**self.bits
        first = _in_shares(noise, [step * noise.sigma], [noise.shape], self.shares)
        if self.popularity_only:
            return (first,)
        noise, step = self.gram_noise, 4.0**self.bits
        sigmas = [step * noise.sigma, step * math.sqrt(2) * noise.sigma]
        shapes = [(self.head * (self.head - 1) // 2,), (self.head,)]
        return first, _in_shares(noise, sigmas, shapes, self.shares)


def _in_shares(
    noise: GaussianMechanism,
    sigmas: Sequence[float],
    shapes: Sequence[tuple[int, ...]],
    shares: int,
) -> SharedGaussian:
    found = SharedGaussian(
        sigmas=tuple(sigmas),
        shapes=tuple(shapes),
        sensitivity=noise.sensitivity.scaled(1 / noise.sigma),
        shares=shares,
    )
    if found.factor != 1:
        raise InvalidInput(
            f"noise of {noise.sigma:.3g} is too small to be shared by {shares} parties; choose a "
            "smaller epsilon, or local noise"
        )
    return found


def epsilon_of(budget: MomentsBudget, delta: float, honest: int | None = None) -> float:
    """Of both releases together.

    Args:
        budget: what is spent.
        delta: at which it is stated.
        honest: with the shares of how many honest parties, where noise is shared; all, if None.
    """
    if budget.shares == 1:
        return stated_epsilon(budget.noises, delta)
    rho = math.fsum(noise.event(honest).rho for noise in budget.shared_noises)
    return zcdp_to_epsilon(rho, delta)


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
