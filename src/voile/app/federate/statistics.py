"""What can be said of private statistics across parties: before the first round, and after."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from voile.app.federate.expectation import FederationPreview, PreviewWarning
from voile.app.train import EXPECTED, TOO_LITTLE
from voile.app.train_quality import CalibrationFigures, charged_quality
from voile.pipelines.statistics import STAGES, StatisticsPlan
from voile.release.statistics import PrivateStatistics

_VALUES_A_SECOND = 20_000.0
"""Of exact noise."""


def preview_of_statistics(plan: StatisticsPlan) -> FederationPreview:
    """From public facts alone: noise, signal, and what such models were like in the study."""
    return FederationPreview(
        concerns=tuple(_concerns(plan)),
        seconds=_seconds(plan),
        lines=(_sharing(plan), _noise(plan), _expectation(plan)),
    )


def charged_figures(found: PrivateStatistics) -> dict[str, Any] | None:
    """How good the model is by the charged calibration table; None for other labels than two
    classes."""
    target = found.budget.target
    if target.is_number or target.columns != 2:
        return None
    return charged_quality(CalibrationFigures.from_releases(found))


def _concerns(plan: StatisticsPlan) -> Iterator[PreviewWarning]:
    budget = plan.budget
    if budget.signal >= TOO_LITTLE:
        return
    rows = math.ceil(budget.rows * TOO_LITTLE / budget.signal)
    help_of_sums = "" if plan.shared else ", secure = true, so that parties share the noise"
    yield PreviewWarning(
        f"too little signal: {budget.signal:.1f}, and below {TOO_LITTLE:g} a model is mostly "
        "noise. Use fewer features, a larger epsilon, more rows or parties (about "
        f"{rows:,} rows in all for this epsilon){help_of_sums}",
        blocking=True,
    )


def _sharing(plan: StatisticsPlan) -> str:
    parties = len(plan.facts.sizes)
    if plan.shared:
        return (
            f"noise is shared: {plan.shares} honest parties of {parties} give all of it, so if all "
            f"survive, the variance is {parties / plan.shares:.3g} times that of one table"
        )
    return f"each of {parties} parties adds all of the noise: {parties} times its variance"


def _noise(plan: StatisticsPlan) -> str:
    growth = math.sqrt(plan.budget.parties)
    tables, table = plan.budget.tables_noise.sigma, plan.budget.calibration_noise.sigma
    return (
        f"noise of standard deviation {growth * tables:.3g} on sums of the fine tables, and "
        f"{growth * table:.3g} on those of the calibration table"
    )


def _expectation(plan: StatisticsPlan) -> str:
    budget = plan.budget
    signal = (
        f"signal {budget.signal:.0f} ({budget.rows:,} rows, {len(budget.schema.features)} features)"
    )
    lost = next((each for each in EXPECTED if budget.signal >= each[0]), None)
    if lost is None:
        return f"{signal}: no model of the study did well with so little"
    return (
        f"{signal}: on public data sets such models lost at most {lost[1]:.2f} in AUC and "
        f"{lost[2]:.2f} in log-loss to logistic regression without privacy"
    )


def _seconds(plan: StatisticsPlan) -> float:
    """Most of it is exact noise; two parties work at a time."""
    values = sum(plan.tasks[name].length for name in STAGES)
    return len(plan.facts.sizes) * (values / _VALUES_A_SECOND + 0.2)
