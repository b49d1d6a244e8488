"""The pipelines that `voile federate` runs: how each is planned, and what comes of it.

A kind is all that a new pipeline needs here; rounds, books, logs, artefact and report are the same
for all of them. `TableKind` has what kinds over tables share, `NetworkKind` what those share whose
first stage trains a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np

from voile.app.artefact import Files, additive_files, network_files, surrogate_files, table_files
from voile.app.explain.rows import read_records
from voile.app.federate.expectation import (
    FederationPreview,
    noise_to_signal,
    preview_of_networks,
)
from voile.app.federate.quality import quality_figures
from voile.app.federate.stability import stability_figures
from voile.app.federate.statistics import charged_figures, preview_of_statistics
from voile.app.federate.tables import labelled_schema, open_tables, reference_rows
from voile.attribution import FastShap, Surrogate
from voile.attribution.fastshap import EXPLAINER_PLAN
from voile.core.choices import ExtensibleKinds
from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit
from voile.core.randomness import StreamCipher
from voile.core.schema import Rows, Schema
from voile.evaluation import cosine_similarity
from voile.federation import Pipeline, SecureSum, Stage, StageResult
from voile.models import Model
from voile.pipelines.calibration import (
    Calibration,
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
from voile.pipelines.network_task import CLIPPED_UNIT
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
from voile.pipelines.statistics import FederatedStatistics, StatisticsPlan, plan_statistics
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
from voile.privacy.accounting.conversion import zcdp_to_epsilon
from voile.training import Progress as Steps
from voile.training import TrainingPlan

if TYPE_CHECKING:
    from voile.app.federate.agreement import FederationAgreement

_EXPLAINED: Final = 200
_FEWEST_COMPARED: Final = 10
_MOST_COMPARED: Final = 500
Say = Callable[[str], None]
"""Told in words what is being done."""


@dataclass(frozen=True, eq=False)
class ServerSide:
    """What belongs to the server.

    Args:
        folder: of the run.
        held_out: rows listed as unprotected; figures are measured on them. None for a kind that
            needs none.
        reference: public rows that interventional explanations are compared with, likewise.
        distillation: how the fast explainer is trained; it touches no data.
        reference_invented: whether these were drawn from the schema, because nobody had any.
        stability_runs: how often a model is trained again on invented rows, to estimate how stable
            explanations are.
        remarks: what is odd about unprotected rows, said before anything is charged.
    """

    folder: Path
    held_out: Any = None
    reference: Any = None
    distillation: TrainingPlan = EXPLAINER_PLAN
    remarks: tuple[str, ...] = ()
    reference_invented: bool = False
    stability_runs: int = 0


class ServerRows(NamedTuple):
    """The server's unprotected rows, in two parts that share none; None for a kind without.

    Args:
        fitted: the model is calibrated on these; there may be none.
        measured: figures are measured on these.
    """

    fitted: Any = None
    measured: Any = None


@dataclass(frozen=True, eq=False)
class FinishContext:
    """What belongs to the server, for whatever is made after the last round.

    Args:
        rows: unprotected ones, and what each of them is for.
        calibration: what was done to the logits of the model; None if nothing was.
    """

    server: ServerSide
    rows: ServerRows
    steps_seen: Steps | None
    say: Say
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class PipelineOutput:
    """What a finished pipeline shows.

    Args:
        files: of the artefact (`voile.app.artefact`), such as its model.
        promised: guarantees and notes of all of it.
        readings: the same noise in other readings.
        figures: exact ones, measured on unprotected rows, besides those of the rounds.
    """

    files: Files
    promised: PromisedGuarantees
    readings: BudgetReadings
    figures: Mapping[str, Any] = field(default_factory=dict)


class PipelineKind(Protocol):
    """One kind of pipeline.

    Args:
        unit: what it protects.
        fixed_rounds: of each stage, where nobody can choose them.
        takes_any_aggregator: whether a federation may choose how updates become one.
        counts_members: whether parties may release a count of members of what was trained.
    """

    unit: ClassVar[ProtectedUnit]
    fixed_rounds: ClassVar[int | None]
    takes_any_aggregator: ClassVar[bool]
    counts_members: ClassVar[bool]

    def options(self, stated: Mapping[str, Any], folder: Path) -> Any:
        """What `[options]` of `federation.toml` says; `facts` is given it, unless it is None.

        It has a field `stated` of plain values, which the agreement is about; a file in it is
        known by its digest.

        Args:
            folder: that paths are relative to.
        """

    def schema(self, path: Path) -> Any:
        """The public description of records, with a `name` and a `digest`."""

    def records(self, schema: Any, path: Path) -> Any:
        """What a party brings, with a length; nothing that stands in a record raises."""

    def open_rows(
        self, schema: Any, held_out: Sequence[Path], reference: Path | None
    ) -> tuple[Any, Rows | None, tuple[str, ...]]:
        """Rows that nobody protects, public ones to compare with, and what is odd about them.

        None for rows that it has no use for; refused where it needs some and there are none.
        """

    def facts(self, levels: Mapping[str, float], **common: Any) -> Any:
        """What is public.

        Args:
            levels: epsilon of parties that have declared one of their own.
            common: fields of `FederationFacts`.
        """

    def plan(
        self,
        facts: Any,
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> Pipeline:
        """Stages and noise, from what is public.

        Args:
            hidden: widths of hidden layers; a default if None.
        """

    def preview(self, agreement: FederationAgreement, server: ServerSide) -> FederationPreview:
        """What is to be expected and what is odd, besides what is said of every federation."""

    def finish(
        self, plan: Any, results: Mapping[str, StageResult], context: FinishContext
    ) -> PipelineOutput:
        """What comes of the trained arrays; nothing here touches protected rows."""

    def prepared(self, plan: Any, held_out: Any) -> tuple[Pipeline, ServerRows]:
        """The plan as the server runs it, and what each of the unprotected rows is for."""

    def summed(self, plan: Any) -> SummedStages:
        """What a node adds up in secret, where that was agreed on."""

    def trust(self, plan: Any) -> TrustRule | None:
        """By which rule the server's log has a record of trust for each round; None if by none."""


