"""Private statistics from one table: their price, what to expect, how good."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from voile.app.commands.train import Train
from voile.app.explain import ReleaseService
from voile.app.explain.artefacts import ReleaseChain
from voile.app.train_quality import released_quality
from voile.core.errors import InvalidInput
from voile.core.schema import Schema
from voile.privacy.events import Composed, PrivacyEvent, Zcdp
from voile.privacy.mechanisms.parameters import MARGIN, checked_target
from voile.records.ledger import Account
from voile.release import Preview
from voile.release.contract import Release
from voile.release.statistics import (
    CalibrationTable,
    CentredMoments,
    FineTables,
    LabelledRecords,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    PrivateStatistics,
    StatisticsBudget,
    joint_guarantee,
)
from voile.release.statistics.releases import NO_TABLES
from voile.release.statistics.rule import RULE

TOO_LITTLE: Final = RULE.signal.least
"""Under this signal, explanations had little in common with those of a model without noise."""
EXPECTED: Final = (
    (2000.0, 0.02, 0.02),
    (1000.0, 0.02, 0.03),
    (500.0, 0.03, 0.04),
    (200.0, 0.04, 0.05),
    (80.0, 0.05, 0.08),
)
"""From a signal on: the most that models lost in AUC and log-loss to logistic regression without
privacy, on five public data sets, rounded up (results/private_statistics.json, 16,000 rows)."""


MOST_GAINED: Final = 0.03
"""The most in AUC that gradient boosting gained on logistic regression on these sets, both without
privacy: what interactions of features were worth."""


def expectation(budget: StatisticsBudget) -> tuple[str, ...]:
    """What to expect of private statistics, and of a network instead; from public facts."""
    signal = (
        f"signal {budget.signal:.0f} ({budget.rows:,} rows, {len(budget.schema.features)} "
        f"features, up to {budget.bins} bins of a number)"
    )
    if budget.target.parts > 1 or budget.target.is_number:
        return (signal,)  # the study behind the figures below is about two classes
    lost = next((each for each in EXPECTED if budget.signal >= each[0]), None)
    if lost is None:
        return (
            f"{signal}: no model of the study did well with so little",
            "a network by DP-SGD needs more signal still",
        )
    network = "a network by DP-SGD needs more signal than this on most data sets"
    if budget.signal >= EXPECTED[1][0]:
        network = (
            "a network by DP-SGD (`voile federate`) can do better only where features interact: "
            f"on those data sets that was worth at most {MOST_GAINED:.2f} in AUC, without privacy"
        )
    return (
        f"{signal}: on public data sets such models lost at most {lost[1]:.2f} in AUC and "
        f"{lost[2]:.2f} in log-loss to logistic regression without privacy",
        network,
    )


def too_little_signal(budget: StatisticsBudget, sums: str) -> str:
    """What to say before anything is spent, where the signal is too small; else nothing.

    Args:
        sums: what would share the noise among parties.
    """
    if budget.signal >= TOO_LITTLE:
        return ""
    rows = math.ceil(budget.rows * TOO_LITTLE / budget.signal)
    return (
        f"Too little signal: {budget.signal:.1f}, and below {TOO_LITTLE:g} a model is mostly "
        f"noise. Use fewer features, a larger epsilon, more rows (about {rows:,} for this "
        f"epsilon), or {sums}"
    )


@dataclass(frozen=True, eq=False)
class StatisticsTraining:
    """An additive model from private statistics.

    Args:
        service: what charges.
        records: protected.
        schema: public.
        command: who pays how much, and who asks.
    """

    service: ReleaseService
    records: LabelledRecords
    schema: Schema
    command: Train

    @cached_property
    def account(self) -> Account:
        return self.service.vault.account(self.command.account)

    @cached_property
    def budget(self) -> StatisticsBudget:
        """The least noise for which the account grants all three releases."""
        return StatisticsBudget(
            schema=self.schema,
            rows=len(self.records),
            relation=self.account.protected.relation,
            rho=granted_rho(self.account, self.command.epsilon, self.command.delta),
        )

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What the releases cost, in order."""
        return self.budget.events

    @cached_property
    def chain(self) -> ReleaseChain:
        """All three, charged together."""
        asks = self.command
        return ReleaseChain(
            service=self.service,
            following=self._next,
            events=self.events,
            payer=asks.account,
            caller=asks.caller,
            fresh=asks.redraw,
        )

    @property
    def is_begun(self) -> bool:
        """Whether it was paid for before, and is asked for again."""
        return bool(self.chain.paid_before())

    @property
    def paid_before(self) -> tuple[str, tuple[str, ...]]:
        """The data set, and the charges that need not be made any more."""
        charges = (each.charge for each in self.chain.paid_before())
        return self.account.protected.dataset, tuple(filter(None, charges))

    def learn(self) -> PrivateStatistics:
        """All three, paid for; `BudgetExceeded` before anything is drawn."""
        *tables, moments, calibration = self.chain.obtain()
        first = tables[0] if tables else NO_TABLES
        assert isinstance(first, FineTables)
        assert isinstance(moments, CentredMoments)
        assert isinstance(calibration, CalibrationTable)
        promise = joint_guarantee(self.budget, **self._terms)
        return PrivateStatistics(self.budget, first, moments, calibration, promise)

    def quality(self, statistics: PrivateStatistics) -> dict[str, Any]:
        """By the third release, which was charged."""
        return released_quality(statistics)

    def preview(self) -> Preview:
        """What training would cost and be like, all releases together; nothing is charged."""
        found = self.service.preview(self._next([]), payer=self.command.account)
        budget, unit = self.budget, self.budget.target.unit
        last = budget.calibration_noise.sigma / (unit**2 if budget.target.is_number else 1)
        remarks = (*expectation(budget), self.warning, *self.chain.affordable())
        return replace(
            found,
            event=Composed(self.events),
            guarantees=(joint_guarantee(budget, **self._terms),),
            accuracy=(
                f"noise of standard deviation {self._tables_noise}about "
                f"{self._expected_moments_noise:.3g} on sums of the moments "
                f"and {last:.3g} on {'sums' if budget.target.is_number else 'counts'} of the "
                "calibration table"
            ),
            standard_error=None,
            half_width=None,
            remarks=tuple(filter(None, remarks)),
        )

    @property
    def warning(self) -> str:
        """What to say before anything is spent, where the signal is too small; else nothing."""
        return too_little_signal(self.budget, "a secure sum with others who hold such rows")

    @property
    def _tables_noise(self) -> str:
        if not self.budget.table_places:
            return ""
        deviation = self.budget.tables_noise.sigma / self.budget.target.unit
        return f"{deviation:.3g} on counts of the fine tables, "

    @property
    def _expected_moments_noise(self) -> float:
        """If every feature keeps all bins that it may have, and both classes are as frequent."""
        budget = self.budget
        cells = zip(budget.fine_edges, budget.fine_cells, strict=True)
        bins = [budget.bins if edges else min(count, budget.level_bins) for edges, count in cells]
        bins += [len(each.cuts) + 1 for each in self.schema.features if each.cuts is not None]
        kept = [count for count in bins if count > 1]
        even = (1 / budget.target.columns,) * budget.target.columns
        return budget.moments_noise(kept, even).label_deviation

    def _next(self, made: Sequence[Any]) -> Release[Any]:
        """The release after those that were made."""
        earlier = [*made] if self.budget.table_places else [NO_TABLES, *made]
        kind = (PrivateFineTables, PrivateMoments, PrivateCalibrationTable)[len(earlier)]
        known = dict(zip(("tables", "moments"), earlier, strict=False))
        return kind(self.records, self.budget, **self._terms, **known)

    @property
    def _terms(self) -> dict[str, Any]:
        return {"protected": self.account.protected, "delta": self.command.delta}


def granted_rho(account: Account, epsilon: float, delta: float) -> float:
    """The largest cost that an account of this measure and of (epsilon, delta) grants.

    With Rényi orders it is enough that the cost fits at one of them.
    """
    epsilon, delta = checked_target(epsilon, delta, pure=False)
    if account.measure is None:
        raise InvalidInput(
            f"account {account.name!r} is a plan of events that were fixed when it was opened; "
            "training needs an account without a plan"
        )
    budgets, unit = account.measure.budgets(epsilon, delta), account.measure.cost(Zcdp(1.0))
    return max(each / cost for each, cost in zip(budgets, unit, strict=True)) * (1 - MARGIN)
