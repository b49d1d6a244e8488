"""Moments of several shops' users, added up: two rounds, the same model.

Every shop charges its own account before anything leaves. A first sum gives popularity, from which
the head follows; a second one the Gram matrix on that head.

Noise is *local*, where every shop draws its own releases from its own users: then single answers
are private as well, and noise in the sum is √shops times that of one. With one user a shop, that is
local differential privacy, and little is left (docs/recommend.md). Or it is *shared*, in a secure
sum: each shop adds its part to whole numbers (`voile.recommenders.shared_moments`), and the sum is
nearly as noisy as that of one shop with all users.
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
from voile.federation.shared_noise import of_whole_numbers, seen_by, sharing_assumptions
from voile.federation.stored_text import stored_as
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism
from voile.recommenders.budget import MomentsBudget, epsilon_of
from voile.recommenders.moments import (
    ItemGram,
    ItemMoments,
    ItemPopularity,
    PrivateGram,
    PrivatePopularity,
    folded,
    joint_guarantee,
    unfolded,
)
from voile.recommenders.shared_moments import (
    ShareGram,
    SharePopularity,
    gram_of,
    popularity_of,
    steps_of,
)
from voile.recommenders.shop import Catalogue, Interactions

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
        budget: what each shop may tell about each of its users; its `parties` are the shops, and
            its `shares` those that are honest and in every sum, where they share the noise.
        delta: at which epsilon is stated.
        protocol: a plain round or a secure sum; shops count alike in it.
    """

    catalogue: Catalogue
    sizes: Mapping[str, int]
    protected: Protected
    budget: MomentsBudget
    delta: float
    protocol: RoundProtocol = field(default_factory=PlainRound)
    local_tasks: ClassVar = ((POPULARITY, ReleasePopularity), (GRAM, ReleaseGram))
    shared_tasks: ClassVar = ((POPULARITY, SharePopularity), (GRAM, ShareGram))

    def __post_init__(self) -> None:
        users, shops = sum(self.sizes.values()), len(self.sizes)
        if (self.budget.users, self.budget.parties) != (users, shops):
            raise InvalidInput(
                f"the budget is for {self.budget.users} users of {self.budget.parties} shops, "
                f"found {users} of {shops}"
            )
        if self.shared and not isinstance(self.protocol, SecureSum):
            raise Refused("shops share noise in a secure sum only; use a budget of one share")

    @property
    def shared(self) -> bool:
        """Whether shops add their parts of one noise."""
        return self.budget.shares > 1

    @property
    def shares(self) -> int:
        return self.budget.shares

    @property
    def secrecy(self) -> tuple[str, ...]:
        """What it rests on that nobody sees a single shop's numbers."""
        protocol = self.protocol
        if not isinstance(protocol, SecureSum):
            return ()
        return protocol.model.assumptions(len(self.sizes))

    @cached_property
    def tasks(self) -> Mapping[str, ReleasePopularity | SharePopularity]:
        count = len(self.budget.noises)
        kinds = self.shared_tasks if self.shared else self.local_tasks
        return {stage: kind(self) for stage, kind in kinds[:count]}

    @property
    def stages(self) -> tuple[Stage, ...]:
        shops, alike = len(self.sizes), self._alike
        return tuple(
            Stage(name, task, 1, shops, 1, alike, task.bound) for name, task in self.tasks.items()
        )

    @property
    def _alike(self) -> RoundProtocol:
        """The exchange, in which all shops count alike."""
        if self.shared:
            return of_whole_numbers(self.protocol)
        assert isinstance(self.protocol, PlainRound | SecureSum)
        return replace(self.protocol, aggregator=ShopMean())

    @property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        return tuple(task.cost(1) for task in self.tasks.values())

    def start(self, stage: str) -> Arrays:
        kind: Any = np.int64 if self.shared else np.float32
        return {name: np.zeros(s, dtype=kind) for name, s in self.tasks[stage].shapes.items()}

    def guarantee(self) -> Guarantee:
        """Of each user, who is in one shop only: all promise the same, so it is what one does."""
        own = joint_guarantee(self.budget, protected=self.protected, delta=self.delta)
        if self.shared:
            return self._of_sums(own)
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

    def _of_sums(self, own: Guarantee) -> Guarantee:
        """Of sums; a single shop's numbers, which nobody sees, have a share of the noise."""
        alone = epsilon_of(self.budget, self.delta, honest=1)
        return replace(
            own,
            against=seen_by(self.shares, self.secrecy),
            composition=f"{own.composition}; shops are disjoint, and each is charged all of it",
            public_facts=(*own.public_facts, "the declared number of users of each shop"),
            assumptions=(
                *(text for text in own.assumptions if "against the server" not in text),
                "shops are disjoint: no user is in two of them",
                "each shop sees its own users' interactions",
                *self.secrecy,
                *sharing_assumptions(self.shares, alone, self.secrecy),
            ),
        )

    def popularity(self, answer: Any, charge: str = "every shop") -> ItemPopularity:
        """That of all shops together, which each of them has paid for.

        Args:
            answer: of the first stage: a mean of shops, or steps of the grid where noise is shared.
            charge: what paid for it.
        """
        if self.shared:
            total = popularity_of(answer, self.budget)
        else:
            total = np.asarray(answer, np.float64) * len(self.sizes)
        return ItemPopularity(total, event=self.budget.events[0], charge=charge)

    def moments(self, results: Mapping[str, StageResult]) -> ItemMoments:
        """Of all shops; where noise is shared, of those that are in the sums.

        `Refused` where one is missing from sums with local noise, whose budget counts on all, or
        where no sum came.
        """
        charge = "; ".join(sorted(set(map(self._accounts, *zip(*results.items(), strict=True)))))
        (name,) = self.tasks[POPULARITY].shapes
        popular = self.popularity(results[POPULARITY].arrays[name], charge)
        gram = None
        if not self.budget.popularity_only:
            matrix = self._gram(results[GRAM].arrays[name])
            gram = ItemGram(matrix, event=self.budget.events[1], charge=charge)
        return ItemMoments(self.catalogue, self.budget, popular, gram, self.guarantee())

    def _gram(self, answer: Any) -> NDArray[np.float64]:
        if self.shared:
            return gram_of(answer, self.budget)
        return unfolded(np.asarray(answer, np.float64) * len(self.sizes), self.budget.head)

    def _accounts(self, stage: str, result: StageResult) -> str:
        """What was charged, shop by shop."""
        there = {row.client: row.account or "" for row in result.rows if row.outcome.counts}
        if not there:
            raise Refused(f"no sum came of {stage!r}: too few shops were left")
        missing = sorted(set(self.sizes) - set(there))
        if missing and not self.shared:
            raise Refused(
                f"the sum of {stage!r} is without {missing}: agree anew without them; what was "
                "charged stays charged"
            )
        return "; ".join(f"{name}: {account}" for name, account in sorted(there.items()))


def arrays_of_rounds(moments: ItemMoments) -> dict[str, Arrays]:
    """By stage, the arrays as the rounds left them, to the bit: what a server's log has digests of.

    Sums are a mean times the number of shops, which double precision holds exactly, or nearly so;
    with noise in shares they are whole steps of a grid.
    """
    matrix = None if moments.gram is None else moments.gram.matrix
    if moments.budget.shares > 1:
        steps = steps_of(moments.popularity.values, matrix, moments.budget)
        return dict(zip((POPULARITY, GRAM), steps, strict=False))
    found = {POPULARITY: moments.popularity.values}
    if matrix is not None:
        found[GRAM] = folded(matrix)
    shops = moments.budget.parties
    return {stage: {_VECTOR: (each / shops).astype(np.float32)} for stage, each in found.items()}
