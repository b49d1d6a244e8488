"""The pipelines that `voile federate` runs: how each is planned, and what comes of it.

A kind is all that a new pipeline needs here; rounds, books, logs, artefact and report are the same
for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np

from voile.app.federate.stability import stability_figures
from voile.attribution import FastShap, Surrogate
from voile.core.choices import ExtensibleKinds
from voile.core.errors import InvalidInput
from voile.core.randomness import StreamCipher
from voile.core.schema import Rows
from voile.evaluation import cosine_similarity
from voile.federation import Pipeline, SecureSum, Stage, StageResult
from voile.models import Model
from voile.pipelines.calibration import Calibration, split_open_rows
from voile.pipelines.facts import FederationFacts
from voile.pipelines.logistic_regression import (
    STAGE,
    LogisticPlan,
    LogisticRegression,
    plan_logistic_regression,
)
from voile.pipelines.objectives import BLACK_BOX, EXPLAINER, SURROGATE
from voile.pipelines.private_explainer import PrivateExplainer
from voile.pipelines.private_explainer.plan import (
    BudgetReadings,
    Facts,
    PipelinePlan,
    Setting,
    StageSpending,
    separate_budgets,
    split_total,
)
from voile.pipelines.promises import PromisedGuarantees
from voile.pipelines.shapley_guided_noise import STAGE as GUIDED_STAGE
from voile.pipelines.shapley_guided_noise import (
    GuidedFacts,
    GuidedModel,
    GuidedPlan,
    plan_guided_noise,
)
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.pipelines.trusted_averaging import (
    REPORTED,
    ComparisonRows,
    TrustedModel,
    TrustedPlan,
    TrustRule,
    plan_trusted_averaging,
    trust_figures,
)
from voile.pipelines.trusted_averaging import STAGE as TRUSTED_STAGE
from voile.training import Progress as Steps
from voile.training import TrainingPlan

_EXPLAINED: Final = 200
_FEWEST_COMPARED: Final = 10
_MOST_COMPARED: Final = 500
Say = Callable[[str], None]
"""Told in words what is being done."""


@dataclass(frozen=True, eq=False)
class FinishContext:
    """What belongs to the server, for whatever is made after the last round.

    Args:
        held_out: rows listed as unprotected.
        reference: public rows.
        distillation: how a fast explainer is trained, where there is one.
        stability_runs: how often a model is trained again on invented rows.
        calibration: what was done to the logits of the model; None if nothing was.
    """

    held_out: TableRecords
    reference: Rows
    distillation: TrainingPlan
    stability_runs: int
    steps_seen: Steps | None
    say: Say
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class PipelineOutput:
    """What a finished pipeline shows.

    Args:
        promised: guarantees and notes of all of it.
        readings: the same noise in other readings.
        figures: exact ones, measured on unprotected rows, besides those of the rounds.
    """

    black_box: NetworkModel | None
    promised: PromisedGuarantees
    readings: BudgetReadings
    surrogate: Surrogate | None = None
    explainer: FastShap | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


class ServerRows(NamedTuple):
    """The server's unprotected rows, in two parts that share none.

    Args:
        fitted: the model is calibrated on these; there may be none.
        measured: figures are measured on these.
    """

    fitted: TableRecords
    measured: TableRecords


class PipelineKind(Protocol):
    """One kind of pipeline.

    Args:
        takes_any_aggregator: whether a federation may choose how updates become one.
    """

    takes_any_aggregator: ClassVar[bool]

    def facts(self, levels: Mapping[str, float], **common: Any) -> FederationFacts:
        """What is public.

        Args:
            levels: epsilon of parties that have declared one of their own.
            common: fields of `FederationFacts`.
        """

    def plan(
        self,
        facts: FederationFacts,
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> Pipeline:
        """Stages and noise, from what is public.

        Args:
            hidden: widths of hidden layers; a default if None.
        """

    def finish(
        self, plan: Any, results: Mapping[str, StageResult], context: FinishContext
    ) -> PipelineOutput:
        """What comes of the trained arrays; nothing here touches protected rows."""

    def prepared(self, plan: Any, held_out: TableRecords) -> tuple[Pipeline, ServerRows]:
        """The plan as the server runs it, and what each of the unprotected rows is for."""

    def summed(self, plan: Any) -> SummedStages:
        """What a node adds up in secret, where that was agreed on."""

    def trust(self, plan: Any) -> TrustRule | None:
        """By which rule the server's log has a record of trust for each round; None if by none."""


class SummedStages(NamedTuple):
    """What a node adds up in secret, and the stages whose answers are reports, sent in clear."""

    stages: Mapping[str, Stage]
    in_clear: frozenset[str] = frozenset()


