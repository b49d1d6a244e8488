"""A private model from one table: three charged releases, then everything is free.

Fine tables are charged first, then moments of the bins that they led to, then a calibration table
of the scores that both led to. Each is one transaction: after an interruption only the rest is
paid for. Asking again gives the same model at no cost; a new one (`redraw`) is paid for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from voile.app.calls import Context
from voile.app.commands.train import Train
from voile.app.explain import ReleaseService
from voile.app.explain.charging import AccountQuestions
from voile.app.explain.in_turn import (
    ask_artefact,
    charged_since,
    check_rest_fits,
    is_answered,
    partly_paid,
    records_so_far,
)
from voile.app.explain.rows import check_columns
from voile.app.explain.walk import affordable
from voile.app.explain_rows import PreviewResult
from voile.app.train_quality import CalibrationFigures, charged_quality, joint_quality
from voile.app.trained_model import FOLDER, STATISTICS, TrainedModel, save_trained_model
from voile.core.choices import chosen
from voile.core.errors import InvalidInput
from voile.core.schema import Schema, is_table
from voile.datasets.tables import STDIN, read_protected_table, read_table
from voile.models.additive import link_of
from voile.pipelines.tables import TableRecords
from voile.privacy.events import Composed, PrivacyEvent, Zcdp
from voile.privacy.mechanisms.parameters import MARGIN, checked_target
from voile.records.checkpoints import Kept
from voile.records.ledger import Account
from voile.records.vault import check_named, usual_place
from voile.release import Preview
from voile.release.contract import Release
from voile.release.one_time import Artefact
from voile.release.statistics import (
    LabelledRecords,
    PrivateCalibrationTable,
    PrivateFineTables,
    PrivateMoments,
    PrivateStatistics,
    StatisticsBudget,
    joint_guarantee,
)
from voile.release.statistics.rule import RULE

TOO_LITTLE: Final = RULE.signal.least
"""Under this signal, explanations had little in common with those of a model without noise."""
EXPECTED: Final = (
    (2000.0, 0.01, 0.02),
    (1000.0, 0.02, 0.03),
    (500.0, 0.03, 0.04),
    (200.0, 0.04, 0.05),
    (80.0, 0.05, 0.08),
)
"""From a signal on: the most that models lost in AUC and log-loss to logistic regression without
privacy, on five public data sets, rounded up (results/private_statistics.json, 16,000 rows)."""


@dataclass(frozen=True)
class TrainedModelResult:
    """A model that was paid for.

    Args:
        trained: the model, its guarantee and how good it is.
        new: charges that were made by this call; others were paid before.
        kept: the checkpoint over its records; None where a schedule signs it.
    """

    trained: TrainedModel
    new: tuple[str, ...]
    kept: Kept | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        trained = self.trained
        model = trained.additive
        used = [feature.name for feature in model.bins]
        return {
            "model": str(trained.folder),
            "rows": trained.budget.rows,
            "used_features": used,
            "without_influence": [name for name in model.feature_names if name not in used],
            "quality": dict(trained.quality),
            "charges": list(trained.charges),
            "replayed": not self.new,
            "guarantee": trained.guarantee.to_dict(),
            "checkpoint": None if self.kept is None else str(self.kept),
        }


def train(command: Train, context: Context) -> TrainedModelResult | PreviewResult:
    """Check, then charge three releases, and write what was learned."""
    learner = chosen(LEARNERS, command.model, "model")
    FOLDER.check_place(command.folder)
    schema = _schema(command)
    open_rows = _open_rows(command, schema, context)
    records = LabelledRecords.read(_protected(command, schema), schema)
    check_named(command.signing_key, command.policy)
    place = usual_place(
        database=command.database,
        signing_key=command.signing_key,
        policy=command.policy,
        replay_key=command.replay_key,
    )
    with context.records(place) as service:
        training = learner(service, records, schema, command)
        if command.preview:
            return PreviewResult(training.preview(), len(records))
        if training.warning and not (command.sure or training.is_begun):
            context.ask(f"{training.warning}. Train all the same?")
        before = records_so_far(service)
        with context.charging(service.vault, lambda: ()):
            statistics = training.learn()
            quality = joint_quality(training.quality(statistics), _measured(statistics, open_rows))
            # Signed before anything leaves: a database that is set back afterwards is noticed.
            kept = context.sign(service.vault)
            trained = save_trained_model(statistics, quality, command.folder)
        new = charged_since(service, trained.charges, before)
    return TrainedModelResult(trained, new, kept)


# --- private statistics ---------------------------------------------------------------------------


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
        """What the three releases cost, in order."""
        budget = self.budget
        shares = (budget.tables_rho, budget.moments_rho, budget.calibration_rho)
        return tuple(map(Zcdp, shares))

    @cached_property
    def first(self) -> PrivateFineTables:
        return PrivateFineTables(self.records, self.budget, **self._terms)

    @property
    def is_begun(self) -> bool:
        """Whether the first release was paid for before, and is asked for again."""
        return is_answered(self.service.vault, self._asked(self.first))

    def learn(self) -> PrivateStatistics:
        """All three, paid for; `BudgetExceeded` before anything is drawn."""
        made: list[Any] = []
        for left in (self.events[1:], self.events[2:], ()):
            with partly_paid(len(made), len(self.events)):
                made.append(self._obtain(self._next(made), left))
        tables, moments, calibration = made
        promise = joint_guarantee(self.budget, **self._terms)
        return PrivateStatistics(self.budget, tables, moments, calibration, promise)

    def quality(self, statistics: PrivateStatistics) -> dict[str, Any]:
        """By the charged calibration table."""
        return charged_quality(CalibrationFigures.from_releases(statistics))

    def preview(self) -> Preview:
        """What training would cost and be like, all releases together; nothing is charged."""
        found = self.service.preview(self.first, payer=self.command.account)
        budget = self.budget
        return replace(
            found,
            event=Composed(self.events),
            guarantees=(joint_guarantee(budget, **self._terms),),
            accuracy=(
                f"noise of standard deviation {budget.tables_noise.sigma:.3g} on counts of the "
                f"fine tables, about {self._expected_moments_noise:.3g} on sums of the moments "
                f"and {budget.calibration_noise.sigma:.3g} on counts of the calibration table"
            ),
            standard_error=None,
            half_width=None,
            remarks=tuple(filter(None, (self.expectation, self.warning, *self._affordable()))),
        )

    @property
    def expectation(self) -> str:
        """What to expect, from public facts."""
        budget = self.budget
        signal = (
            f"signal {budget.signal:.0f} ({budget.rows:,} rows, {len(self.schema.features)} "
            f"features, up to {budget.bins} bins of a number)"
        )
        lost = next((each for each in EXPECTED if budget.signal >= each[0]), None)
        if lost is None:
            return f"{signal}: no model of the study did well with so little"
        return (
            f"{signal}: on public data sets such models lost at most {lost[1]:.2f} in AUC and "
            f"{lost[2]:.2f} in log-loss to logistic regression without privacy"
        )

    @property
    def warning(self) -> str:
        """What to say before anything is spent, where the signal is too small; else nothing."""
        budget = self.budget
        if budget.signal >= TOO_LITTLE:
            return ""
        rows = math.ceil(budget.rows * TOO_LITTLE / budget.signal)
        return (
            f"Too little signal: {budget.signal:.1f}, and below {TOO_LITTLE:g} a model is mostly "
            f"noise. Use fewer features, a larger epsilon, more rows (about {rows:,} for this "
            "epsilon), or a secure sum with others who hold such rows"
        )

    @property
    def _expected_moments_noise(self) -> float:
        """If every feature keeps all bins that it may have, and both classes are as frequent."""
        budget = self.budget
        cells = zip(budget.fine_edges, budget.fine_cells, strict=True)
        bins = [budget.bins if edges else min(count, budget.level_bins) for edges, count in cells]
        kept = [count for count in bins if count > 1]
        return budget.moments_noise(kept, 0.5).label_deviation

    def _affordable(self) -> tuple[str, ...]:
        """Whether the account can pay for all of it, or for what is left to pay."""
        made: list[Any] = []
        vault, release = self.service.vault, self._next([])
        while len(made) < len(self.events) - 1 and is_answered(vault, self._asked(release)):
            made.append(self._obtain(release, ()))  # paid for before
            release = self._next(made)
        event = Composed(self.events[len(made) :])
        asked = self._asked(release, event)
        said = affordable(vault, asked, self.command.account, event)
        if not made or is_answered(vault, asked):
            return said
        return tuple(f"{len(made)} of 3 releases are paid for; the rest {each}" for each in said)

    def _next(self, made: Sequence[Any]) -> Release[Any]:
        """The release after those that were made."""
        names = ("tables", "moments")
        if not made:
            return self.first
        kind = (PrivateMoments, PrivateCalibrationTable)[len(made) - 1]
        known = dict(zip(names, made, strict=False))
        return kind(self.records, self.budget, **self._terms, **known)

    @property
    def _terms(self) -> dict[str, Any]:
        return {"protected": self.account.protected, "delta": self.command.delta}

    def _asked(self, release: Release[Any], event: PrivacyEvent | None = None) -> AccountQuestions:
        asks = self.command
        # Only the first is ever fresh by itself: its charge is part of the questions after it.
        fresh = asks.redraw and release is self.first
        vault = self.service.vault
        return ask_artefact(
            vault, release, asks.account, caller=asks.caller, event=event, fresh=fresh
        )

    def _obtain(self, release: Release[Artefact], rest: Sequence[PrivacyEvent]) -> Artefact:
        asks, asked = self.command, self._asked(release)
        check_rest_fits(self.service.vault, asked, rest)
        return self.service.obtain(
            release, payer=asks.account, caller=asks.caller, fresh=asked.fresh
        )


LEARNERS: Final = {STATISTICS: StatisticsTraining}
"""By name, how a model is learned from one table."""


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


# --- what it reads --------------------------------------------------------------------------------


def _schema(command: Train) -> Schema:
    given = command.schema_file
    schema = given if isinstance(given, Schema) else Schema.load(Path(given))
    link_of(schema)
    label = None if schema.label is None else schema.label.name
    if command.target not in (None, label):
        raise InvalidInput(
            f"--target {command.target!r}: the label of the schema {schema.name!r} is {label!r}; "
            "only the label can be predicted"
        )
    return schema


def _protected(command: Train, schema: Schema) -> Any:
    """The protected rows; only the columns that are there can be wrong."""
    return _table(command.rows, schema, read_protected_table)


def _open_rows(command: Train, schema: Schema, context: Context) -> TableRecords | None:
    """Rows to measure on, checked before anything is charged."""
    given = command.held_out
    if given is None:
        return None
    from voile.app.federate.tables import check_open_rows

    if _is_file(given) and (str(given) == STDIN or not _is_named_file(command.rows)):
        raise InvalidInput(
            "--held-out: the protected rows are in no named file, so nothing tells whether these "
            "are the same; give both as files, or both as tables in Python"
        )
    if _is_same(given, command.rows):
        raise InvalidInput(
            "--held-out: these are the protected rows, and figures measured on them would be "
            "released without a charge; give public rows"
        )
    table = _table(given, schema, read_table)
    columns = {str(name): table[name] for name in table.keys()}  # noqa: SIM118
    source = Path(given) if _is_file(given) else Path("held-out rows")
    for remark in check_open_rows(schema, columns, source, labelled=True):
        context.say(remark)
    found = TableRecords.read(schema, table).readable()
    if np.isnan(found.labels).all():
        raise InvalidInput(f"{source}: no row has a label and a feature that can be read")
    return found


def _measured(statistics: PrivateStatistics, rows: TableRecords | None) -> dict[str, Any] | None:
    """How good the model is on public rows."""
    if rows is None:
        return None
    from voile.app.federate.quality import judged_rows

    return judged_rows(statistics.model.predict(rows.rows), rows)


def _table(given: Any, schema: Schema, read: Any) -> Any:
    table = read(given) if _is_file(given) else given
    if not is_table(table):
        raise InvalidInput("expected the name of a file, or a table with a column for each feature")
    check_columns(table, schema, given if _is_file(given) else "", labelled=True)
    return table


def _is_file(given: Any) -> bool:
    return isinstance(given, str | PathLike)


def _is_named_file(given: Any) -> bool:
    return _is_file(given) and str(given) != STDIN


def _is_same(one: Any, other: Any) -> bool:
    if not (_is_file(one) and _is_file(other)):
        return one is other
    here, there = Path(one), Path(other)
    return here == there or (here.exists() and there.exists() and here.samefile(there))
