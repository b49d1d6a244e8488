"""The pipelines that `voile federate` runs: how each is planned, and what comes of it.

A kind is all that a new pipeline needs here; rounds, books, logs, artefact and report are the same
for all of them. `TableKind` has what kinds over tables share, `NetworkKind` what those share whose
first stage trains a network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from voile.app.artefact import surrogate_files
from voile.app.federate.aggregate import AggregateKind
from voile.app.federate.base import (
    FinishContext,
    PipelineKind,
    PipelineOutput,
    ServerRows,
    ServerSide,
    SummedStages,
    TableKind,
)
from voile.app.federate.expectation import (
    FederationPreview,
    noise_to_signal,
    preview_of_networks,
)
from voile.app.federate.images import ImageKind
from voile.app.federate.quality import quality_figures
from voile.app.federate.recommender import RecommenderKind
from voile.app.federate.stability import stability_figures
from voile.app.federate.statistics import STATISTICS, StatisticsKind
from voile.app.model_files import network_files, table_files
from voile.attribution import FastShap, Surrogate
from voile.core.choices import ExtensibleKinds
from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit
from voile.core.randomness import StreamCipher
from voile.evaluation import cosine_similarity
from voile.federation import Pipeline, SecureSum, StageResult
from voile.models import Model
from voile.pipelines.calibration import (
    calibrate,
    fit_calibration,
    slope_under,
    split_open_rows,
)
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
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
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

_EXPLAINED: Final = 200
_FEWEST_COMPARED: Final = 10
_MOST_COMPARED: Final = 500


@dataclass(frozen=True)
class NetworkOptions:
    """What `[options]` may say where networks are trained.

    Args:
        proximal: how strongly each party's training is drawn to the common arrays (FedProx).
    """

    proximal: float

    @property
    def stated(self) -> dict[str, Any]:
        """For the agreement."""
        return {"proximal": self.proximal}


class NetworkKind(TableKind):
    """A kind whose first stage trains a network over a table, which is calibrated afterwards."""

    counts_members: ClassVar[bool] = True

    def options(self, stated: Mapping[str, Any], folder: Path) -> NetworkOptions | None:  # noqa: ARG002
        if not stated:
            return None
        strength: Any = stated.get("proximal")
        if len(stated) != 1 or type(strength) not in (int, float) or not 0 < strength < math.inf:
            raise InvalidInput(
                "this pipeline has one option, proximal (FedProx), a number above 0 such as 0.1; "
                f"found {dict(stated)}"
            )
        return NetworkOptions(float(strength))

    def facts(self, levels: Mapping[str, float], **common: Any) -> Any:
        return super().facts(levels, **_with_options(common))

    def preview(self, agreement: Any, server: ServerSide) -> FederationPreview:
        return preview_of_networks(agreement, server)

    def prepared(self, plan: Any, held_out: TableRecords) -> tuple[Pipeline, ServerRows]:
        return plan, ServerRows(*split_open_rows(held_out))

    def finish(
        self, plan: Any, results: Mapping[str, StageResult], context: FinishContext
    ) -> PipelineOutput:
        """Calibrated on some of the unprotected rows, judged on the others."""
        stage = plan.stages[0]
        trained = results[stage.name].arrays
        schema = plan.facts.schema
        model = NetworkModel.from_arrays(schema, OutputHead.of_label(schema), trained)
        expected = slope_under(noise_to_signal(stage, plan.facts.sizes))
        calibration = fit_calibration(model, context.rows.fitted, expected_slope=expected)
        calibrated = calibrate(results, stage.name, calibration)
        made = self.made(plan, calibrated, replace(context, calibration=calibration))
        reference = context.server.reference
        files = dict(table_files(schema, reference))
        if made.model is not None:
            files |= network_files(made.model, trained, calibration)
        if made.surrogate is not None and made.explainer is not None:
            files |= surrogate_files(made.surrogate, made.explainer, reference)
        figures = {
            "quality": quality_figures(
                made.model, context.rows.measured, context.rows.fitted, surrogate=made.surrogate
            ),
            **({} if calibration is None else {"calibration": calibration.plain}),
            **made.figures,
        }
        return PipelineOutput(files, made.promised, made.readings, figures)

    def made(
        self, plan: Any, results: Mapping[str, StageResult], context: FinishContext
    ) -> TrainedNetworks:
        """What comes of calibrated arrays."""
        raise NotImplementedError


def _with_options(common: dict[str, Any]) -> dict[str, Any]:
    chosen: NetworkOptions | None = common.pop("options", None)
    return common if chosen is None else {**common, "proximal": chosen.proximal}


@dataclass(frozen=True, eq=False)
class TrainedNetworks:
    """What comes of a `NetworkKind`: a model, unless somebody brought one, and what imitates it."""

    model: NetworkModel | None
    promised: PromisedGuarantees
    readings: BudgetReadings
    figures: Mapping[str, Any]
    surrogate: Surrogate | None = None
    explainer: FastShap | None = None


class PrivateExplainerKind(NetworkKind):
    """FastSHAP++: black box, surrogate, and a fast explainer that is distilled from them."""

    takes_any_aggregator: ClassVar[bool] = True
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
            StreamCipher(), plan=context.server.distillation, progress=context.steps_seen
        ).explainer

    def made(
        self, plan: PipelinePlan, results: Mapping[str, StageResult], context: FinishContext
    ) -> TrainedNetworks:
        trained = PrivateExplainer(plan, results)
        box, explainer = trained.black_box, self.fast_explainer(trained, context)
        rows = context.server.held_out.readable().rows[:_EXPLAINED]
        aimed, quick = trained.of_surrogate(rows), explainer(rows)
        agreement = np.mean(cosine_similarity(quick.values[..., -1], aimed.values[..., -1]))
        figures = {
            "cosine_to_exact_values_of_the_surrogate": float(agreement),
            "sampled": aimed.standard_errors is not None,  # beyond 16 features
            "rows": len(rows),
        }
        return TrainedNetworks(
            model=box if isinstance(box, NetworkModel) else None,
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


class LogisticRegressionKind(NetworkKind):
    """One private linear model; it is explained interventionally, and needs no surrogate."""

    takes_any_aggregator: ClassVar[bool] = True

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

    def made(
        self, plan: LogisticPlan, results: Mapping[str, StageResult], context: FinishContext
    ) -> TrainedNetworks:
        trained = LogisticRegression(plan, results)
        readings = BudgetReadings.of_one(STAGE, plan.epsilon(plan.delta), plan.delta)
        figures = _stability(plan, trained.model, context)
        return TrainedNetworks(trained.model, trained.promise(), readings, figures)


class TrustedKind(NetworkKind):
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

    def made(
        self,
        plan: TrustedPlan,
        results: Mapping[str, StageResult],
        context: FinishContext,  # noqa: ARG002
    ) -> TrainedNetworks:
        trained = TrustedModel(plan, results)
        readings = BudgetReadings.of_one(TRUSTED_STAGE, plan.epsilon(plan.delta), plan.delta)
        figures = {"trust": trust_figures(trained)}
        return TrainedNetworks(trained.model, trained.promise(), readings, figures)


class GuidedKind(NetworkKind):
    """FedSVA: noise where private columns contribute, at a level that each party declares."""

    takes_tables: ClassVar[bool] = False
    unit: ClassVar[ProtectedUnit] = ProtectedUnit.COLUMNS
    counts_members: ClassVar[bool] = False

    def facts(self, levels: Mapping[str, float], **common: Any) -> GuidedFacts:
        return GuidedFacts(levels=levels, **_with_options(common))

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

    def made(
        self, plan: GuidedPlan, results: Mapping[str, StageResult], context: FinishContext
    ) -> TrainedNetworks:
        trained = GuidedModel(plan, results)
        readings = BudgetReadings.of_one(GUIDED_STAGE, plan.epsilon(plan.delta), plan.delta)
        figures = {
            "rate": trained.contribution_rate(context.server.held_out),
            "columns": list(plan.protected.columns),
        }
        return TrainedNetworks(
            trained.model, trained.promise(), readings, {"contribution": figures}
        )


def _stability(
    plan: PipelinePlan | LogisticPlan, box: Model, context: FinishContext
) -> dict[str, Any]:
    """How stable explanations are, of a model that was trained here."""
    server = context.server
    if not isinstance(box, NetworkModel) or server.reference is None or not server.stability_runs:
        return {}
    context.say("estimating how stable explanations are, on invented rows; no data is touched")
    found = stability_figures(
        plan, box, server.reference, server.stability_runs, calibration=context.calibration
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
        "aggregate": AggregateKind(),
        "images": ImageKind(),
        "recommender": RecommenderKind(),
        STATISTICS: StatisticsKind(),
    },
    "voile.pipelines",
)
"""By name; other packages add theirs as entry points (docs/extending.md)."""
DEFAULT: Final = "private explainer"
