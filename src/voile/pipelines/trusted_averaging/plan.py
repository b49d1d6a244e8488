"""Everything that is fixed before the first trusted round, and what comes of the last one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.guarantee import Guarantee, Protected
from voile.federation.arrays import Arrays
from voile.federation.pipeline import run_pipeline
from voile.federation.round_protocol import PlainRound, RoundProtocol
from voile.federation.rounds import Rounds, StageResult
from voile.federation.secure_sum import SecureSum
from voile.federation.stage import Stage
from voile.federation.task import FollowUp, Task, Unprotected
from voile.pipelines.facts import FederationFacts, classifier_training
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.objectives import LearnLabels
from voile.pipelines.promises import ExplainedForFree, PromisedGuarantees, dp_sgd_guarantee, promise
from voile.pipelines.tables import NetworkModel, OutputHead
from voile.pipelines.trusted_averaging.history import TrustHistory
from voile.pipelines.trusted_averaging.importance import OverOwnRows
from voile.pipelines.trusted_averaging.protocol import (
    LARGEST_SHARE,
    ComparisonRows,
    Total,
    TrustedRound,
)
from voile.pipelines.trusted_averaging.tasks import (
    DIVERGENCE,
    IMPORTANCE,
    STAGE,
    UPDATE,
    ContributeUpdate,
    GlobalModel,
    LocalTraining,
    ReportDivergence,
    ShareImportance,
)
from voile.pipelines.trusted_averaging.trust import TrustRule
from voile.pipelines.trusted_averaging.verified import VerifiedRound
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.calibration import dp_sgd_noise, gaussian_noise_multiplier
from voile.privacy.events import PrivacyEvent, Repeated
from voile.training import Softmax

REPORTED: Final = frozenset({STAGE, DIVERGENCE})
"""What a node answers in clear: accuracy and divergence."""
EXACT: Final = (
    "accuracy and divergence of each party are exact: whoever sees as many divergences of one "
    "importance vector as there are features, from common vectors of their choice, knows it"
)
"""What is said of trusted rounds without privacy."""
_OWN_SHARE: Final = 0.25
"""Of epsilon, for importance and accuracy over own rows."""


@dataclass(frozen=True, eq=False)
class TrustedPlan:
    """What all parties agree on; a `voile.federation.Pipeline`.

    Args:
        facts: what is public.
        training: how a client trains.
        noise_multiplier: of each step; None trains without privacy.
        delta: at which epsilon is stated.
        rule: trust and weights.
        own_rows: importance and accuracy over clients' own rows, charged; None: over public rows.
        public: the rows on which models are compared; the server's to choose, and to send.
        pot: what is shared out by trust in each round.
        verified: whether the server, which then sees single updates, measures accuracy and
            divergence itself instead of believing reports.
    """

    facts: FederationFacts
    training: Training
    noise_multiplier: float | None
    delta: float
    rule: TrustRule = field(default_factory=TrustRule)
    own_rows: OverOwnRows | None = None
    public: ComparisonRows | None = field(default=None, repr=False)
    pot: float = 1.0
    verified: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.output_head.head, Softmax):
            raise InvalidInput("trust is about right and wrong: the label must be a category")
        if self.own_rows is not None and self.noise_multiplier is None:
            raise InvalidInput("without privacy, importance is computed over public rows")
        if self.verified and (self.own_rows or isinstance(self.facts.protocol, SecureSum)):
            raise InvalidInput(
                "what a server measures itself it measures on single updates and public rows: "
                "neither in a secure sum nor over parties' own rows"
            )

    @property
    def summing(self) -> RoundProtocol:
        """How the two sums of a round are made: in secret, if the facts say so, else in clear."""
        agreed = self.facts.protocol
        if isinstance(agreed, SecureSum):
            return replace(agreed, aggregator=Total())
        return PlainRound(Total())

    @cached_property
    def output_head(self) -> OutputHead:
        return OutputHead.of_label(self.facts.schema)

    @cached_property
    def local(self) -> LocalTraining:
        objective, relation = LearnLabels(self.facts.schema), self.protected.relation
        network = NetworkTask(objective, self.training, self.noise_multiplier, relation)
        return LocalTraining(self.facts.schema, network, self.longest(network), self.own_rows)

    def longest(self, network: NetworkTask) -> float:
        """To which norm changes are clipped: half of how far all steps could go together.

        Each value moves by about the learning rate in a step of Adam; no honest training moves all
        of them one way all the time.
        """
        values = sum(math.prod(shape) for shape in network.shapes.values())
        return 0.5 * self.training.rate * self.training.steps * math.sqrt(values)

    @cached_property
    def tasks(self) -> dict[str, Task | FollowUp]:
        """What every client has to be set up with, by stage."""
        if self.verified:
            return {STAGE: self.local.network}
        features, parties = len(self.facts.schema.features), frozenset(self.facts.sizes)
        return {
            STAGE: self.local,
            IMPORTANCE: ShareImportance(features, self.rule, parties),
            DIVERGENCE: ReportDivergence(self.rule),
            UPDATE: ContributeUpdate(self.local.network.shapes, self.rule, parties),
        }

    @property
    def stages(self) -> tuple[Stage, ...]:
        schema, network = self.facts.schema, self.local.network
        protocol: RoundProtocol = TrustedRound(
            self.rule, len(schema.features), self.public, self.summing, self.pot
        )
        if self.verified:
            protocol = VerifiedRound(self.rule, schema, network, self.public, self.pot)
            return (replace(self.facts.stage(STAGE, network), protocol=protocol),)
        # No value of a clipped change, times a weight, is larger than its norm: the tighter this
        # is, the finer the integers of a secure sum, and the less a party can add to it.
        stage = self.facts.stage(STAGE, GlobalModel(self.local))
        return (replace(stage, protocol=protocol, largest_change=self.local.longest),)

    @property
    def summed_stages(self) -> dict[str, Stage]:
        """The two sums of a round as stages of their own, for nodes that add up in secret."""
        (stage,) = self.stages
        return {
            IMPORTANCE: replace(
                stage, name=IMPORTANCE, protocol=self.summing, largest_change=LARGEST_SHARE
            ),
            UPDATE: replace(stage, name=UPDATE, protocol=self.summing),
        }

    @property
    def protected(self) -> Protected:
        return self.facts.protected

    def start(self, stage: str) -> Arrays:
        """A linear model begins at zero; hidden layers need a start that tells them apart."""
        assert stage == STAGE
        return self.local.network.start(0)

    def comparing_on(self, public: ComparisonRows) -> TrustedPlan:
        """The same plan, with the rows on which the server has models compared."""
        return replace(self, public=public)

    # --- what it costs ------------------------------------------------------------------------

    @property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        """One for each participation that a client may be asked for; the same for every client."""
        event = self.local.cost(1)
        return () if event is None else (event,) * self.facts.cap

    def epsilon(self, delta: float) -> float:
        """Of all participations of one client."""
        if not self.participation_events:
            raise InvalidInput("trained without noise, so nothing bounds it")
        event, *_ = self.participation_events
        return PrivacyLoss().compose(Repeated(event, self.facts.cap)).epsilon(delta)

    def guarantee(self) -> Guarantee:
        """What can be promised about model, trust, weights and rewards together."""
        found = dp_sgd_guarantee(
            self.facts, (STAGE,), epsilon=self.epsilon(self.delta), delta=self.delta
        )
        if self.own_rows is None:
            return found
        return replace(
            found,
            mechanism=f"{found.mechanism}; Gaussian noise on importance and accuracy over own rows",
        )


def plan_trusted_averaging(
    facts: FederationFacts,
    *,
    epsilon: float | None,
    delta: float,
    hidden: tuple[int, ...] = (),
    training: Training | None = None,
    rule: TrustRule | None = None,
    over_own_rows: bool = False,
    verified: bool = False,
) -> TrustedPlan:
    """The plan that spends one total on all participations of a client together.

    Args:
        facts: what is public.
        epsilon, delta: the total for each client's rows; epsilon None trains without privacy.
        hidden: widths of hidden layers; none is a logistic regression.
        training: how a client trains, by the frozen rule if absent.
        rule: trust and weights.
        over_own_rows: spend a quarter of epsilon on importance and accuracy over own rows, instead
            of computing both over public rows for free.
        verified: see `TrustedPlan`.
    """
    chosen = classifier_training(facts, hidden=hidden) if training is None else training
    agreed = TrustRule() if rule is None else rule
    if epsilon is None:
        return TrustedPlan(facts, chosen, None, delta, agreed, verified=verified)
    own = None
    if over_own_rows:
        # Two Gaussian releases a participation share (epsilon/4, delta/2) and are one vector to
        # the accountant: each with √2 the noise of all of it.
        z = gaussian_noise_multiplier(_OWN_SHARE * epsilon, delta / 2) * math.sqrt(facts.cap)
        own = OverOwnRows(z * math.sqrt(2), z * math.sqrt(2))
    share, small = (1 - _OWN_SHARE, delta / 2) if over_own_rows else (1.0, delta)
    noise = dp_sgd_noise(
        [facts.noisy_stage(chosen)],
        epsilon=share * epsilon,
        delta=small,
        relation=facts.protected.relation,
    )
    return TrustedPlan(facts, chosen, noise, delta, agreed, own, verified=verified)


@dataclass(frozen=True, eq=False)
class TrustedModel(ExplainedForFree):
    """What came of a federation: a model, everybody's record, and free explanations.

    Args:
        plan: what was agreed on.
        results: of its one stage, by name.
    """

    plan: TrustedPlan
    results: Mapping[str, StageResult]

    @cached_property
    def model(self) -> NetworkModel:
        """From rows to the probabilities of the label's categories."""
        arrays = self.results[STAGE].arrays
        return NetworkModel.from_arrays(self.plan.facts.schema, self.plan.output_head, arrays)

    @cached_property
    def history(self) -> TrustHistory:
        """Trust, divergence, weights and rewards of all parties, round by round."""
        return TrustHistory.from_memory(self.results[STAGE].memory)

    @property
    def importance(self) -> Mapping[str, float]:
        """The common importance shares of the last round."""
        if not self.history.common:
            return {}
        names = self.plan.facts.schema.feature_names
        return dict(zip(names, self.history.common[-1].shares, strict=True))

    def promise(self) -> PromisedGuarantees:
        """Guarantees and notes of model, trust, weights and rewards."""
        found = promise(self.plan, self.results, STAGE)
        return found if found.guarantees else found._replace(notes=(*found.notes, EXACT))


def train_trusted(
    plan: TrustedPlan,
    rounds: Rounds,
    *,
    public: ComparisonRows | None = None,
    unprotected: Unprotected | None = None,
) -> TrustedModel:
    """Run a plan; see `voile.federation.run_pipeline`.

    Args:
        plan: from `plan_trusted_averaging`.
        rounds: over clients that were set up with `plan.tasks`.
        public: on which models are compared; those of the plan if absent.
        unprotected: `TableRecords` of held-out clients, which figures may be published about.
    """
    ready = plan if public is None else plan.comparing_on(public)
    if ready.public is None or len(ready.public.rows) < 2:
        raise InvalidInput("trust needs at least two public rows on which models are compared")
    if not np.isfinite(ready.public.rows).all():
        raise InvalidInput("public rows must be finite")
    return TrustedModel(ready, run_pipeline(ready, rounds, unprotected=unprotected))
