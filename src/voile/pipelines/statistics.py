"""Private statistics across parties: three sums of whole numbers, then a model for free.

Three stages of one round each: fine tables, centred moments, a calibration table
(`voile.release.statistics`). The second and the third depend on rows and on the sums before them.
What comes of it is one additive model, as of one table with all rows.

Noise is *local*, where each party adds all of it by itself: then single updates may be seen, and
noise in the sum grows with the number of parties. Or it is *shared*: parties add their parts of
one noise, and a secure sum shows the server nothing but the sum. Then the sum is as noisy as that
of one table, but for the parties that are assumed to collude or to fall out.

In the order of use: public `FederationFacts`; `plan_statistics`, which makes a `StatisticsPlan`;
`train_statistics`, which runs it over clients with tables; and what comes of it, a
`FederatedStatistics`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, Protected
from voile.core.randomness import GeneratorSource
from voile.federation.arrays import Arrays, Shapes
from voile.federation.messages import Instruction
from voile.federation.pipeline import run_pipeline, under
from voile.federation.rounds import Rounds, StageResult
from voile.federation.shared_noise import (
    of_whole_numbers,
    seen_by,
    shares_of,
    sharing_assumptions,
)
from voile.federation.stage import Stage
from voile.federation.task import FitResult, Unprotected
from voile.models.additive import AdditiveModel
from voile.pipelines.facts import FederationFacts
from voile.pipelines.promises import PromisedGuarantees, promise
from voile.pipelines.tables import TableRecords
from voile.privacy.accounting.conversion import check_target, zcdp_budget, zcdp_to_epsilon
from voile.privacy.events import Zcdp
from voile.privacy.mechanisms.discrete import DiscreteGaussian, GaussianBlocks
from voile.privacy.mechanisms.parameters import MARGIN
from voile.privacy.mechanisms.shares import LEAST_VARIANCE, SharedGaussian
from voile.release.statistics.budget import (
    CALIBRATION,
    MOMENTS,
    RELEASES,
    TABLES,
    MomentsNoise,
    StatisticsBudget,
)
from voile.release.statistics.private_statistics import PrivateStatistics, joint_guarantee
from voile.release.statistics.releases import (
    NO_TABLES,
    CalibrationTable,
    CentredMoments,
    FineTables,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
)
from voile.release.statistics.sums import LabelledRecords

STAGES: Final = RELEASES
NUMBERS: Final = "numbers"
SURVIVORS: Final = "survivors"
"""Each party adds 1 and its declared size, both public: so a sum says whose rows are in it."""
_TAIL: Final = 12.0
"""Deviations: noise lies beyond them once in 10^32, and then a sum is of no use."""

Release = PrivateFineTables | PrivateMoments | PrivateCalibrationTable
Whole = NDArray[np.int64]


# --- the plan -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StatisticsPlan:
    """Everything that is fixed before the first round; a `voile.federation.Pipeline`.

    Args:
        facts: what is public; everybody is asked in each round.
        budget: for all rows, with the noise that is expected if everybody survives.
        shares: how many honest parties' noise makes up the whole; 1 for local noise.
        delta: at which epsilon is stated.
    """

    facts: FederationFacts
    budget: StatisticsBudget
    shares: int
    delta: float

    @property
    def shared(self) -> bool:
        """Whether parties add their parts of one noise."""
        return self.shares > 1

    @cached_property
    def tasks(self) -> Mapping[str, StatisticsTask]:
        """What every client has to be set up with, by stage."""
        return {name: StatisticsTask(self, name) for name in self.rhos}

    @property
    def stages(self) -> tuple[Stage, ...]:
        everybody, protocol = len(self.facts.sizes), of_whole_numbers(self.facts.protocol)
        return tuple(
            Stage(name, task, 1, everybody, 1, protocol, task.largest)
            for name, task in self.tasks.items()
        )

    @property
    def protected(self) -> Protected:
        return self.facts.protected

    @property
    def participation_events(self) -> tuple[Zcdp, ...]:
        """One for each round: the whole cost of the sum, never a part of it."""
        return tuple(map(Zcdp, self.rhos.values()))

    @property
    def rhos(self) -> dict[str, float]:
        """Of each round."""
        return self.budget.rhos

    def start(self, stage: str) -> Arrays:
        return {n: np.zeros(s, dtype=np.int64) for n, s in self.tasks[stage].shapes.items()}

    def epsilon(self, delta: float, honest: int | None = None) -> float:
        """Of all three rounds, with the shares of so many honest parties in each sum."""
        more = self.shares / (self.shares if honest is None else honest)
        return zcdp_to_epsilon(more * math.fsum(self.rhos.values()), delta)

    def guarantee(self) -> Guarantee:
        """What can be promised about whatever is made from the three sums."""
        joint = joint_guarantee(self.budget, protected=self.protected, delta=self.delta)
        kept = joint.assumptions[:-1]  # but that whoever adds up the rows sees them
        secrecy, alone = self.facts.secrecy, self.epsilon(self.delta, honest=1)
        return replace(
            joint,
            epsilon=self.epsilon(self.delta),
            against=seen_by(self.shares, secrecy),
            computational=self.shared,
            mechanism=f"{joint.mechanism}, {'in shares' if self.shared else 'of each party'}",
            composition=f"{joint.composition}; parties are disjoint, and each is charged all of it",
            public_facts=(*joint.public_facts, "the declared number of rows of each party"),
            assumptions=(*kept, *secrecy, *sharing_assumptions(self.shares, alone, secrecy)),
        )

    @cached_property
    def largest_moments(self) -> list[tuple[float, tuple[int, ...]]]:
        """Deviation and shape of each block of moments, where all features keep the most bins."""
        columns = self.budget.target.columns
        most = self.budget.moments_noise(self.budget.most_bins, (1 / columns,) * columns)
        blocks = [each for each in (most.sums_blocks, most.products_blocks) if each is not None]
        return [pair for each in blocks for pair in zip(each.sigmas, each.shapes, strict=True)]

    # --- what the sums say, step by step --------------------------------------------------------

    def after(self, sums: Mapping[str, Arrays]) -> Sums:
        """What the stages so far have released, by the arrays of each."""
        return Sums(self, sums)


def plan_statistics(
    facts: FederationFacts, *, epsilon: float, delta: float, shared: bool | None = None
) -> StatisticsPlan:
    """The plan that spends one total on the three rounds.

    Args:
        facts: what is public.
        epsilon, delta: the total for each party's rows.
        shared: whether parties share the noise, for which sums have to be secret; as is best, if
            None.
    """
    parties = len(facts.sizes)
    shares = shares_of(facts.protocol, parties, shared)
    once = replace(facts, rounds=1, clients_per_round=None, participations=None)
    rho = zcdp_budget(epsilon, check_target(epsilon, delta, pure=False)) * (1 - MARGIN)
    budget = StatisticsBudget(
        schema=facts.schema,
        rows=sum(facts.sizes.values()),
        relation=facts.protected.relation,
        rho=rho,
        parties=parties / shares,
    )
    return StatisticsPlan(once, budget, shares, delta)


# --- what a party does ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StatisticsTask:
    """One of the three rounds, as a party runs it.

    Args:
        plan: what was agreed on.
        stage: which of the three.
    """

    plan: StatisticsPlan
    stage: str

    @property
    def shapes(self) -> Shapes:
        return {NUMBERS: (self.length,), SURVIVORS: (2,)}

    @cached_property
    def length(self) -> int:
        """Of the numbers. Moments are followed by zeros, up to what they can be at most."""
        budget = self.plan.budget
        if self.stage == TABLES:
            return math.prod(budget.tables_noise.shape)
        if self.stage == CALIBRATION:
            return math.prod(budget.calibration_noise.shape)
        return sum(math.prod(shape) for _, shape in self.plan.largest_moments)

    @cached_property
    def largest(self) -> float:
        """Value of one party's numbers, noise included: what sums are sized for. Public.

        A row adds at most √(2·rho)·sigma to a number with the deviation sigma: else that number
        alone would cost more than rho. No number has more than the largest deviation that any
        tables could lead to.
        """
        plan = self.plan
        rho, rows = plan.rhos[self.stage], max(plan.facts.sizes.values())
        deviation, factor = self._largest_deviation, _most_factor(rho, plan.shares)
        reach = math.sqrt(2 * rho) * rows + _TAIL / math.sqrt(plan.shares)
        return float(math.ceil(max(factor * deviation * reach, rows)))

    @property
    def _largest_deviation(self) -> float:
        budget = self.plan.budget
        if self.stage == TABLES:
            return budget.tables_noise.sigma
        if self.stage == CALIBRATION:
            return budget.calibration_noise.sigma
        # Other label rates divide the budget otherwise, and so do fewer bins, within the bounds of
        # the rule: no share of it gets below an eighth of the deviation by that.
        return 8 * max(sigma for sigma, _ in self.plan.largest_moments)

    def cost(self, size: int) -> Zcdp:  # noqa: ARG002
        """The whole cost of the sum, whatever a party's size is."""
        return Zcdp(self.plan.rhos[self.stage])

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        """A party's numbers with its noise; of one without rows, its noise."""
        plan = self.plan
        read = _labelled(records, plan)
        if len(read) > size:
            raise InvalidInput(f"{size} rows are declared, and there are {len(read)}")
        before = STAGES[: STAGES.index(self.stage)]
        given = {name: under(name, instruction.given) for name in before if name in plan.tasks}
        sums = plan.after(given)
        release = sums.release(self.stage, read)
        noisy = sums.noise(self.stage).randomise(release.exact(read.present), source)
        numbers = np.zeros(self.length, dtype=np.int64)
        flat = np.concatenate([block.ravel() for block in noisy])
        numbers[: len(flat)] = flat
        return FitResult(
            {NUMBERS: numbers, SURVIVORS: np.array([1, size], dtype=np.int64)}, self.cost(size)
        )

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:  # noqa: ARG002
        """Nothing before the model is there."""
        return {}


