"""What another package would add to voile: a toy of each kind, and how it is installed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any, Final

import numpy as np
import pytest

from voile.app.artefact import additive_files
from voile.app.explain.inputs import ExplanationInputs
from voile.app.federate.base import FinishContext, PipelineOutput, TableKind
from voile.app.federate.kinds import LogisticRegressionKind
from voile.app.federate.quality import quality_figures
from voile.attribution import ExactShapley
from voile.core import choices
from voile.core.guarantee import Adversary, Guarantee, Protected
from voile.core.randomness import GeneratorSource
from voile.federation import FitResult, Instruction, Stage
from voile.federation.arrays import Arrays, Shapes
from voile.models.additive import AdditiveModel
from voile.pipelines.facts import FederationFacts
from voile.pipelines.private_explainer.plan import BudgetReadings, StageSpending
from voile.pipelines.promises import promise
from voile.pipelines.tables import TableRecords
from voile.privacy.accounting import PrivacyLoss
from voile.privacy.events import Gaussian, PrivacyEvent
from voile.recommenders import Catalogue, Recommender, recommender_from
from voile.recommenders.kinds import FromMoments
from voile.records.ledger import Account
from voile.release import PostProcessed, TopFeaturesOfRow


def install(monkeypatch: pytest.MonkeyPatch, group: str, **named: str) -> None:
    """As if a package with these entry points of a group were installed."""
    found = EntryPoints(EntryPoint(name, value, group) for name, value in named.items())
    monkeypatch.setattr(choices, "entry_points", lambda group: found.select(group=group))


# --- a pipeline -----------------------------------------------------------------------------------


class QuietRegression(LogisticRegressionKind):
    """A logistic regression at half of the budget that was agreed on."""

    def plan(self, facts: Any, *, epsilon: float, **stated: Any) -> Any:
        return super().plan(facts, epsilon=epsilon / 2, **stated)


PIPELINE = QuietRegression()

# --- a pipeline that trains no network ------------------------------------------------------------

COUNTS: Final = "counts"
_SIGMA: Final = 30.0


@dataclass(frozen=True)
class CountLabels:
    """How many rows have each label, with noise; one row counts once."""

    classes: int

    @property
    def shapes(self) -> Shapes:
        return {COUNTS: (self.classes,)}

    def cost(self, size: int) -> Gaussian:  # noqa: ARG002
        return Gaussian(_SIGMA)

    def fit(
        self,
        instruction: Instruction,  # noqa: ARG002
        records: TableRecords,
        size: int,
        source: GeneratorSource,
    ) -> FitResult:
        known = records.labels[~records.null & ~np.isnan(records.labels)].astype(int)
        counts = np.bincount(known, minlength=self.classes)
        noisy = counts + source.generator().normal(0, _SIGMA, self.classes)
        return FitResult({COUNTS: noisy.astype(np.float32)}, self.cost(size))

    def evaluate(self, arrays: Any, given: Any, rows: Any) -> dict[str, float]:  # noqa: ARG002
        return {}


@dataclass(frozen=True, eq=False)
class CountingPlan:
    """One round in which every party counts."""

    facts: FederationFacts
    delta: float

    @property
    def task(self) -> CountLabels:
        return CountLabels(2)

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self.facts.stage(COUNTS, self.task),)

    @property
    def tasks(self) -> dict[str, Any]:
        return {COUNTS: self.task}

    @property
    def protected(self) -> Protected:
        return self.facts.protected

    @property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        return (self.task.cost(1),)

    def start(self, stage: str) -> Arrays:  # noqa: ARG002
        return {COUNTS: np.zeros(2, dtype=np.float32)}

    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=PrivacyLoss().compose(self.task.cost(1)).epsilon(self.delta),
            delta=self.delta,
            protected=self.protected,
            against=(Adversary.PUBLIC, Adversary.SERVER_SEEING_UPDATES),
            computational=True,
            mechanism="Gaussian noise on two counts",
            composition="one release",
        )


class CountingKind(TableKind):
    """An additive model whose features say nothing: the rate of a label, whoever is asked about."""

    fixed_rounds = 1
    needs_held_out = False

    def plan(self, facts: FederationFacts, *, delta: float, **_: Any) -> CountingPlan:
        return CountingPlan(facts, delta)

    def finish(self, plan: CountingPlan, results: Any, context: FinishContext) -> PipelineOutput:
        no, yes = np.maximum(results[COUNTS].arrays[COUNTS], 1.0)
        promised = promise(plan, results, COUNTS)
        model = AdditiveModel(
            schema=plan.facts.schema,
            bins=(),
            intercept=float(np.log(yes / no)),
            scores=np.zeros(0),
            masses=np.zeros(0),
            covariance=np.zeros((0, 0)),
            guarantees=promised.guarantees,
        )
        spent = StageSpending(plan.guarantee().epsilon, plan.delta)
        readings = BudgetReadings({COUNTS: spent}, spent, spent)
        quality = quality_figures(model, context.rows.measured)
        return PipelineOutput(additive_files(model), promised, readings, {"quality": quality})


COUNTING = CountingKind()

# --- releases -------------------------------------------------------------------------------------


class TopFeatureOfRow(TopFeaturesOfRow):
    """One feature of a protected row, with its direction."""

    tag = "toy-top"


def top_feature(inputs: ExplanationInputs, account: Account | None, rows: int) -> TopFeatureOfRow:
    """The one feature that matters most, charged."""
    assert account is not None
    assert rows > 0
    return TopFeatureOfRow(
        ExactShapley(inputs.model, inputs.background, schema=inputs.schema),
        k=1,
        epsilon=1.0 if inputs.spec.epsilon is None else inputs.spec.epsilon,
        signed=True,
        schema=inputs.schema,
        protected=account.protected,
        origins=inputs.origins,
        model=inputs.model.digest,
        name="toy",
    )


def under_another_name(inputs: ExplanationInputs, *_: Any) -> PostProcessed:
    """A release that says it is one of voile's own."""
    explainer = ExactShapley(inputs.model, inputs.background, schema=inputs.schema)
    return PostProcessed(explainer, inputs.origins, inputs.model.digest, "toy")


# --- a recommender --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RootRecommender:
    """Scores that are no sums over a history: the square roots of those."""

    inner: Recommender

    @property
    def catalogue(self) -> Catalogue:
        return self.inner.catalogue

    def scores(self, histories: Any) -> Any:
        found = self.inner.scores(histories)
        return np.sign(found) * np.sqrt(np.abs(found))


RECOMMENDER = FromMoments(lambda moments: RootRecommender(recommender_from(moments)))
