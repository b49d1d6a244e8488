"""What a federation is to do: whose rows, what promise, how much training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from voile.attribution.fastshap import EXPLAINER_PLAN
from voile.core.guarantee import Protected
from voile.core.schema import Rows, Schema
from voile.pipelines.private_explainer.plan import Facts, PipelinePlan, split_total
from voile.pipelines.tables import TableRecords
from voile.training import TrainingPlan


@dataclass(frozen=True, eq=False)
class Job:
    """Everything a federation needs.

    Args:
        protected: what is promised for each client: a row of this version of the data, whose label
            is the federation's name too.
        schema: public.
        clients: the rows of each, by name.
        held_out: rows listed as unprotected; figures are measured on them.
        reference: public rows that interventional explanations are compared with.
        epsilon, delta: of that promise.
        rounds, participations: see `Facts`.
        hidden: widths of hidden layers; the default of each stage if None.
        distillation: how the fast explainer is trained; it touches no data.
        remarks: what is odd about unprotected rows, said before anything is charged.
        folder: of the run.
    """

    protected: Protected
    schema: Schema
    clients: Mapping[str, TableRecords]
    held_out: TableRecords
    reference: Rows
    epsilon: float
    delta: float
    folder: Path
    rounds: int = 10
    participations: int | None = None
    hidden: tuple[int, ...] | None = None
    distillation: TrainingPlan = EXPLAINER_PLAN
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.protected.dataset

    @property
    def plan(self) -> PipelinePlan:
        """What all parties agree on, from public facts."""
        sizes = {name: len(records) for name, records in self.clients.items()}
        each = None
        if self.participations is not None and self.participations < self.rounds:
            each = max(1, len(sizes) * self.participations // self.rounds)
        facts = Facts(
            schema=self.schema,
            sizes=sizes,
            protected=self.protected,
            rounds=self.rounds,
            clients_per_round=each,
            participations=self.participations,
        )
        plan = split_total(facts, epsilon=self.epsilon, delta=self.delta)
        if self.hidden is None:
            return plan
        wide = {name: replace(each, hidden=self.hidden) for name, each in plan.training.items()}
        return replace(plan, training=wide)