def _labelled(records: Any, plan: StatisticsPlan) -> LabelledRecords:
    if isinstance(records, TableRecords):
        labels = np.where(records.null, np.nan, records.labels)
        return LabelledRecords.read(records.rows, plan.facts.schema, labels)
    return LabelledRecords.read(records, plan.facts.schema)


def _most_factor(rho: float, shares: int) -> int:
    """At most, of `SharedGaussian.factor`: a number that some row moves by 1 has a deviation of at
    least 1/√(2·rho)."""
    return 1 if shares == 1 else math.ceil(math.sqrt(2 * rho * LEAST_VARIANCE * shares) * 1.01)


# --- what the sums say ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sums:
    """The released sums so far, as they read for all declared rows: post-processing.

    Every sum is scaled to the rows of all parties, if some fell out of its round, and so is its
    noise. Whatever the numbers are, nothing here raises: a server could send any.

    Args:
        plan: what was agreed on.
        arrays: of each stage that is over.
    """

    plan: StatisticsPlan
    arrays: Mapping[str, Arrays]

    def survivors(self, stage: str) -> tuple[int, int]:
        """How many parties are in a sum, and how many rows they have declared together."""
        parties, rows = self.arrays[stage][SURVIVORS].tolist()
        most = len(self.plan.facts.sizes)
        return min(max(parties, 1), most), min(max(rows, 1), self.plan.budget.rows)

    def weight(self, stage: str) -> float:
        """By which a sum is multiplied, as if everybody had survived."""
        return self.plan.budget.rows / self.survivors(stage)[1]

    @cached_property
    def budget(self) -> StatisticsBudget:
        """With the noise that is in the sums."""
        planned, shares = self.plan.budget.parties, self.plan.shares
        tables, moments, calibration = (
            max(self.survivors(name)[0] / shares * self.weight(name) ** 2, 1.0)
            if name in self.arrays
            else planned
            for name in STAGES
        )
        return replace(self.plan.budget, variances=(tables, moments, calibration))

    def noise(self, stage: str) -> SharedGaussian:
        """What each party adds in a round."""
        return noise_in_shares(self.release(stage, _nobody(self.plan)), self.plan.shares)

    def release(self, stage: str, records: Any) -> Release:
        """The release of one table, of which a party takes the exact numbers."""
        budget, protected = self.budget, self.plan.protected
        terms: dict[str, Any] = {"protected": protected, "delta": self.plan.delta}
        if stage == TABLES:
            return PrivateFineTables(records, budget, **terms)
        if stage == MOMENTS:
            return PrivateMoments(records, budget, **terms, tables=self.tables)
        known: dict[str, Any] = {"tables": self.tables, "moments": self.moments}
        return PrivateCalibrationTable(records, budget, **terms, **known)

    @cached_property
    def tables(self) -> FineTables:
        if TABLES not in self.plan.tasks:
            return NO_TABLES
        return FineTables(self._restored(TABLES), event=None)

    @cached_property
    def moments(self) -> CentredMoments:
        return CentredMoments(self._restored(MOMENTS), event=None)

    @cached_property
    def calibration(self) -> CalibrationTable:
        return CalibrationTable(self._restored(CALIBRATION), event=None)

    def _restored(self, stage: str) -> tuple[Whole, ...]:
        noise, most = self.noise(stage), int(self.plan.tasks[stage].largest)
        most *= len(self.plan.facts.sizes)
        flat = np.clip(self.arrays[stage][NUMBERS].astype(np.int64), -most, most)
        ends = np.cumsum([math.prod(shape) for shape in noise.shapes])
        parts = np.split(flat[: ends[-1]], ends[:-1])
        totals = [part.reshape(s) for part, s in zip(parts, noise.shapes, strict=True)]
        return noise.restored(totals, self.weight(stage))