class _OneLevel:
    """A kind that protects rows, and those of all parties alike."""

    takes_any_aggregator: ClassVar[bool] = False

    def facts(self, levels: Mapping[str, float], **common: Any) -> FederationFacts:
        if levels:
            raise InvalidInput(
                f"parties have levels of their own with {GUIDED!r} only; found {sorted(levels)}"
            )
        return FederationFacts(**common)


class _Averaged(_OneLevel):
    """A kind whose rounds need no unprotected rows, make one sum each, and weigh by sizes."""

    takes_any_aggregator: ClassVar[bool] = True

    def prepared(self, plan: Any, held_out: TableRecords) -> tuple[Pipeline, ServerRows]:
        return plan, ServerRows(*split_open_rows(held_out))

    def summed(self, plan: Pipeline) -> SummedStages:
        return SummedStages({stage.name: stage for stage in plan.stages})

    def trust(self, plan: Any) -> TrustRule | None:  # noqa: ARG002
        return None


class PrivateExplainerKind(_Averaged):
    """FastSHAP++: black box, surrogate, and a fast explainer that is distilled from them."""

    counted: ClassVar[tuple[str, ...]] = (BLACK_BOX, SURROGATE)
    """Stages that what is made rests on."""

    def plan(
        self,
        facts: FederationFacts,
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> PipelinePlan:
        plan = self.spending(Facts(**vars(facts)), epsilon, delta)
        if hidden is None:
            return plan
        wide = {name: replace(each, hidden=hidden) for name, each in plan.training.items()}
        return replace(plan, training=wide)

    def spending(self, facts: Facts, epsilon: float, delta: float) -> PipelinePlan:
        """How the total is spent on stages."""
        return split_total(facts, epsilon=epsilon, delta=delta)

    def fast_explainer(self, trained: PrivateExplainer, context: FinishContext) -> FastShap:
        """Made from the stages that `counted` names."""
        context.say(
            "distilling a fast explainer from the surrogate and the schema; no data is touched"
        )
        return trained.distilled(
            StreamCipher(), plan=context.distillation, progress=context.steps_seen
        ).explainer

    def finish(
        self, plan: PipelinePlan, results: Mapping[str, StageResult], context: FinishContext
    ) -> PipelineOutput:
        trained = PrivateExplainer(plan, results)
        box, explainer = trained.black_box, self.fast_explainer(trained, context)
        rows = context.held_out.readable().rows[:_EXPLAINED]
        aimed, quick = trained.of_surrogate(rows), explainer(rows)
        agreement = np.mean(cosine_similarity(quick.values[..., -1], aimed.values[..., -1]))
        figures = {
            "cosine_to_exact_values_of_the_surrogate": float(agreement),
            "sampled": aimed.standard_errors is not None,  # beyond 16 features
            "rows": len(rows),
        }
        return PipelineOutput(
            black_box=box if isinstance(box, NetworkModel) else None,
            promised=trained.promise(*self.counted),
            readings=plan.figures,
            surrogate=trained.surrogate,
            explainer=explainer,
            figures={"distilled_explainer": figures, **_stability(plan, box, context)},
        )


class FullPrivateExplainerKind(PrivateExplainerKind):
    """FastSHAP++ as published, in the setting full private: the explainer learns from rows, too.

    A third of epsilon and of delta for each stage. The sum is what is published; the joint figure
    of the same noise, which is charged, is smaller.
    """

    counted = (BLACK_BOX, SURROGATE, EXPLAINER)

    def spending(self, facts: Facts, epsilon: float, delta: float) -> PipelinePlan:
        each = StageSpending(epsilon / len(self.counted), delta / len(self.counted))
        budgets = dict.fromkeys(self.counted, each)
        return separate_budgets(facts, budgets, setting=Setting.FULL_PRIVATE)

    def fast_explainer(self, trained: PrivateExplainer, context: FinishContext) -> FastShap:  # noqa: ARG002
        return trained.trained_explainer


class LogisticRegressionKind(_Averaged):
    """One private linear model; it is explained interventionally, and needs no surrogate."""

    def plan(
        self,
        facts: FederationFacts,
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> LogisticPlan:
        if hidden is not None:
            raise InvalidInput("a logistic regression has no hidden layers; leave `hidden` out")
        return plan_logistic_regression(facts, epsilon=epsilon, delta=delta)

    def finish(
        self,
        plan: LogisticPlan,
        results: Mapping[str, StageResult],
        context: FinishContext,
    ) -> PipelineOutput:
        trained = LogisticRegression(plan, results)
        spent = StageSpending(plan.epsilon(plan.delta), plan.delta)
        readings = BudgetReadings({STAGE: spent}, spent, spent)
        figures = _stability(plan, trained.model, context)
        return PipelineOutput(trained.model, trained.promise(), readings, figures=figures)


class TrustedKind(_OneLevel):
    """FedXChain: averaging weighted by trust; a logistic regression, or a perceptron.

    In a secure sum parties report accuracy and divergence; where the server sees updates, it
    measures both itself.

    Parties compare their models on half of the unprotected rows, and the result is calibrated on
    it; figures are measured on the other half, so that no weight was chosen by what is measured.
    """

    def plan(
        self,
        facts: FederationFacts,
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> TrustedPlan:
        seen = not isinstance(facts.protocol, SecureSum)  # what can be measured is not believed
        return plan_trusted_averaging(
            facts, epsilon=epsilon, delta=delta, hidden=hidden or (), verified=seen
        )

    def prepared(self, plan: TrustedPlan, held_out: TableRecords) -> tuple[TrustedPlan, ServerRows]:
        known = np.flatnonzero(~held_out.null & ~np.isnan(held_out.labels))
        if len(known) < 2 * _FEWEST_COMPARED:
            raise InvalidInput(
                f"trust needs at least {2 * _FEWEST_COMPARED} unprotected rows with labels, half "
                f"to compare models on and half to measure on; found {len(known)} in [[held_out]]"
            )
        compared, measured = held_out.only(known[::2][:_MOST_COMPARED]), held_out.only(known[1::2])
        on = ComparisonRows(compared.rows, compared.labels)
        return plan.comparing_on(on), ServerRows(compared, measured)

    def summed(self, plan: TrustedPlan) -> SummedStages:
        """Two sums in a round, and reports in between."""
        return SummedStages(plan.summed_stages, REPORTED)

    def trust(self, plan: TrustedPlan) -> TrustRule:
        return plan.rule

    def finish(
        self,
        plan: TrustedPlan,
        results: Mapping[str, StageResult],
        context: FinishContext,  # noqa: ARG002
    ) -> PipelineOutput:
        trained = TrustedModel(plan, results)
        spent = StageSpending(plan.epsilon(plan.delta), plan.delta)
        readings = BudgetReadings({TRUSTED_STAGE: spent}, spent, spent)
        figures = {"trust": trust_figures(trained)}
        return PipelineOutput(trained.model, trained.promise(), readings, figures=figures)


class GuidedKind(_Averaged):
    """FedSVA: noise where private columns contribute, at a level that each party declares."""

    takes_any_aggregator: ClassVar[bool] = False  # weighs by noise

    def facts(self, levels: Mapping[str, float], **common: Any) -> GuidedFacts:
        return GuidedFacts(levels=levels, **common)

    def plan(
        self,
        facts: FederationFacts,
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> GuidedPlan:
        assert isinstance(facts, GuidedFacts)
        return plan_guided_noise(facts, epsilon=epsilon, delta=delta, hidden=hidden or ())

    def finish(
        self, plan: GuidedPlan, results: Mapping[str, StageResult], context: FinishContext
    ) -> PipelineOutput:
        trained = GuidedModel(plan, results)
        spent = StageSpending(plan.epsilon(plan.delta), plan.delta)
        readings = BudgetReadings({GUIDED_STAGE: spent}, spent, spent)
        figures = {
            "rate": trained.contribution_rate(context.held_out),
            "columns": list(plan.protected.columns),
        }
        return PipelineOutput(
            trained.model, trained.promise(), readings, figures={"contribution": figures}
        )


def _stability(
    plan: PipelinePlan | LogisticPlan, box: Model, context: FinishContext
) -> dict[str, Any]:
    """How stable explanations are, of a model that was trained here."""
    if not isinstance(box, NetworkModel) or not context.stability_runs:
        return {}
    context.say("estimating how stable explanations are, on invented rows; no data is touched")
    found = stability_figures(
        plan, box, context.reference, context.stability_runs, calibration=context.calibration
    )
    return {} if found is None else {"stability": found}


GUIDED: Final = "shapley-guided noise"
KINDS: Final[Mapping[str, PipelineKind]] = ExtensibleKinds(
    {
        "private explainer": PrivateExplainerKind(),
        "full private explainer": FullPrivateExplainerKind(),
        "logistic regression": LogisticRegressionKind(),
        "trusted": TrustedKind(),
        GUIDED: GuidedKind(),
    },
    "voile.pipelines",
)
"""By name; other packages add theirs as entry points (docs/extending.md)."""
DEFAULT: Final = "private explainer"
