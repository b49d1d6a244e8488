"""Trust that is measured instead of reported, for servers that are shown single updates.

In a `TrustedRound` parties report accuracy and divergence, and a server that sees sums only cannot
check them: a liar gets the largest weight. Where updates may be seen (they carry their own noise in
private mode, whose guarantee is against such a server), the server measures both itself on the
public rows, and compares every update with one that it trains on these rows (Cao and others, 2021):

    λ_i ∝ T_i·max(0, 1 − τ·D_i)·c_i,    reward ∝ T_i·c_i·d_i,    ‖u_i‖ cut to the median of all

c_i and d_i judge the sum of a party's updates since the start (`evidence`). The server's update is
clipped like the parties', without noise and without draws. No weight is above one half; if fewer
than two parties have any, the arrays stay as they are. It takes labelled public rows that are like
the parties' rows; how many, is measured in docs/trusted-averaging.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.schema import Schema
from voile.evaluation.measures import area_under_curve
from voile.federation.aggregators import Memory
from voile.federation.arrays import Array, Arrays, Shapes, digest_of_arrays
from voile.federation.messages import Instruction
from voile.federation.round_protocol import Exchange, PlainRound, RoundCall, RoundResult
from voile.pipelines.network_task import NetworkTask
from voile.pipelines.tables import NetworkModel, OutputHead, TableRecords
from voile.pipelines.trusted_averaging.evidence import (
    DIRECTIONS,
    EvidenceHistory,
    PartyEvidence,
    RoundEvidence,
    needed_quantile,
    over_median,
    shares_from,
)
from voile.pipelines.trusted_averaging.history import Score, TrustHistory, recomputed_trust
from voile.pipelines.trusted_averaging.importance import ImportanceDesign, shares_of
from voile.pipelines.trusted_averaging.protocol import FEWEST, ComparisonRows, Reports
from voile.pipelines.trusted_averaging.tasks import clipped
from voile.pipelines.trusted_averaging.trust import TrustRule
from voile.training import with_arrays

_SUM: Final = "sum of "
REFERENCE: Final = "reference: sum of updates"
START: Final = "reference: start"
PUBLIC_ROWS: Final = "digest of public rows"


@dataclass(frozen=True, eq=False)
class VerifiedRound:
    """One exchange; every update is judged on public rows.

    Args:
        rule: what all parties have agreed on about trust.
        schema: what rows look like.
        network: what parties train; the server's own update on public rows follows from it.
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
        return TableRecords(self.schema, rows, labels, null), ImportanceDesign.from_rows(
            self.schema, rows
        )

    def run(self, call: RoundCall, exchange: Exchange) -> RoundResult:
        reports = Reports()
        result = PlainRound(reports).run(call, exchange)
        history = TrustHistory.from_memory(call.memory)
        if len(reports.said) < FEWEST:
            return RoundResult(None, call.memory, result.heard)
        lengths = {name: _length(change) for name, change in sorted(reports.said.items())}
        length = float(np.median(list(lengths.values())))
        changes = {name: clipped(reports.said[name], length) for name in lengths}
        judged = self._judged(call.instruction, changes, history)
        sums = self._sums(call, changes)
        about, found = self._evidence(call, lengths, sums)
        shares = shares_from(
            self.rule,
            found,
            {name: score.trust for name, score in judged.scores.items()},
            {name: score.divergence for name, score in judged.scores.items()},
            told=about.told,
            pot=self.pot,
        )
        kept = EvidenceHistory.from_memory(call.memory)
        if shares is None:
            later = kept.after(found, about._replace(counted=False))
            record = {**history.as_memory(), **later.as_memory(), **sums, **self._rows_digest}
            return RoundResult(None, record, result.heard)
        weights, rewards = shares
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
        grown = history.after(scores, judged.common.tolist(), equal=not about.told)
        later = kept.after(found, about)
        record = {**grown.as_memory(), **later.as_memory(), **sums, **self._rows_digest}
        return RoundResult(mean, record, result.heard)

    # --- what is known of parties over rounds -------------------------------------------------

    @cached_property
    def _rows_digest(self) -> Memory:
        assert self.public is not None
        found = bytes.fromhex(digest_of_arrays(self.public.given))
        return {PUBLIC_ROWS: np.array(list(found), dtype=np.float64)}

    def _sums(self, call: RoundCall, changes: Mapping[str, Arrays]) -> dict[str, Any]:
        """Of each party's cut updates and of the reference, and where all of them began."""
        arrays = call.instruction.arrays
        asked = Instruction(call.instruction.stage, call.instruction.round, arrays)
        own = self.network.reference(asked, self._known[0])
        known = {
            n: each
            for n, each in call.memory.items()
            if n.startswith(_SUM) or n in (REFERENCE, START)
        }
        now = {f"{_SUM}{name}": _flat(change) for name, change in changes.items()}
        for name, each in {**now, REFERENCE: _flat(own)}.items():
            known[name] = known[name] + each if name in known else each
        known.setdefault(START, _flat(arrays))
        return known

    def _evidence(
        self, call: RoundCall, lengths: Mapping[str, float], sums: Mapping[str, Any]
    ) -> tuple[RoundEvidence, dict[str, PartyEvidence]]:
        arrays, number = call.instruction.arrays, call.instruction.round
        before = EvidenceHistory.from_memory(call.memory)
        mine = {name: sums[f"{_SUM}{name}"] for name in lengths}
        said = {n: self._discrimination(sums[START] + each, arrays) for n, each in mine.items()}
        cosines = {name: _cosine(each, sums[REFERENCE]) for name, each in mine.items()}
        middle = float(np.median(list(lengths.values())))
        far = float(np.median([np.linalg.norm(each) for each in mine.values()]))
        draw = np.random.default_rng([number, len(sums[START])])
        blind = []
        for _ in range(DIRECTIONS):
            way = draw.standard_normal(len(sums[START]))
            way *= far / np.linalg.norm(way)
            blind.append(self._discrimination(sums[START] + way, arrays))
        needed = float(np.quantile(blind, needed_quantile(len(lengths))))
        medians = [float(np.median(list(each.values()))) for each in (said, cosines)]
        if medians[0] > max(needed, 0.0) and medians[1] > 0:
            told, scored, matched = True, over_median(said), over_median(cosines)
        else:
            told = before.is_told
            carried = {name: before.carried(name) for name in lengths}
            scored, matched = ({n: each[i] for n, each in carried.items()} for i in (0, 1))
        training = self.network.training
        norm = training.clipping_norm if self.network.noise_multiplier else math.inf
        about = RoundEvidence(
            number, needed, medians[0], medians[1], told, training.steps,
            norm,
            training.rate_in(number), len(self._known[0]), counted=True,
        )  # fmt: skip
        return about, {
            n: PartyEvidence(
                number, lengths[n] / middle if middle > 0 else 0.0, said[n], cosines[n],
                scored[n], matched[n],
            )
            for n in lengths
        }  # fmt: skip

    def _discrimination(self, values: NDArray[np.float64], like: Arrays) -> float:
        """2·AUC − 1 on the public rows; 0 where they have one label only.

        Rows are ranked by log odds: a sum of many updates saturates probabilities, and ties would
        hide what an honest party with few rows of one label knows.
        """
        records = self._known[0]
        said = with_arrays(_unflat(values, like))(records.columns).astype(np.float64)
        odds = np.stack(
            [
                said[:, k] - np.logaddexp.reduce(np.delete(said, k, axis=1), axis=1)
                for k in range(said.shape[1])
            ],
            axis=1,
        )
        found = 2 * area_under_curve(odds, records.labels.astype(np.intp)) - 1
        return found if math.isfinite(found) else 0.0

    def _judged(
        self, instruction: Instruction, changes: Mapping[str, Arrays], history: TrustHistory
    ) -> _Judged:
        records, design = self._known
        head, shares, accuracies = OutputHead.of_label(self.schema), {}, {}
        for name, change in changes.items():
            arrays = {n: instruction.arrays[n] + change[n] for n in change}
            model = NetworkModel.from_arrays(self.schema, head, arrays)
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


def _unflat(values: NDArray[np.float64], like: Arrays) -> dict[str, Array]:
    names = sorted(like)
    parts = np.split(values, np.cumsum([like[n].size for n in names])[:-1])
    return {
        n: part.reshape(like[n].shape).astype(np.float32)
        for n, part in zip(names, parts, strict=True)
    }


def _cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / lengths if lengths > 0 else 0.0