class SummedStages(NamedTuple):
    """What a node adds up in secret, and the stages whose answers are reports, sent in clear."""

    stages: Mapping[str, Stage]
    in_clear: frozenset[str] = frozenset()


class TableKind:
    """A kind whose parties bring tables: rows are protected, and those of all parties alike.

    Each round makes one sum of what parties send.
    """

    unit: ClassVar[ProtectedUnit] = CLIPPED_UNIT
    fixed_rounds: ClassVar[int | None] = None
    takes_any_aggregator: ClassVar[bool] = False
    counts_members: ClassVar[bool] = False
    needs_held_out: ClassVar[bool] = True

    def options(self, stated: Mapping[str, Any], folder: Path) -> Any:  # noqa: ARG002
        if stated:
            raise InvalidInput(f"this pipeline has no options, found {sorted(stated)}")

    def schema(self, path: Path) -> Schema:
        return labelled_schema(path)

    def records(self, schema: Schema, path: Path) -> TableRecords:
        return read_records(schema, path)

    def open_rows(
        self, schema: Schema, held_out: Sequence[Path], reference: Path | None
    ) -> tuple[TableRecords, Rows, tuple[str, ...]]:
        if self.needs_held_out and not held_out:
            raise InvalidInput(
                "this pipeline is judged on rows that nobody protects: name at least one file of "
                "them in [[held_out]] of server.toml"
            )
        rows, odd = open_tables(schema, held_out)
        compared, also = reference_rows(schema, reference)
        return rows, compared, (*odd, *also)

    def facts(self, levels: Mapping[str, float], **common: Any) -> Any:
        if levels:
            raise InvalidInput(
                f"parties have levels of their own with {GUIDED!r} only; found {sorted(levels)}"
            )
        return FederationFacts(**common)

    def preview(self, agreement: FederationAgreement, server: ServerSide) -> FederationPreview:  # noqa: ARG002
        return FederationPreview()

    def prepared(self, plan: Any, held_out: TableRecords) -> tuple[Pipeline, ServerRows]:
        return plan, ServerRows(held_out.only(np.arange(0)), held_out)

    def summed(self, plan: Any) -> SummedStages:
        return SummedStages({stage.name: stage for stage in plan.stages})

    def trust(self, plan: Any) -> TrustRule | None:  # noqa: ARG002
        return None


class NetworkKind(TableKind):
    """A kind whose first stage trains a network over a table, which is calibrated afterwards."""

    counts_members: ClassVar[bool] = True

    def preview(self, agreement: FederationAgreement, server: ServerSide) -> FederationPreview:
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
        spent = StageSpending(plan.epsilon(plan.delta), plan.delta)
        readings = BudgetReadings({STAGE: spent}, spent, spent)
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
        spent = StageSpending(plan.epsilon(plan.delta), plan.delta)
        readings = BudgetReadings({TRUSTED_STAGE: spent}, spent, spent)
        figures = {"trust": trust_figures(trained)}
        return TrainedNetworks(trained.model, trained.promise(), readings, figures)


