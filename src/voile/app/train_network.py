"""A network by DP-SGD from one table: its price, what to expect, how good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from voile.app.expected_statistics import expectation as statistics_expectation
from voile.app.federate.expectation import attainable, expected_of, noise_to_signal, studied
from voile.app.train_chain import Training, measured_quality
from voile.app.train_quality import (
    joint_quality,
)
from voile.app.trained_network import (
    ReleasedNetwork,
    TrainedNetwork,
    save_trained_network,
    score_quality,
)
from voile.core.errors import InvalidInput
from voile.core.guarantee import Guarantee
from voile.core.schema import Rows, Schema
from voile.core.schema.schema import draw_rows
from voile.pipelines.calibration import Calibration, fit_calibration, slope_under, split_open_rows
from voile.pipelines.objectives import BLACK_BOX
from voile.pipelines.score_table import (
    PrivateScoreTable,
    ScoreBins,
    ScoreCalibration,
    ScoreTable,
)
from voile.pipelines.table_network import (
    NetworkParameters,
    PrivateTableNetwork,
    TableNetworkPlan,
    joint_guarantee,
)
from voile.pipelines.tables import TableRecords
from voile.privacy.events import PrivacyEvent
from voile.release.contract import Release
from voile.release.statistics import StatisticsBudget

STUDY: Final = "private explainer"
"""The pipeline whose black box is this network, in the study of expected quality."""
HARDLY: Final = 0.25
"""Where noise leaves less of what a plain model gains, a network is mostly noise."""
_REFERENCE_ROWS: Final = 50
_SEED: Final = 0
"""Of public rows: a model that is asked for again is explained over the same ones."""


class LearnedNetwork(NamedTuple):
    """What was charged; the table where the label has two classes."""

    network: NetworkParameters
    table: ScoreTable | None


@dataclass(frozen=True, eq=False)
class NetworkTraining(Training):
    """A network by DP-SGD and, for two classes, the table that calibrates it."""

    @staticmethod
    def read(table: Any, schema: Schema) -> TableRecords:
        return TableRecords.read(schema, table)

    @cached_property
    def plan(self) -> TableNetworkPlan:
        """The least noise for which the account grants all releases."""
        return TableNetworkPlan(self.schema, len(self.records), self.account.protected, self.rho)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.plan.events

    def following(self, made: Sequence[Any]) -> Release[Any]:
        if not made:
            return PrivateTableNetwork(
                self.records, self.plan, **self.terms, progress=self.progress
            )
        return PrivateScoreTable(self.records, self.plan, made[0], **self.terms)

    @property
    def promise(self) -> Guarantee:
        return joint_guarantee(self.plan, delta=self.delta)

    def learn(self) -> LearnedNetwork:
        network, table = (*self.chain.obtain(), None)[:2]
        assert isinstance(network, NetworkParameters)
        assert isinstance(table, ScoreTable | None)
        return LearnedNetwork(network, table)

    def save(self, learned: LearnedNetwork, folder: Path) -> TrainedNetwork:
        fitted, measured = self._open_parts
        scores = self._scores(learned)
        made = ReleasedNetwork(
            self.plan,
            learned.network.arrays,
            self._by_open_rows(learned, fitted) if scores is None else scores.calibration,
            tuple(each.charge for each in learned if each is not None and each.charge is not None),
            self.promise,
        )
        charged = None if scores is None else score_quality(scores)
        quality = joint_quality(charged, measured_quality(made.model.predict, measured))
        return save_trained_network(
            made, quality, self._reference, folder, invented=self.open_rows is None
        )

    # --- what to expect -------------------------------------------------------------------------

    @property
    def accuracy(self) -> str:
        plan = self.plan
        table = ", and a charged table that calibrates it" if plan.has_score_table else ""
        return (
            f"a network with {plan.training.hidden[0]} hidden units, {plan.steps} steps over all "
            f"rows with noise of {plan.noise_multiplier:.3g} clipping norms{table}"
        )

    @property
    def expectation(self) -> tuple[str, ...]:
        """Of this network and, from the same budget, of private statistics instead."""
        return (
            f"noise for each unit of signal {self._noise:.2g}: {self._kept}",
            *self._figures,
            *self._instead,
        )

    @property
    def warning(self) -> str:
        kept = self._studied_share
        if kept is None or kept >= HARDLY:
            return ""
        return (
            f"Too much noise for so few rows: in federations of generated data it left a network "
            f"{max(kept, 0.0):.0%} of what a plain model gains. Use --model statistics, fewer "
            "features, a larger epsilon or more rows"
        )

    @cached_property
    def _noise(self) -> float:
        found = noise_to_signal(self.plan.stage, self.plan.facts.sizes)
        assert found is not None
        return found

    @property
    def _studied_share(self) -> float | None:
        """Of what a plain model gains, as it was seen with so much noise; classes alone."""
        if self.plan.objective.answers < 2:
            return None
        lines = studied()[STUDY][BLACK_BOX]
        return next(line.kept for line in lines if self._noise <= line.up_to)

    @property
    def _kept(self) -> str:
        kept = self._studied_share
        if kept is None:
            return "no study tells what to expect of a number"
        return (
            f"in federations of generated data such a network kept {min(max(kept, 0.0), 1.0):.0%} "
            "of the accuracy that a plain model gains over a constant answer"
        )

    @property
    def _figures(self) -> tuple[str, ...]:
        """With open rows, the figure to expect."""
        found = None if self.open_rows is None else attainable(self.open_rows)
        if found is None:
            return ()
        return tuple(
            f"expected {each} on rows like those that are held out"
            for each in expected_of({BLACK_BOX: self._noise}, found, STUDY)
        )

    @property
    def _instead(self) -> tuple[str, ...]:
        plan = self.plan
        try:
            budget = StatisticsBudget(
                schema=plan.schema,
                rows=plan.rows,
                relation=plan.protected.relation,
                rho=plan.rho,
            )
        except InvalidInput:  # this schema has no private statistics
            return ()
        first, *rest = statistics_expectation(budget)
        return (f"with --model statistics: {first}", *rest)

    # --- what is made at no cost ----------------------------------------------------------------

    @cached_property
    def _open_parts(self) -> tuple[TableRecords | None, TableRecords | None]:
        """Open rows to calibrate on, where no charged table does, and those to measure on."""
        if self.open_rows is None or self.plan.has_score_table:
            return None, self.open_rows
        return split_open_rows(self.open_rows)

    def _scores(self, learned: LearnedNetwork) -> ScoreCalibration | None:
        if learned.table is None:
            return None
        bins = ScoreBins(self.plan.model(learned.network.arrays))
        return ScoreCalibration(self.plan, bins, learned.table.counts)

    def _by_open_rows(
        self, learned: LearnedNetwork, fitted: TableRecords | None
    ) -> Calibration | None:
        if fitted is None:
            return None
        model = self.plan.model(learned.network.arrays)
        return fit_calibration(model, fitted, expected_slope=slope_under(self._noise))

    @cached_property
    def _reference(self) -> Rows:
        """Some of the open rows, or rows drawn from the schema."""
        draw = np.random.default_rng(_SEED)
        if self.open_rows is None:
            return draw_rows(self.schema, _REFERENCE_ROWS, draw)
        rows = self.open_rows.rows
        return rows[draw.permutation(len(rows))[:_REFERENCE_ROWS]]
