"""Trust that is measured instead of reported, for servers that are shown single updates.

In a `TrustedRound` parties report accuracy and divergence, and a server that sees sums only cannot
check them: a liar gets the largest weight. Where updates may be seen (they carry their own noise in
private mode, whose guarantee is against such a server), the server measures both itself on the
public rows, and compares every update with one that it trains on these rows (Cao and others, 2021):

    λ_i ∝ T_i·max(0, 1 − τ·D_i)·max(0, cos(u_i, u_0)),    ‖u_i‖ cut to the median of all

So nothing that a party says counts, an update that points away from what public rows teach has no
weight, and no update is longer than half of the others. If nobody is left, the arrays stay as they
are. It takes labelled public rows that are like the parties' rows; how many, is measured in
docs/trusted-averaging.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from voile.core.randomness import Seeded
from voile.core.schema import Schema
from voile.federation.aggregators import Memory
from voile.federation.arrays import Array, Arrays, Shapes
from voile.federation.messages import Instruction
from voile.federation.round_protocol import Exchange, PlainRound, RoundCall, RoundResult
from voile.pipelines.network_task import NetworkTask
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.pipelines.trusted_averaging.history import Score, TrustHistory, recomputed_trust
from voile.pipelines.trusted_averaging.importance import ImportanceDesign, shares_of
from voile.pipelines.trusted_averaging.protocol import FEWEST, ComparisonRows, Reports
from voile.pipelines.trusted_averaging.tasks import clipped
from voile.pipelines.trusted_averaging.trust import TrustRule, rewards_of


@dataclass(frozen=True, eq=False)
class VerifiedRound:
    """One exchange; every update is judged on public rows.

    Args:
        rule: what all parties have agreed on about trust.
        schema: what rows look like.
        network: what is trained, without noise; for the server's own update on public rows.
        public: rows and labels that nobody protects.
        pot: what is shared out by trust in each round.
    """

    rule: TrustRule
    schema: Schema
    network: NetworkTask = field(repr=False)
    public: ComparisonRows | None = field(default=None, repr=False)
    pot: float = 1.0

    def check(self, clients: int, largest_change: float) -> None:
        """Nothing can go wrong in a plain sum."""

    def remembered(self, shapes: Shapes) -> Memory:  # noqa: ARG002
        return {}

    @cached_property
    def _known(self) -> tuple[TableRecords, ImportanceDesign]:
        assert self.public is not None
        rows = self.schema.clamp(np.asarray(self.public.rows, dtype=np.float64))
        labels = np.asarray(self.public.labels, dtype=np.float64)
        null = np.zeros(len(rows), dtype=bool)
        return TableRecords(self.schema, rows, labels, null), ImportanceDesign.over(
            self.schema, rows
        )

    def run(self, call: RoundCall, exchange: Exchange) -> RoundResult:
        reports = Reports()
        result = PlainRound(reports).run(call, exchange)
        history = TrustHistory.of(call.memory)
        if len(reports.said) < FEWEST:
            return RoundResult(None, call.memory, result.heard)
        own = self._own_update(call.instruction)
        length = float(np.median([_length(change) for change in reports.said.values()]))
        changes = {name: clipped(change, length) for name, change in sorted(reports.said.items())}
        judged = self._judged(call.instruction, changes, history)
        worth = {
            name: self.rule.worth(score.trust, score.divergence) * _cosine(changes[name], own)
            for name, score in judged.scores.items()
        }
        total = math.fsum(worth.values())
        if not total > 0:
            return RoundResult(None, call.memory, result.heard)
        weights = {name: each / total for name, each in worth.items()}
        rewards = rewards_of(
            {n: judged.scores[n].trust * _cosine(changes[n], own) for n in changes}, self.pot
        )
        scores = {
            name: score._replace(weight=weights[name], reward=rewards[name])
            for name, score in judged.scores.items()
        }
        mean = {
            name: np.sum([weights[n] * changes[n][name] for n in changes], axis=0).astype(
                np.float32
            )
            for name in call.shapes
        }
        grown = history.after(scores, judged.common.tolist(), equal=False)
        return RoundResult(mean, grown.as_memory(), result.heard)

    def _own_update(self, instruction: Instruction) -> Arrays:
        """What the public rows teach; anybody can compute it again."""
        asked = Instruction(instruction.stage, instruction.round, instruction.arrays)
        records, _ = self._known
        return self.network.fit(asked, records, len(records), Seeded(instruction.round)).change

    def _judged(
        self, instruction: Instruction, changes: Mapping[str, Arrays], history: TrustHistory
    ) -> _Judged:
        records, design = self._known
        head, shares, accuracies = OutputHead.of_label(self.schema), {}, {}
        for name, change in changes.items():
            arrays = {n: instruction.arrays[n] + change[n] for n in change}
            model = NetworkModel.of(self.schema, head, arrays)
            shares[name] = shares_of(design.strengths(model))
            right = model.predict(records.rows).argmax(axis=1) == records.labels
            accuracies[name] = float(np.float32(right.mean()))
        before = history.trusts(list(changes))
        common = np.sum([before[n] * shares[n] for n in changes], axis=0)
        common = common / common.sum()
        scores = {}
        for name in changes:
            far = self.rule.divergence.between(shares[name], common)
            trust = recomputed_trust(self.rule, history.accuracies(name), accuracies[name], far)
            scores[name] = Score(instruction.round, accuracies[name], far, trust, 0.0, 0.0)
        return _Judged(scores, common)


@dataclass(frozen=True, eq=False)
class _Judged:
    scores: Mapping[str, Score]
    common: NDArray[np.float64]


def _flat(change: Arrays) -> NDArray[np.float64]:
    return np.concatenate([np.asarray(change[n], dtype=np.float64).ravel() for n in sorted(change)])


def _length(change: Arrays) -> float:
    return float(np.linalg.norm(_flat(change)))


def _cosine(change: Mapping[str, Array], own: Arrays) -> float:
    """Never below 0: what points away from what public rows teach has no weight."""
    first, second = _flat(change), _flat(own)
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return max(0.0, float(first @ second) / lengths) if lengths > 0 else 0.0
