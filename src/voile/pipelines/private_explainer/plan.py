"""Plans for the three stages of FastSHAP++: how much noise, from public facts alone.

Two ways to say what may be spent:

- `split_total`: one total (epsilon, delta) for everything. Black box and surrogate are calibrated
  together, by composing the privacy-loss distributions of the very steps that will be charged; the
  explanations follow from the private surrogate and cost nothing.
- `separate_budgets`: a budget for each stage, as published. The published total is the sum; the
  joint figure of the same noise is smaller, and both are stated with their deltas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from voile.attribution.players import Groups
from voile.core.errors import InvalidInput
from voile.core.guarantee import Guarantee, Protected, Relation
from voile.federation.arrays import Arrays
from voile.federation.stage import Stage
from voile.models import Model
from voile.pipelines.facts import FederationFacts, classifier_training
from voile.pipelines.network_task import NetworkTask, Training
from voile.pipelines.objectives import (
    BLACK_BOX,
    EXPLAINER,
    SURROGATE,
    Imitate,
    LearnLabels,
    LearnShapley,
    TrainingObjective,
)
from voile.pipelines.promises import dp_sgd_guarantee
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.calibration import dp_sgd_noise
from voile.privacy.events import Composed, PrivacyEvent, Repeated
from voile.release.silence import MODEL_OUTPUT_UNPUBLISHED
from voile.training.private import surrogate_norm


class Setting(StrEnum):
    """What is trained with noise. The black box always is."""

    FREE_EXPLANATIONS = "free explanations"
    """Private surrogate; explanations are computed or distilled from it, at no further cost."""
    FULL_PRIVATE = "full private"
    """As published: private surrogate, and a private explainer trained on the rows."""
    SEMI_PRIVATE = "semi private"
    """As published: private surrogate, and an explainer trained on the rows without noise."""
    WITHOUT_PRIVACY = "without privacy"
    """As published: surrogate and explainer trained on the rows without noise."""


@dataclass(frozen=True)
class Facts(FederationFacts):
    """Everything that is public before FastSHAP++ begins.

    Args:
        groups: features that act together as one player.
        black_box: a trained model to be explained, where none is to be trained.
    """

    groups: Groups | None = None
    black_box: Model | None = None


@dataclass(frozen=True)
class StageSpending:
    """What a stage, or all of them, amounts to; never epsilon without delta."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class BudgetReadings:
    """The same noise in three readings.

    Args:
        stages: each private stage by itself, at its own delta.
        published: the sum of epsilons and of deltas over the stages (basic composition).
        joint: the composition of all privacy-loss distributions, at `published.delta`.
    """

    stages: Mapping[str, StageSpending]
    published: StageSpending
    joint: StageSpending

    @classmethod
    def of_one(cls, stage: str, epsilon: float, delta: float) -> BudgetReadings:
        """Of one stage, which all readings are about."""
        spent = StageSpending(epsilon, delta)
        return cls({stage: spent}, spent, spent)


@dataclass(frozen=True, eq=False)
class PipelinePlan:
    """Everything that is fixed before the first round.

    Args:
        facts: what is public.
        setting: what is trained with noise.
        training: how each stage is trained.
        noise: the noise multiplier of each stage; None without privacy.
        deltas: that of each private stage by itself.
        seed: of the parameters before the first round, which are public.
    """

    facts: Facts
    setting: Setting
    training: Mapping[str, Training]
    noise: Mapping[str, float | None]
    deltas: Mapping[str, float]
    seed: int = 0

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """In the order in which they run."""
        return tuple(
            self.facts.stage(
                name, NetworkTask(objective, self.training[name], self.noise[name], self._relation)
            )
            for name, objective in self.objectives.items()
            if name in self.noise
        )

    @cached_property
    def objectives(self) -> dict[str, TrainingObjective]:
        imitation = Imitate(self.facts.schema, self.facts.black_box, self.facts.groups)
        labels = LearnLabels(self.facts.schema) if self.facts.black_box is None else None
        first: dict[str, TrainingObjective] = {} if labels is None else {BLACK_BOX: labels}
        return {**first, SURROGATE: imitation, EXPLAINER: LearnShapley(imitation)}

    @property
    def protected(self) -> Protected:
        return self.facts.protected

    def start(self, stage: str) -> Arrays:
        """The arrays before the first round; public."""
        return self.tasks[stage].start(self.seed)

    @property
    def tasks(self) -> Mapping[str, NetworkTask]:
        """What every client has to be set up with, by stage."""
        return {stage.name: stage.task for stage in self.stages}  # type: ignore[misc]

    def twin(self) -> PipelinePlan:
        """The same plan without any noise, to see what privacy costs; for data nobody protects."""
        return replace(self, noise=dict.fromkeys(self.noise), deltas={})

    # --- what it costs ------------------------------------------------------------------------

    @property
    def _relation(self) -> Relation:
        return self.facts.protected.relation

    def events(self, stage: str) -> tuple[PrivacyEvent, ...]:
        """One for each participation that a client may be asked for; the same for every client."""
        event = self.tasks[stage].cost(1) if self.noise[stage] is not None else None
        return () if event is None else (event,) * self.facts.cap

    @cached_property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        """All participations of one client: the parts of its plan account."""
        return tuple(event for stage in self.noise for event in self.events(stage))

    def event(self, *stages: str) -> PrivacyEvent:
        """What these stages (all, if none is named) release about one client's records."""
        chosen = stages or tuple(name for name, noise in self.noise.items() if noise is not None)
        missing = [name for name in chosen if self.noise.get(name) is None]
        if missing or not chosen:
            raise InvalidInput(f"trained without noise, so nothing bounds it: {missing or 'all'}")
        return Composed(
            tuple(Repeated(self.events(name)[0], len(self.events(name))) for name in chosen)
        )

    def epsilon(self, delta: float, *stages: str) -> float:
        """The joint epsilon of these stages (all, if none is named)."""
        return PrivacyLoss().compose(self.event(*stages)).epsilon(delta)

    @cached_property
    def figures(self) -> BudgetReadings:
        alone = {name: StageSpending(self.epsilon(d, name), d) for name, d in self.deltas.items()}
        delta = sum(self.deltas.values())
        total = StageSpending(sum(spent.epsilon for spent in alone.values()), delta)
        return BudgetReadings(alone, total, StageSpending(self.epsilon(delta), delta))

    def guarantee(self, *stages: str) -> Guarantee:
        """What can be promised about whatever is made from these stages (all, if none is named)."""
        counted = stages or tuple(self.deltas)
        delta = sum(self.deltas[name] for name in counted)
        foreign = self.facts.black_box is not None
        return dp_sgd_guarantee(
            self.facts,
            counted,
            epsilon=self.epsilon(delta, *stages),
            delta=delta,
            assumptions=(FOREIGN_BOX, MODEL_OUTPUT_UNPUBLISHED) if foreign else (),
        )


