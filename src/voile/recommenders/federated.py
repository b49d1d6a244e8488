"""Moments of several shops' users, added up: two rounds, the same model.

Every shop draws its own releases from its own users, with the whole noise of its own, and charges
its own account before anything leaves. A first sum gives popularity, from which the head follows; a
second one the Gram matrix on that head. In a secure sum whoever adds up sees sums alone, and single
answers would be private as well. Noise in the sum is √shops times that of one: with one user a
shop, that is local differential privacy, and little is left (docs/recommend.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary, Guarantee, Protected
from voile.core.randomness import GeneratorSource
from voile.federation import (
    FitResult,
    Instruction,
    PlainRound,
    RoundProtocol,
    SecureSum,
    Stage,
    StageResult,
)
from voile.federation.aggregators import FedAvg
from voile.federation.arrays import Arrays, Shapes
from voile.federation.pipeline import under
from voile.federation.stored_text import stored_as
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism
from voile.recommenders.budget import MomentsBudget
from voile.recommenders.catalogue import Catalogue
from voile.recommenders.interactions import Interactions
from voile.recommenders.moments import (
    ItemGram,
    ItemMoments,
    ItemPopularity,
    PrivateGram,
    PrivatePopularity,
    joint_guarantee,
)
from voile.recommenders.rows import folded, unfolded

_VECTOR: Final = "moments"
_TAIL: Final = 40.0
"""Standard deviations of noise that an answer is not expected to leave; it is cut there."""

POPULARITY: Final = "popularity"
GRAM: Final = "Gram matrix"


@stored_as("ShopMean")
@dataclass(frozen=True)
class ShopMean(FedAvg):
    """The mean of shops, which all count alike: times their number it is the sum."""

    def weight(self, client: str, size: int) -> float:  # noqa: ARG002
        return 1.0


@dataclass(frozen=True, eq=False)
class ReleasePopularity:
    """What a shop does in the first stage: it draws the release over its own users."""

    plan: MomentsPlan

    @property
    def noise(self) -> GaussianMechanism:
        return self.plan.budget.popularity_noise

    @property
    def shapes(self) -> Shapes:
        return {_VECTOR: self.noise.shape}

    @property
    def bound(self) -> float:
        """Answers are cut to this size, noise included."""
        return self.plan.budget.users + _TAIL * self.noise.sigma

    def cost(self, size: int) -> PrivacyEvent:  # noqa: ARG002
        return self.noise.event()

    def fit(
        self,
        instruction: Instruction,
        records: Interactions,
        size: int,
        source: GeneratorSource,  # noqa: ARG002
    ) -> FitResult:
        drawn = self._drawn(instruction, records).clip(-self.bound, self.bound)
        return FitResult({_VECTOR: drawn.astype(np.float32)}, self.cost(size))

    def _drawn(self, instruction: Instruction, records: Interactions) -> NDArray[np.float64]:  # noqa: ARG002
        plan = self.plan
        terms: dict[str, Any] = {"protected": plan.protected, "delta": plan.delta}
        return PrivatePopularity(records, plan.budget, **terms).draw().values

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Any) -> Mapping[str, float]:  # noqa: ARG002
        return {}


@dataclass(frozen=True, eq=False)
class ReleaseGram(ReleasePopularity):
    """What a shop does in the second stage, on the head that all shops together have chosen."""

    @property
    def noise(self) -> GaussianMechanism:
        return self.plan.budget.gram_noise

    def _drawn(self, instruction: Instruction, records: Interactions) -> NDArray[np.float64]:
        plan = self.plan
        chosen = plan.popularity(under(POPULARITY, instruction.given)[_VECTOR])
        terms: dict[str, Any] = {"protected": plan.protected, "delta": plan.delta}
        return folded(PrivateGram(records, plan.budget, **terms, chosen=chosen).draw().matrix)


@dataclass(frozen=True, eq=False)
class MomentsPlan:
    """Two rounds, or one where the budget is too small for more; a `voile.federation.Pipeline`.

    Args:
        catalogue: public.
        sizes: how many users each shop declares.
        protected: a user of their data.
        budget: what each shop may tell about each of its users; its `parties` are the shops.
        delta: at which epsilon is stated.
        protocol: a plain round or a secure sum; shops count alike in it.
    """

    catalogue: Catalogue
    sizes: Mapping[str, int]
    protected: Protected
    budget: MomentsBudget
    delta: float
    protocol: RoundProtocol = field(default_factory=PlainRound)
    stage_tasks: ClassVar = ((POPULARITY, ReleasePopularity), (GRAM, ReleaseGram))

    def __post_init__(self) -> None:
        users, shops = sum(self.sizes.values()), len(self.sizes)
        if (self.budget.users, self.budget.parties) != (users, shops):
            raise InvalidInput(
                f"the budget is for {self.budget.users} users of {self.budget.parties} shops, "
                f"found {users} of {shops}"
            )

    @cached_property
    def tasks(self) -> Mapping[str, ReleasePopularity]:
        count = len(self.budget.noises)
        return {stage: kind(self) for stage, kind in self.stage_tasks[:count]}

    @property
    def stages(self) -> tuple[Stage, ...]:
        assert isinstance(self.protocol, PlainRound | SecureSum)
        shops, alike = len(self.sizes), replace(self.protocol, aggregator=ShopMean())
        return tuple(
            Stage(name, task, 1, shops, 1, alike, task.bound) for name, task in self.tasks.items()
        )

    @property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        return tuple(task.cost(1) for task in self.tasks.values())

    def start(self, stage: str) -> Arrays:
        return {_VECTOR: np.zeros(self.tasks[stage].noise.shape, dtype=np.float32)}

    def guarantee(self) -> Guarantee:
        """Of each user, who is in one shop only: all promise the same, so it is what one does."""
        own = joint_guarantee(self.budget, protected=self.protected, delta=self.delta)
        return replace(
            own,
            against=(
                Adversary.PUBLIC,
                Adversary.SERVER_SEEING_UPDATES,
                Adversary.SERVER_SEEING_SUMS,
                Adversary.OTHER_CLIENTS,
            ),
            composition=f"{len(self.sizes)} shops in parallel, each: {own.composition}",
            assumptions=(
                *(text for text in own.assumptions if "against the server" not in text),
                "shops are disjoint: no user is in two of them",
                "each shop sees its own users' interactions",
            ),
        )

    def popularity(self, mean: Any, charge: str = "every shop") -> ItemPopularity:
        """That of all shops together, which each of them has paid for."""
        total = np.asarray(mean, np.float64) * len(self.sizes)
        return ItemPopularity(total, event=self.budget.popularity_noise.event(), charge=charge)

    def moments(self, results: Mapping[str, StageResult]) -> ItemMoments:
        """Of all shops; `Refused` where one is missing, because the budget counts on all."""
        charge = "; ".join(sorted(set(map(self._accounts, *zip(*results.items(), strict=True)))))
        popular = self.popularity(results[POPULARITY].arrays[_VECTOR], charge)
        gram = None
        if not self.budget.popularity_only:
            total = np.asarray(results[GRAM].arrays[_VECTOR], np.float64) * len(self.sizes)
            event = self.budget.gram_noise.event()
            gram = ItemGram(unfolded(total, self.budget.head), event=event, charge=charge)
        return ItemMoments(self.catalogue, self.budget, popular, gram, self.guarantee())

    def _accounts(self, stage: str, result: StageResult) -> str:
        """What was charged, shop by shop."""
        there = {row.client: row.account or "" for row in result.rows if row.outcome.counts}
        if missing := sorted(set(self.sizes) - set(there)):
            raise Refused(
                f"the sum of {stage!r} is without {missing}: agree anew without them; what was "
                "charged stays charged"
            )
        return "; ".join(f"{name}: {account}" for name, account in sorted(there.items()))


def shop_means(moments: ItemMoments) -> dict[str, Arrays]:
    """By stage, the arrays as the rounds left them, to the bit: what a server's log has digests of.

    Sums are a mean times the number of shops, which double precision holds exactly, or nearly so.
    """
    found = {POPULARITY: moments.popularity.values}
    if moments.gram is not None:
        found[GRAM] = folded(moments.gram.matrix)
    shops = moments.budget.parties
    return {stage: {_VECTOR: (each / shops).astype(np.float32)} for stage, each in found.items()}
