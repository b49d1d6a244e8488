"""Private statistics across parties (`pipeline = "statistics"`), and what can be said of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from voile.app.artefact import additive_files
from voile.app.expected_statistics import expectation, too_little_signal
from voile.app.federate.base import (
    FinishContext,
    PipelineOutput,
    ServerRows,
    ServerSide,
    TableKind,
)
from voile.app.federate.expectation import FederationPreview, PreviewWarning
from voile.app.federate.noise import (
    NoiseOptions,
    read_noise,
    said_of_sharing,
    seconds_of_noise,
)
from voile.app.federate.quality import quality_figures
from voile.app.federate.tables import open_tables
from voile.app.train_quality import released_quality
from voile.core.errors import InvalidInput
from voile.core.schema import Schema
from voile.federation import Pipeline, StageResult
from voile.pipelines.calibration import split_open_rows
from voile.pipelines.facts import FederationFacts
from voile.pipelines.private_explainer.plan import BudgetReadings, StageSpending
from voile.pipelines.statistics import (
    FederatedStatistics,
    StatisticsPlan,
    plan_statistics,
)
from voile.privacy.accounting.conversion import zcdp_to_epsilon

STATISTICS: Final = "statistics"


class StatisticsFacts(NamedTuple):
    """Public facts, and what was chosen."""

    facts: FederationFacts
    options: NoiseOptions


class StatisticsKind(TableKind):
    """Three sums of whole numbers, from which an additive model is made for free."""

    fixed_rounds: ClassVar[int | None] = 1

    def options(self, stated: Mapping[str, Any], folder: Path) -> NoiseOptions | None:  # noqa: ARG002
        return read_noise(stated)

    def open_rows(
        self, schema: Schema, held_out: Sequence[Any], reference: Any
    ) -> tuple[Any, Any, tuple[str, ...]]:
        """Held-out rows, if there are some, are what it is judged on; it needs no others."""
        if reference is not None:
            raise InvalidInput("statistics bring a background of their own: leave reference out")
        if not held_out:
            return None, None, ()
        rows, odd = open_tables(schema, held_out)
        return rows, None, odd

    def facts(self, levels: Mapping[str, float], **common: Any) -> StatisticsFacts:
        options = common.pop("options", NoiseOptions())
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

    def preview(self, agreement: Any, server: ServerSide) -> FederationPreview:  # noqa: ARG002
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
        figures: dict[str, Any] = {"charged_quality": released_quality(found.statistics)}
        if measured is not None:
            figures["quality"] = quality_figures(found.model, measured, fitted)
        return PipelineOutput(
            additive_files(found.model),
            found.promise(),
            BudgetReadings(alone, spent, spent),
            figures,
        )


# --- what is said ---------------------------------------------------------------------------------


def preview_of_statistics(plan: StatisticsPlan) -> FederationPreview:
    """From public facts alone: noise, signal, and what such models were like in the study."""
    values = sum(task.length for task in plan.tasks.values())
    return FederationPreview(
        concerns=_concerns(plan),
        seconds=seconds_of_noise(len(plan.facts.sizes), values),
        lines=(
            said_of_sharing(len(plan.facts.sizes), plan.shares, plan.facts.protocol),
            _noise(plan),
            *filter(None, expectation(plan.budget)),
        ),
    )


def _concerns(plan: StatisticsPlan) -> tuple[PreviewWarning, ...]:
    secret = "more parties" if plan.shared else "secure = true, so that parties share the noise"
    said = too_little_signal(plan.budget, secret)
    return (PreviewWarning(said, blocking=True),) if said else ()


def _noise(plan: StatisticsPlan) -> str:
    growth = math.sqrt(plan.budget.parties)
    last = growth * plan.budget.calibration_noise.sigma
    said = f"{last:.3g} on sums of the calibration table"
    if plan.budget.table_places:
        said = f"{growth * plan.budget.tables_noise.sigma:.3g} on sums of the fine tables, {said}"
    return f"noise of standard deviation {said}"