FOREIGN_BOX = (
    "the black box was trained on none of these rows, or with privacy that is charged besides: "
    "what it reveals about the rows it was trained on is not covered"
)


def default_training(facts: Facts) -> dict[str, Training]:
    """The frozen rule of `classifier_training` for all stages, with other networks and norms."""
    black_box = classifier_training(facts, hidden=(64,))
    norm = surrogate_norm(facts.rows_per_client)
    imitating = replace(black_box, hidden=(64, 64), clipping_norm=norm, rate=0.05)
    return {BLACK_BOX: black_box, SURROGATE: imitating, EXPLAINER: imitating}


def split_total(
    facts: Facts,
    *,
    epsilon: float,
    delta: float,
    training: Mapping[str, Training] | None = None,
    shares: Mapping[str, float] | None = None,
    seed: int = 0,
) -> PipelinePlan:
    """Spend one total on black box and surrogate; explanations are free.

    Args:
        facts: what is public.
        epsilon, delta: the total for each client's records, over both stages.
        training: how each stage is trained; `default_training` if absent.
        shares: noise of each stage over the common noise; more noise, less cost. `noise_shares` if
            absent.
        seed: of the parameters before the first round.
    """
    chosen = dict(default_training(facts) if training is None else training)
    names = _stage_names(facts, Setting.FREE_EXPLANATIONS)
    given = noise_shares(facts) if shares is None else shares
    stages = [facts.noisy_stage(chosen[name], given.get(name, 1.0)) for name in names]
    common = dp_sgd_noise(stages, epsilon=epsilon, delta=delta, relation=facts.protected.relation)
    return PipelinePlan(
        facts,
        Setting.FREE_EXPLANATIONS,
        chosen,
        {n: common * s.noise_share for n, s in zip(names, stages, strict=True)},
        dict.fromkeys(names, delta / len(names)),
        seed,
    )


def noise_shares(facts: Facts) -> dict[str, float]:
    """How noise is shared out between the stages: what the black box loses, nobody gives back.

    Chosen on generated data. With a black box that is given, the surrogate has all of it.
    """
    return {SURROGATE: 1.0} if facts.black_box is not None else {BLACK_BOX: 0.8, SURROGATE: 1.25}


def separate_budgets(
    facts: Facts,
    budgets: Mapping[str, StageSpending],
    *,
    setting: Setting = Setting.FREE_EXPLANATIONS,
    training: Mapping[str, Training] | None = None,
    seed: int = 0,
) -> PipelinePlan:
    """A budget for each stage that is trained with noise, as FastSHAP++ states them.

    Args:
        facts: what is public.
        budgets: by stage.
        setting: which stages have noise.
        training: how each stage is trained; `default_training` if absent.
        seed: of the parameters before the first round.
    """
    chosen = dict(default_training(facts) if training is None else training)
    names = _stage_names(facts, setting)
    noisy = [name for name in names if _has_noise(name, setting)]
    if set(budgets) != set(noisy):
        raise InvalidInput(
            f"the setting {setting!s} needs budgets for {noisy}, found {sorted(budgets)}"
        )
    noise: dict[str, float | None] = dict.fromkeys(names)
    for name in noisy:
        noise[name] = dp_sgd_noise(
            [facts.noisy_stage(chosen[name])],
            epsilon=budgets[name].epsilon,
            delta=budgets[name].delta,
            relation=facts.protected.relation,
        )
    deltas = {name: budgets[name].delta for name in noisy}
    return PipelinePlan(facts, setting, chosen, noise, deltas, seed)


def _stage_names(facts: Facts, setting: Setting) -> tuple[str, ...]:
    first = () if facts.black_box is not None else (BLACK_BOX,)
    last = () if setting is Setting.FREE_EXPLANATIONS else (EXPLAINER,)
    return (*first, SURROGATE, *last)


def _has_noise(stage: str, setting: Setting) -> bool:
    if stage == EXPLAINER:
        return setting is Setting.FULL_PRIVATE
    return stage == BLACK_BOX or setting is not Setting.WITHOUT_PRIVACY
