"""Logistic regression trained across clients with differential privacy, and its explanations.

One linear layer and a softmax over the categories of the label, trained by local DP-SGD in one
stage. With two categories this is the usual logistic regression: its coefficients are the
difference of the two rows of weights. There is no surrogate, and none is needed: interventional
Shapley values over public reference rows are post-processing of the private model.

In the order of use: public `FederationFacts`; `plan_logistic_regression`, which calibrates the
noise to one total and makes a `LogisticPlan`; `train_logistic_regression`, which runs it over
clients with `TableRecords`; and what comes of it, a `LogisticRegression`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from voile.core.errors import InvalidInput
from voile.core.guarantee import Guarantee, Protected
from voile.federation.arrays import Arrays
from voile.federation.pipeline import run_pipeline
from voile.federation.rounds import Rounds, StageResult
from voile.federation.stage import Stage
from voile.federation.task import Unprotected
from voile.pipelines.facts import FederationFacts, classifier_training
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.objectives import LearnLabels
from voile.pipelines.promises import ExplainedForFree, PromisedGuarantees, dp_sgd_guarantee, promise
from voile.pipelines.tables import NetworkModel, OutputHead
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.calibration import dp_sgd_noise
from voile.privacy.events import PrivacyEvent, Repeated
from voile.training import Softmax

STAGE: Final = "logistic regression"


@dataclass(frozen=True, eq=False)
class LogisticPlan:
    """Everything that is fixed before the first round; a `voile.federation.Pipeline`.

    Args:
        facts: what is public.
        training: how a client trains; without hidden layers.
        noise_multiplier: of each step; None trains without privacy.
        delta: at which epsilon is stated.
    """

    facts: FederationFacts
    training: Training
    noise_multiplier: float | None
    delta: float
    stage_name: ClassVar[str] = STAGE

    def __post_init__(self) -> None:
        if self.training.hidden:
            raise InvalidInput(
                f"a logistic regression has no hidden layers, found {self.training.hidden}; "
                "use Training(hidden=(), ...)"
            )
        if not isinstance(self.output_head.head, Softmax):
            raise InvalidInput(
                f"a logistic regression learns categories; the label of the schema "
                f"{self.facts.schema.name!r} is a number"
            )

    @cached_property
    def output_head(self) -> OutputHead:
        return OutputHead.of_label(self.facts.schema)

    @cached_property
    def task(self) -> NetworkTask:
        objective, relation = LearnLabels(self.facts.schema), self.protected.relation
        return NetworkTask(objective, self.training, self.noise_multiplier, relation)

    @property
    def tasks(self) -> Mapping[str, NetworkTask]:
        """What every client has to be set up with, by stage."""
        return {self.stage_name: self.task}

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.facts.stage(self.stage_name, self.task),)

    @property
    def protected(self) -> Protected:
        return self.facts.protected

    def start(self, stage: str) -> Arrays:
        """Zeros: the loss is convex, so there is no symmetry to break."""
        return {
            name: np.zeros(shape, dtype=np.float32)
            for name, shape in self.tasks[stage].shapes.items()
        }

    def twin(self) -> LogisticPlan:
        """The same plan without any noise, to see what privacy costs; for data nobody protects."""
        return replace(self, noise_multiplier=None)

    # --- what it costs ------------------------------------------------------------------------

    @property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        """One for each participation that a client may be asked for; the same for every client."""
        event = self.task.cost(1)
        return () if event is None else (event,) * self.facts.cap

    def epsilon(self, delta: float) -> float:
        """Of all participations of one client."""
        if not self.participation_events:
            raise InvalidInput("trained without noise, so nothing bounds it")
        event, *_ = self.participation_events
        return PrivacyLoss().compose(Repeated(event, self.facts.cap)).epsilon(delta)

    def guarantee(self) -> Guarantee:
        """What can be promised about whatever is made from the trained model."""
        epsilon = self.epsilon(self.delta)
        stages = (self.stage_name,)
        return dp_sgd_guarantee(self.facts, stages, epsilon=epsilon, delta=self.delta)


def plan_logistic_regression(
    facts: FederationFacts,
    *,
    epsilon: float,
    delta: float,
    training: Training | None = None,
    kind: type[LogisticPlan] = LogisticPlan,
) -> LogisticPlan:
    """The plan that spends one total on all participations of a client together.

    Args:
        facts: what is public.
        epsilon, delta: the total for each client's rows.
        training: how a client trains; `classifier_training` without hidden layers if absent.
        kind: of plan, for one layer over something else than a table's columns.
    """
    chosen = classifier_training(facts, hidden=()) if training is None else training
    noise = dp_sgd_noise(
        [facts.noisy_stage(chosen)],
        epsilon=epsilon,
        delta=delta,
        relation=facts.protected.relation,
    )
    return kind(facts, chosen, noise, delta)


@dataclass(frozen=True, eq=False)
class LogisticRegression(ExplainedForFree):
    """What came of a federation, and the explanations that follow from it for free.

    Args:
        plan: what was agreed on.
        results: of its one stage, by name.
    """

    plan: LogisticPlan
    results: Mapping[str, StageResult]

    @cached_property
    def model(self) -> NetworkModel:
        """From rows to the probabilities of the label's categories."""
        arrays = self.results[STAGE].arrays
        return NetworkModel.from_arrays(self.plan.facts.schema, self.plan.output_head, arrays)

    def promise(self) -> PromisedGuarantees:
        """Guarantees and notes of whatever is made from the model."""
        return promise(self.plan, self.results, STAGE)


def train_logistic_regression(
    plan: LogisticPlan, rounds: Rounds, *, unprotected: Unprotected | None = None
) -> LogisticRegression:
    """Run a plan; see `voile.federation.run_pipeline`.

    Args:
        plan: from `plan_logistic_regression`.
        rounds: over clients that were set up with `plan.tasks`.
        unprotected: `TableRecords` of held-out clients, which figures may be published about.
    """
    return LogisticRegression(plan, run_pipeline(plan, rounds, unprotected=unprotected))