def noise_in_shares(release: Release, shares: int) -> SharedGaussian:
    """The noise of a release, of which so many parties together give all."""
    parts = _blocks_of(release.noise, release.shapes)
    # Costs of blocks add up, and so do squares of what moves each of them.
    relative = math.sqrt(math.fsum(part.sensitivity.value**2 for part in parts))
    return SharedGaussian(
        sigmas=tuple(sigma for part in parts for sigma in part.sigmas),
        shapes=tuple(shape for part in parts for shape in part.shapes),
        sensitivity=replace(parts[0].sensitivity, value=relative),
        shares=shares,
    )


def _blocks_of(
    noise: DiscreteGaussian | MomentsNoise, shapes: Sequence[tuple[int, ...]]
) -> list[GaussianBlocks]:
    if isinstance(noise, MomentsNoise):
        both = noise.sums_blocks, noise.products_blocks
        return [each for each in both if each is not None]
    relative = noise.sensitivity.scaled(1 / noise.sigma)
    sigmas = (noise.sigma,) * len(shapes)
    return [GaussianBlocks(sigmas=sigmas, shapes=tuple(shapes), sensitivity=relative)]


def _nobody(plan: StatisticsPlan) -> LabelledRecords:
    empty = np.zeros((0, len(plan.facts.schema.features)))
    return LabelledRecords.read(empty, plan.facts.schema, labels=np.zeros(0))


