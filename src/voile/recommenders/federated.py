"""Moments of several shops' users, added up by a secure sum: two uploads, the same model.

Every shop draws its own releases from its own users, with the whole noise of its own, and charges
its own account before anything leaves. A first secure sum gives popularity, from which the head
follows; a second one the Gram matrix on that head. Whoever adds up sees sums alone, and single
uploads would be private as well. Noise in the sum is √shops times that of one: with one user a
shop, that is local differential privacy, and little is left (docs/recommend.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary, Guarantee, Protected
from voile.core.randomness import GeneratorSource
from voile.federation import (
    Client,
    FitResult,
    Instruction,
    Node,
    NoGuard,
    PlainRound,
    RoundProtocol,
    Rounds,
    SecureSum,
    Stage,
    StageResult,
)
from voile.federation.aggregators import FedAvg
from voile.federation.arrays import Arrays, Shapes
from voile.federation.node import SecureMember
from voile.federation.pipeline import under
from voile.federation.secure_aggregation import AttemptStore, Signer
from voile.federation.stored_text import stored_as
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism
from voile.recommenders.budget import MomentsBudget
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
from voile.recommenders.shop import Catalogue, Interactions

_VECTOR: Final = "moments"
_TAIL: Final = 40.0
"""Standard deviations of noise that an upload is not expected to leave."""


@dataclass(frozen=True)
class _Upload:
    """Hands over what was drawn and charged before: this costs nothing more."""

    size: int

    @property
    def shapes(self) -> Shapes:
        return {_VECTOR: (self.size,)}

    def cost(self, size: int) -> None:
        """Nothing: moments are charged when they are drawn."""

    def fit(self, instruction: Instruction, records: Any, size: int, source: Any) -> FitResult:  # noqa: ARG002
        return FitResult({_VECTOR: np.asarray(records, dtype=np.float32)}, None)

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Any) -> Mapping[str, float]:  # noqa: ARG002
        return {}


@dataclass(frozen=True)
class SecretUpload:
    """What shops and server agree on before they add up one vector of each. All of it is public.

    Args:
        protocol: a secure sum over the shops; each declares the size 1, so that all count alike.
        what: popularity or Gram matrix; the stage.
        size: of the vectors.
        bound: values are clamped to this size, noise included, so that no sum wraps around.
        agreement: digest of what was agreed on; names this sum and no other.
    """

    protocol: SecureSum
    _: KW_ONLY
    what: str
    size: int
    bound: float
    agreement: str

    def __post_init__(self) -> None:
        if set(self.protocol.sizes.values()) != {1}:
            raise InvalidInput("shops add up their users: each declares the size 1")

    @property
    def stage(self) -> Stage:
        shops = len(self.protocol.sizes)
        return Stage(self.what, _Upload(self.size), 1, shops, 1, self.protocol, self.bound)

    def node(
        self, name: str, vector: NDArray[np.float64], sign: Signer, store: AttemptStore
    ) -> Node:
        """The node of a shop, which never sends its vector by itself.

        Args:
            vector: of a release that was charged to the shop's own account.
            sign: with its identity key.
            store: what it remembers of attempts; durable.
        """
        if vector.shape != (self.size,):
            raise InvalidInput(f"expected a vector of {self.size} values, found {vector.shape}")
        stage = self.stage
        inside = np.clip(vector, -self.bound, self.bound)
        client = Client(
            name, 1, inside, {self.what: stage.task}, NoGuard(), agreement=self.agreement
        )
        return Node(client, secure=SecureMember({self.what: stage}, sign, store))

    def total(self, rounds: Rounds) -> NDArray[np.float64]:
        """Run the one round; `Refused` unless every shop is in the sum.

        The budget of the moments counts on all of them: with fewer shops, agree anew.
        """
        zeros = {_VECTOR: np.zeros(self.size, dtype=np.float32)}
        found = rounds.run(self.stage, zeros)
        shops = [row.client for row in found.rows if row.outcome.counts]
        if len(shops) < len(self.protocol.sizes):
            missing = sorted(set(self.protocol.sizes) - set(shops))
            raise Refused(
                f"a sum without {missing}: agree anew without them; what was charged stays charged"
            )
        return found.arrays[_VECTOR].astype(np.float64) * len(shops)


def popularity_upload(
    protocol: SecureSum, budget: MomentsBudget, *, agreement: str
) -> SecretUpload:
    """The first sum."""
    bound = budget.users + _TAIL * budget.popularity_noise.sigma
    return SecretUpload(
        protocol, what="popularity", size=budget.items, bound=bound, agreement=agreement
    )


def gram_upload(protocol: SecureSum, budget: MomentsBudget, *, agreement: str) -> SecretUpload:
    """The second sum, of folded matrices."""
    bound = budget.users + _TAIL * budget.gram_noise.sigma
    (size,) = budget.gram_noise.shape
    return SecretUpload(protocol, what="Gram matrix", size=size, bound=bound, agreement=agreement)


def folded_gram(made: ItemGram) -> NDArray[np.float64]:
    """What a shop uploads of its Gram matrix."""
    return folded(made.matrix)


@dataclass(frozen=True, kw_only=True)
class ShopStatement:
    """What a shop says in public about what it uploaded.

    Args:
        guarantee: of both its releases together (`joint_guarantee`).
        charges: the names of its charges in its own ledger.
    """

    guarantee: Guarantee
    charges: tuple[str, ...]


def joined_popularity(
    total: NDArray[np.float64], budget: MomentsBudget, shops: Mapping[str, ShopStatement]
) -> ItemPopularity:
    """The sum of all shops' popularity, each part of which was paid for by its shop."""
    charge = "; ".join(f"{name}: {each.charges[0]}" for name, each in sorted(shops.items()))
    return ItemPopularity(total, event=budget.popularity_noise.event(), charge=charge)