class GuidedKind(NetworkKind):
    """FedSVA: noise where private columns contribute, at a level that each party declares."""

    unit: ClassVar[ProtectedUnit] = ProtectedUnit.COLUMNS
    counts_members: ClassVar[bool] = False

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

    def made(
        self, plan: GuidedPlan, results: Mapping[str, StageResult], context: FinishContext
    ) -> TrainedNetworks:
        trained = GuidedModel(plan, results)
        spent = StageSpending(plan.epsilon(plan.delta), plan.delta)
        readings = BudgetReadings({GUIDED_STAGE: spent}, spent, spent)
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


@dataclass(frozen=True)
class StatisticsOptions:
    """`[options]` of the pipeline "statistics".

    Args:
        noise: "shared", where parties add their parts of one noise, for which sums have to be
            secret; "local", where each adds all of it. As is best, if None.
    """

    noise: str | None = None

    @property
    def stated(self) -> dict[str, Any]:
        return {"noise": self.noise}

    @property
    def shared(self) -> bool | None:
        return None if self.noise is None else self.noise == "shared"


class StatisticsFacts(NamedTuple):
    """Public facts, and what was chosen."""

    facts: FederationFacts
    options: StatisticsOptions


class StatisticsKind(TableKind):
    """Three sums of whole numbers, from which an additive model is made for free."""

    fixed_rounds: ClassVar[int | None] = 1

    def options(self, stated: Mapping[str, Any], folder: Path) -> StatisticsOptions | None:  # noqa: ARG002
        if not stated:
            return None
        if set(stated) != {"noise"} or stated["noise"] not in ("shared", "local"):
            raise InvalidInput(
                f'this pipeline has one option, noise = "shared" or "local"; found {dict(stated)}'
            )
        return StatisticsOptions(stated["noise"])

    def open_rows(
        self, schema: Schema, held_out: Sequence[Path], reference: Path | None
    ) -> tuple[Any, Any, tuple[str, ...]]:
        """Held-out rows, if there are some, are what it is judged on; it needs no others."""
        if reference is not None:
            raise InvalidInput("statistics bring a background of their own: leave reference out")
        if not held_out:
            return None, None, ()
        rows, odd = open_tables(schema, held_out)
        return rows, None, odd

    def facts(self, levels: Mapping[str, float], **common: Any) -> StatisticsFacts:
        options = common.pop("options", StatisticsOptions())
        return StatisticsFacts(super().facts(levels, **common), options)

    def plan(
        self,
        facts: StatisticsFacts,
        *,
        epsilon: float,
        delta: float,
        hidden: tuple[int, ...] | None,
    ) -> StatisticsPlan:
        if hidden is not None:
            raise InvalidInput("statistics have no hidden layers; leave `hidden` out")
        shared = facts.options.shared
        return plan_statistics(facts.facts, epsilon=epsilon, delta=delta, shared=shared)

    def preview(self, agreement: FederationAgreement, server: ServerSide) -> FederationPreview:  # noqa: ARG002
        assert isinstance(agreement.plan, StatisticsPlan)
        return preview_of_statistics(agreement.plan)

    def prepared(self, plan: Any, held_out: Any) -> tuple[Pipeline, ServerRows]:
        if held_out is None:
            return plan, ServerRows()
        return plan, ServerRows(*split_open_rows(held_out))

    def finish(
        self, plan: StatisticsPlan, results: Mapping[str, StageResult], context: FinishContext
    ) -> PipelineOutput:
        found = FederatedStatistics(plan, results)
        spent = StageSpending(plan.epsilon(plan.delta), plan.delta)
        alone = {
            name: StageSpending(zcdp_to_epsilon(rho, plan.delta), plan.delta)
            for name, rho in plan.rhos.items()
        }
        fitted, measured = context.rows
        figures: dict[str, Any] = {}
        if (charged := charged_figures(found.statistics)) is not None:
            figures["charged_quality"] = charged
        if measured is not None:
            figures["quality"] = quality_figures(found.model, measured, fitted)
        return PipelineOutput(
            additive_files(found.model),
            found.promise(),
            BudgetReadings(alone, spent, spent),
            figures,
        )


GUIDED: Final = "shapley-guided noise"
STATISTICS: Final = "statistics"
KINDS: Final[Mapping[str, PipelineKind]] = ExtensibleKinds(
    {
        "private explainer": PrivateExplainerKind(),
        "full private explainer": FullPrivateExplainerKind(),
        "logistic regression": LogisticRegressionKind(),
        "trusted": TrustedKind(),
        GUIDED: GuidedKind(),
        STATISTICS: StatisticsKind(),
    },
    "voile.pipelines",
)
"""By name; other packages add theirs as entry points (docs/extending.md)."""
DEFAULT: Final = "private explainer"