# --- what comes of it -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FederatedStatistics:
    """What came of a federation: one additive model, whose explanations are free.

    Args:
        plan: what was agreed on.
        results: of the three stages, by name.
    """

    plan: StatisticsPlan
    results: Mapping[str, StageResult]

    def __post_init__(self) -> None:
        for name in self.plan.tasks:
            if not any(row.outcome.counts for row in self.results[name].rows):
                raise Refused(f"no sum came of {name!r}: too few parties were left")

    @cached_property
    def statistics(self) -> PrivateStatistics:
        """The three sums as they were released, for all declared rows."""
        sums = self.plan.after({name: found.arrays for name, found in self.results.items()})
        parts = sums.tables, sums.moments, sums.calibration
        return PrivateStatistics(sums.budget, *parts, self.plan.guarantee())

    @cached_property
    def model(self) -> AdditiveModel:
        """With standard errors, its background and what is promised."""
        return replace(self.statistics.model, guarantees=self.promise().guarantees)

    def promise(self) -> PromisedGuarantees:
        """Guarantees and notes of whatever is made from the model."""
        return promise(self.plan, self.results, *self.plan.tasks)

    def explain(self, rows: Any) -> Explanation:
        """Shapley values by closed formula, over the released background."""
        return self.promise().on(self.model.explain(rows))


def train_statistics(
    plan: StatisticsPlan, rounds: Rounds, *, unprotected: Unprotected | None = None
) -> FederatedStatistics:
    """Run a plan; see `voile.federation.run_pipeline`.

    Args:
        plan: from `plan_statistics`.
        rounds: over clients that were set up with `plan.tasks`; their records are tables,
            `TableRecords` or `LabelledRecords`.
        unprotected: rows that figures may be published about.
    """
    return FederatedStatistics(plan, run_pipeline(plan, rounds, unprotected=unprotected))
