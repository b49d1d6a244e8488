"""What a trusted federation writes down and shows besides: scores of each party in each round.

Everything here is computed from the record of a round, which the parties' reports make up; under
the promise of the federation these are post-processing, so they may be published and anchored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from voile.audit_log import Record, RewardRecord, TrustRecord, published_round_hash
from voile.core.storage import Transaction
from voile.federation import RoundReport
from voile.pipelines.trusted_averaging import (
    TrustHistory,
    TrustRule,
    consistency_of,
)
from voile.workflows.custody import Custody

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
    """Trust and reward of everybody whose update counted in this round, in order of names."""
    history = TrustHistory.of(report.memory)
    where: dict[str, Any] = {"time": time, "federation": federation, "round": report.round}
    found: list[Record] = []
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


@dataclass(frozen=True)
class ExactTrustLog:
    """The books of rounds without privacy, in an audit log: every record says that it is exact.

    Args:
        books: whose log.
        federation: its name.
        rule: what parties have agreed on about trust.
    """

    books: Custody
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
    history = TrustHistory.of(report.memory)
    last = {n: score for n, score in history.last().items() if score.round == report.round}
    weights = [np.asarray(report.arrays[name]).ravel() for name in sorted(report.arrays)]
    return published_round_hash(
        np.concatenate(weights) if weights else np.zeros(0),
        history.common[-1].shares if last else (),
        {name: score.divergence for name, score in last.items()},
        {name: score.trust for name, score in last.items()},
        previous or b"",
    )
