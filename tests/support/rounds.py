"""A round log for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from voile.federation import RoundReport


@dataclass(frozen=True, eq=False)
class ListedRounds:
    """Keeps all reports in a list, lost with the process."""

    reports: list[RoundReport] = field(default_factory=list)

    def after_round(self, report: RoundReport) -> None:
        self.reports.append(report)
