"""FedSVA done soundly: noise where private attributes contribute, at levels that are public.

Clients train a network by difference clipping (`voile.training.private.attributes`): what declared
columns of a row change is clipped and gets noise, all else is public. Each client has a level of
its own, one epsilon for all of its participations, declared before the first round; updates are
averaged by size/z², so that the noise of a strict client does not drown the others.

A declared group of rows with a level of its own is a party of its own: rows of two groups are
disjoint, so each has the guarantee of its level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np

from voile.attribution.fastshap.encoding import Encoding
from voile.core.errors import InvalidInput
from voile.core.guarantee import Guarantee, Protected, ProtectedUnit, Relation
from voile.core.one_thread import one_thread
from voile.core.randomness import GeneratorSource
from voile.core.schema import Schema
from voile.federation.aggregators import LevelAvg
from voile.federation.arrays import Arrays, Shapes, shapes_of
from voile.federation.messages import Instruction
from voile.federation.round_protocol import PlainRound
from voile.federation.rounds import StageResult
from voile.federation.secure_sum import SecureSum
from voile.federation.stage import Stage
from voile.federation.task import FitResult, Unprotected
from voile.pipelines.facts import FederationFacts, classifier_training
from voile.pipelines.network_task import Training
from voile.pipelines.objectives import LearnLabels, start_of
from voile.pipelines.promises import PromisedGuarantees, dp_sgd_guarantee, promise
from voile.pipelines.shapley_guided_noise.contribution import (
    NOT_COVERED,
    AttributeGroups,
    free_rate,
)
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.calibration import dp_sgd_noise
from voile.privacy.events import PrivacyEvent, Repeated
from voile.training import Array, Softmax, TargetLoss, arrays_of, with_arrays
from voile.training.private import (
    AttributeSteps,
    PrivateColumns,
    PrivateSteps,
    fit_attributes_privately,
)

STAGE: Final = "guided training"


@dataclass(frozen=True)
class GuidedFacts(FederationFacts):
    """Everything that is public; what is protected are declared columns of a row.

    Args:
        levels: epsilon of clients that have declared another one than the plan's, by name.
    """

    levels: Mapping[str, float] = field(default_factory=dict)

    clipped_unit: ClassVar = ProtectedUnit.COLUMNS

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = set(self.protected.columns) - set(self.schema.feature_names)
        if unknown or len(self.protected.columns) == len(self.schema.feature_names):
            raise InvalidInput(
                f"declared columns must be some of the features of {self.schema.name!r}, and not "
                f"all; found {list(self.protected.columns)}"
            )
        if nobody := set(self.levels) - set(self.sizes):
            raise InvalidInput(f"levels are declared by clients; there is no {sorted(nobody)}")


@dataclass(frozen=True, eq=False)
class GuidedTask:
    """Train a network on a client's records, with privacy for declared columns.

    A record is never null here: what its private columns say must not decide about its public part.

    Args:
        schema: what rows look like.
        private: names of the declared columns.
        training: how; `clipping_norm` is that of the differences.
        noise_multiplier: of each step.
        relation: how neighbouring data sets differ.
    """

    schema: Schema
    private: tuple[str, ...]
    training: Training
    noise_multiplier: float
    relation: Relation = Relation.BLANK_ONE

    @property
    def objective(self) -> LearnLabels:
        return LearnLabels(self.schema)

    @cached_property
    def shapes(self) -> Shapes:
        return shapes_of(self.start(0))

    def start(self, seed: int) -> dict[str, Any]:
        """The arrays before the first round; public."""
        return arrays_of(start_of(self.objective, self.training.hidden, seed))

    @cached_property
    def columns(self) -> PrivateColumns:
        encoding = Encoding.around_defaults(self.schema)
        mine = [name in self.private for name in self.schema.feature_names]
        blank = encoding.columns(self.schema.null_row[np.newaxis])[0]
        return PrivateColumns(np.array(mine)[encoding.feature], blank)

    def steps(self, size: int) -> AttributeSteps:
        """What is promised about one participation of a client of this declared size."""
        return AttributeSteps(
            difference=PrivateSteps(
                clipping_norm=self.training.clipping_norm,
                noise_multiplier=self.noise_multiplier,
                sampling_rate=self.training.sampling_rate,
                steps=self.training.steps,
                rows=size,
                relation=self.relation,
            )
        )

    def cost(self, size: int) -> PrivacyEvent:
        return self.steps(size).event()

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        network = with_arrays(instruction.arrays)
        with one_thread():
            run = fit_attributes_privately(
                network,
                (self.inputs(records), records.targets),
                TargetLoss(self.objective.output_head.head),
                self.columns,
                self.steps(size),
                optimiser=self.training.optimiser(instruction.round),
                source=source,
            )
        after = arrays_of(network)
        change = {name: after[name] - array for name, array in instruction.arrays.items()}
        return FitResult(change, run.event)

    def inputs(self, records: TableRecords) -> Array:
        """Encoded rows, null records too, with defaults for what cannot be read."""
        return Encoding.around_defaults(self.schema).columns(records.rows)

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:
        records = rows.records
        if not isinstance(records, TableRecords):
            raise InvalidInput(f"expected TableRecords to look at, found {type(records).__name__}")
        with one_thread():
            return self.objective.evaluate(with_arrays(arrays), given, records.readable())


@dataclass(frozen=True, eq=False)
class GuidedPlan:
    """Everything that is fixed before the first round; a `voile.federation.Pipeline`.

    Args:
        facts: what is public.
        training: how a client trains.
        noise: the noise multiplier of each client, from the level it has declared.
        delta: at which epsilon is stated.
    """

    facts: GuidedFacts
    training: Training
    noise: Mapping[str, float]
    delta: float

    def __post_init__(self) -> None:
        if set(self.noise) != set(self.facts.sizes):
            raise InvalidInput("every client has a declared level")
        if not isinstance(LearnLabels(self.facts.schema).output_head.head, Softmax):
            raise InvalidInput(f"the label of {self.facts.schema.name!r} must be a category")

    @cached_property
    def tasks_by_client(self) -> Mapping[str, GuidedTask]:
        private, relation = self.protected.columns, self.protected.relation
        return {
            name: GuidedTask(self.facts.schema, private, self.training, noise, relation)
            for name, noise in self.noise.items()
        }

    @cached_property
    def weakest(self) -> str:
        """A client with the least noise."""
        return min(self.noise, key=lambda name: (self.noise[name], name))

    @property
    def tasks(self) -> Mapping[str, GuidedTask]:
        """Those of the weakest level; each client is set up with `tasks_of`."""
        return {STAGE: self.tasks_by_client[self.weakest]}

    def tasks_of(self, client: str) -> Mapping[str, GuidedTask]:
        """What one client has to be set up with, by stage."""
        return {STAGE: self.tasks_by_client[client]}

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        protocol = self.facts.protocol
        if not isinstance(protocol, PlainRound | SecureSum):
            raise InvalidInput(f"levels need a round that adds up updates, found {protocol!r}")
        protocol = replace(protocol, aggregator=LevelAvg(tuple(self.noise.items())))
        stage = self.facts.stage(STAGE, self.tasks[STAGE])
        return (replace(stage, protocol=protocol, personal=self.tasks_by_client),)

    @property
    def protected(self) -> Protected:
        return self.facts.protected

    def start(self, stage: str) -> Arrays:
        """Of a linear model zeros, as of its last layer."""
        return self.tasks[stage].start(0)

    # --- what it costs ------------------------------------------------------------------------

    def events_of(self, client: str) -> tuple[PrivacyEvent, ...]:
        """One for each participation that this client may be asked for: its account."""
        return (self.tasks_by_client[client].cost(1),) * self.facts.cap

    @property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        """Those of the weakest level."""
        return self.events_of(self.weakest)

    def epsilon_of(self, client: str, delta: float) -> float:
        """Of all participations of one client."""
        event, *_ = self.events_of(client)
        return PrivacyLoss().compose(Repeated(event, self.facts.cap)).epsilon(delta)

    def epsilon(self, delta: float) -> float:
        """Of the weakest level, which holds for everybody."""
        return self.epsilon_of(self.weakest, delta)

    def guarantee(self) -> Guarantee:
        """What can be promised to every row: the weakest level. See `guarantee_of`."""
        return self._stated(self.epsilon(self.delta), ())

    def guarantee_of(self, client: str) -> Guarantee:
        """What can be promised to the rows of one client: the level that it has declared."""
        epsilon = self.epsilon_of(client, self.delta)
        return self._stated(epsilon, (f"which rows are those of {client!r}",))

    def _stated(self, epsilon: float, facts: tuple[str, ...]) -> Guarantee:
        found = dp_sgd_guarantee(
            self.facts, (STAGE,), epsilon=epsilon, delta=self.delta, assumptions=(NOT_COVERED,)
        )
        return replace(
            found,
            mechanism=(
                "DP-SGD by difference clipping with independent Poisson samples for public and "
                f"private part at each client ({STAGE})"
            ),
            composition=(
                "privacy-loss distributions of all steps of all participations; clients are "
                "disjoint, so the weakest level counts for a row of unknown client"
            ),
            public_facts=(*found.public_facts, "the level of each client", *facts),
        )


def plan_guided_noise(
    facts: GuidedFacts,
    *,
    epsilon: float,
    delta: float,
    hidden: tuple[int, ...] = (),
    training: Training | None = None,
) -> GuidedPlan:
    """The plan that spends each client's level on all of its participations together.

    Args:
        facts: what is public.
        epsilon, delta: the total for the declared columns of each row, where a client has declared
            no level of its own.
        hidden: widths of hidden layers; none is a logistic regression.
        training: how a client trains, by the frozen rule if absent.
    """
    chosen = classifier_training(facts, hidden=hidden) if training is None else training
    noise = {
        name: dp_sgd_noise(
            [facts.noisy_stage(chosen)],
            epsilon=facts.levels.get(name, epsilon),
            delta=delta,
            relation=facts.protected.relation,
        )
        for name in facts.sizes
    }
    return GuidedPlan(facts, chosen, noise, delta)


@dataclass(frozen=True, eq=False)
class GuidedModel:
    """What came of a federation.

    Args:
        plan: what was agreed on.
        results: of its one stage, by name.
    """

    plan: GuidedPlan
    results: Mapping[str, StageResult] = field(repr=False)

    @cached_property
    def model(self) -> NetworkModel:
        """From rows to the probabilities of the label's categories."""
        head = LearnLabels(self.plan.facts.schema).output_head
        return NetworkModel.from_arrays(self.plan.facts.schema, head, self.results[STAGE].arrays)

    def promise(self) -> PromisedGuarantees:
        """Guarantees and notes of whatever is made from the model."""
        return promise(self.plan, self.results, STAGE)

    def contribution_rate(self, reference: TableRecords) -> float:
        """R of the declared columns, over rows that nobody protects: free."""
        groups = AttributeGroups.two(self.plan.facts.schema, self.plan.protected.columns)
        return free_rate(self.model, reference.readable(), groups)