def joined_moments(
    catalogue: Catalogue,
    budget: MomentsBudget,
    popularity: ItemPopularity,
    gram: NDArray[np.float64],
    shops: Mapping[str, ShopStatement],
) -> ItemMoments:
    """The moments of all shops together.

    Args:
        gram: the sum of their folded matrices.
        shops: what each of them states; what is promised is the weakest of it.
    """
    if len(shops) != budget.parties:
        raise InvalidInput(f"the budget is for {budget.parties} shops, found {len(shops)}")
    charge = "; ".join(f"{name}: {each.charges[1]}" for name, each in sorted(shops.items()))
    matrix = ItemGram(unfolded(gram, budget.head), event=budget.gram_noise.event(), charge=charge)
    return ItemMoments(catalogue, budget, popularity, matrix, joined_promise(shops))


def joined_promise(shops: Mapping[str, ShopStatement]) -> Guarantee:
    """Of a user in one shop only: what that shop promised, so the weakest of all."""
    own = [each.guarantee for each in shops.values()]
    if len({each.protected for each in own}) != 1:
        raise Refused("the shops protect different units, relations or data sets")
    first = own[0]
    return replace(
        first,
        epsilon=max(each.epsilon for each in own),
        delta=max(each.delta for each in own),
        against=(
            Adversary.PUBLIC,
            Adversary.SERVER_SEEING_UPDATES,
            Adversary.SERVER_SEEING_SUMS,
            Adversary.OTHER_CLIENTS,
        ),
        composition=f"{len(own)} shops in parallel, each: {first.composition}",
        assumptions=(
            *(text for text in first.assumptions if "against the server" not in text),
            "shops are disjoint: no user is in two of them",
            "each shop sees its own users' interactions",
        ),
    )


# --- the same as a pipeline: every shop charges its account before an answer leaves ---------------

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
        return folded_gram(PrivateGram(records, plan.budget, **terms, chosen=chosen).draw())


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
        """Of each user of one shop, for both releases together."""
        return joined_promise(self._statements({}))

    def popularity(self, mean: NDArray[np.float32]) -> ItemPopularity:
        """That of all shops together, which each of them has paid for."""
        return joined_popularity(self._sum(mean), self.budget, self._statements({}))

    def moments(self, results: Mapping[str, StageResult]) -> ItemMoments:
        """Of all shops; `Refused` where one is missing, because the budget counts on all."""
        accounts: dict[str, str] = {}
        for stage, result in results.items():
            there = {row.client: str(row.account) for row in result.rows if row.outcome.counts}
            if missing := sorted(set(self.sizes) - set(there)):
                raise Refused(
                    f"the sum of {stage!r} is without {missing}: agree anew without them; what was "
                    "charged stays charged"
                )
            accounts |= there
        shops = self._statements(accounts)
        total = self._sum(results[POPULARITY].arrays[_VECTOR])
        popular = joined_popularity(total, self.budget, shops)
        if self.budget.popularity_only:
            return ItemMoments(self.catalogue, self.budget, popular, None, joined_promise(shops))
        gram = self._sum(results[GRAM].arrays[_VECTOR])
        return joined_moments(self.catalogue, self.budget, popular, gram, shops)

    def _sum(self, mean: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.asarray(mean, np.float64) * len(self.sizes)

    def _statements(self, accounts: Mapping[str, str]) -> dict[str, ShopStatement]:
        own = joint_guarantee(self.budget, protected=self.protected, delta=self.delta)
        return {
            name: ShopStatement(guarantee=own, charges=(accounts.get(name, name),) * 2)
            for name in self.sizes
        }


def shop_means(moments: ItemMoments) -> dict[str, Arrays]:
    """By stage, the arrays as the rounds left them, to the bit: what a server's log has digests of.

    Sums are a mean times the number of shops, which double precision holds exactly, or nearly so.
    """
    found = {POPULARITY: moments.popularity.values}
    if moments.gram is not None:
        found[GRAM] = folded_gram(moments.gram)
    shops = moments.budget.parties
    return {stage: {_VECTOR: (each / shops).astype(np.float32)} for stage, each in found.items()}
