"""What a trusted federation adds to the log: scores of each party in each round.

Everything here is computed from the record of a round, which the parties' reports make up; under
the promise of the federation these are post-processing, so they may be published and anchored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from voile.federation import RoundReport
from voile.pipelines.trusted_averaging import (
    TrustHistory,
    TrustRule,
    consistency_of,
)
from voile.pipelines.trusted_averaging.evidence import (
    DIRECTIONS,
    LEVEL,
    LONGEST,
    SHORTEST,
    EvidenceHistory,
)
from voile.pipelines.trusted_averaging.verified import PUBLIC_ROWS
from voile.records.audit_log import (
    EvidenceRecord,
    Record,
    RewardRecord,
    TrustRecord,
    WeightingRecord,
    published_round_hash,
)
from voile.records.storage import Transaction
from voile.records.vault import Vault

RELEASED, EXACT = "released", "exact"
"""Whether accuracy and divergence are covered by a guarantee; exact ones are not."""
_HOUR: Final = 3600


def trust_records(
    report: RoundReport,
    rule: TrustRule,
    *,
    federation: str,
    time: int,
    agreement: str | None,
    covered: str = RELEASED,
) -> list[Record]:
    """Trust and reward of each party whose update counted in this round, in order of names.

    Where the server measured, what weights and rewards were computed from comes first.
    """
    history = TrustHistory.from_memory(report.memory)
    where: dict[str, Any] = {"time": time, "federation": federation, "round": report.round}
    found = _evidence_records(report, rule, where | {"agreement": agreement})
    for client, score in sorted(history.last().items()):
        if score.round != report.round:
            continue
        past = [each.accuracy for each in history.scores[client]]
        found += [
            TrustRecord(
                **where,
                client=client,
                accuracy=score.accuracy,
                divergence=score.divergence,
                consistency=consistency_of(past),
                trust=score.trust,
                weight=score.weight,
                measure=rule.divergence.value,
                covered=covered,
                agreement=agreement,
            ),
            RewardRecord(
                **where,
                client=client,
                trust=score.trust,
                reward=score.reward,
                agreement=agreement,
            ),
        ]
    return found


def _evidence_records(report: RoundReport, rule: TrustRule, where: dict[str, Any]) -> list[Record]:
    history = EvidenceHistory.from_memory(report.memory)
    if not history.rounds or history.rounds[-1].round != report.round:
        return []
    about, digest = history.rounds[-1], report.memory[PUBLIC_ROWS]
    weighting = WeightingRecord(
        **where,
        public_rows=bytes(int(value) for value in digest),
        rows=about.rows,
        steps=about.steps,
        rate=about.rate,
        clipping_norm=about.clipping_norm if math.isfinite(about.clipping_norm) else None,
        level=LEVEL,
        directions=DIRECTIONS,
        needed=about.needed,
        median_discrimination=about.median_discrimination,
        median_cosine=about.median_cosine,
        told_apart=int(about.told),
        tau=float(rule.tau),
        largest_share=float(rule.largest_share),
        shortest=SHORTEST,
        longest=LONGEST,
    )
    now = {name: rows[-1] for name, rows in sorted(history.parties.items())}
    return [
        weighting,
        *(
            EvidenceRecord(**{**each._asdict(), **where}, client=name)
            for name, each in now.items()
            if each.round == report.round
        ),
    ]


@dataclass(frozen=True)
class ExactTrustLog:
    """The books of rounds without privacy, in an audit log: every record says that it is exact.

    Args:
        books: whose log.
        federation: its name.
        rule: what parties have agreed on about trust.
    """

    books: Vault
    federation: str
    rule: TrustRule

    def after_round(self, report: RoundReport) -> None:
        """Write scores down. Told twice after a crash, a round is written twice."""
        now = int(self.books.ledger.now()) // _HOUR * _HOUR
        records = trust_records(
            report, self.rule, federation=f"{self.federation}: {report.stage}", time=now,
            agreement=None, covered=EXACT,
        )  # fmt: skip

        def command(transaction: Transaction) -> None:
            for record in records:
                self.books.log.append(transaction, record)

        self.books.storage.submit(command)


def trusted_hash(report: RoundReport, previous: bytes | None) -> bytes:
    """H_t as published (III-F), over the model, the common importance, divergences and trust."""
    history = TrustHistory.from_memory(report.memory)
    last = {n: score for n, score in history.last().items() if score.round == report.round}
    weights = [np.asarray(report.arrays[name]).ravel() for name in sorted(report.arrays)]
    return published_round_hash(
        np.concatenate(weights) if weights else np.zeros(0),
        history.common[-1].shares if last else (),
        {name: score.divergence for name, score in last.items()},
        {name: score.trust for name, score in last.items()},
        previous or b"",
    )
