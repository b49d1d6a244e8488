"""Federations, as the log of this party tells of them: rounds, parties, absences, trust."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from voile.app.artefact import Artefact, load_artefact
from voile.app.dashboard.dashboard import Dashboard
from voile.app.dashboard.record_index import CHUNK, RecordQuery
from voile.app.report import check_log
from voile.core.errors import VoileError
from voile.records.audit_log import (
    AbsenceRecord,
    FederationRoundRecord,
    ParticipationRecord,
    TrustRecord,
    decode_record,
)
from voile.records.storage import Reader

KINDS: Final = tuple(
    kind.kind for kind in (FederationRoundRecord, ParticipationRecord, AbsenceRecord, TrustRecord)
)
_MOST: Final = 400
"""Records of each kind, the latest."""
_MOST_ROUNDS: Final = 60


@dataclass(frozen=True)
class RoundLine:
    """One round."""

    number: int
    time: int
    clients: int
    absent: tuple[str, ...]
    record: int


@dataclass(frozen=True)
class PartyLine:
    """One party, in the rounds that are shown.

    Args:
        trust: round and trust, oldest first.
    """

    name: str
    rounds: int
    absences: int
    trust: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class FederationView:
    """One federation: its latest rounds, newest first."""

    name: str
    rounds: tuple[RoundLine, ...]
    parties: tuple[PartyLine, ...]


@dataclass(frozen=True)
class LogLine:
    """The log of one party, as its artefact holds it.

    Args:
        fault: which step of checking it failed, and why; empty if it verifies.
    """

    party: str
    fault: str


@dataclass(frozen=True)
class FederationPage:
    """All of them.

    Args:
        logs: of each release that comes from an artefact with the logs of its parties, what
            became of checking them.
        left_out: records that are older than what is shown.
    """

    federations: tuple[FederationView, ...]
    logs: tuple[tuple[str, tuple[LogLine, ...]], ...]
    left_out: int


def federation_page(dashboard: Dashboard) -> FederationPage:
    """From the latest records of the log."""
    dashboard.index.follow(most=CHUNK)
    numbers: list[int] = []
    left_out = 0
    for kind in KINDS:
        found, total = dashboard.index.search(RecordQuery(kind), most=_MOST)
        numbers += found
        left_out += total - len(found)
    records = _decoded(dashboard, sorted(numbers))
    names = dict.fromkeys(record.federation for _, record in records)
    views = tuple(_view(name, [r for r in records if r[1].federation == name]) for name in names)
    return FederationPage(views, _logs(dashboard), left_out)


def _decoded(dashboard: Dashboard, numbers: Sequence[int]) -> list[tuple[int, Any]]:
    log = dashboard.vault.log

    def read(t: Reader) -> list[tuple[int, Any]]:
        return [(number, decode_record(log.record(t, number))) for number in numbers]

    return dashboard.vault.storage.read_snapshot(read)


def _view(name: str, records: Sequence[tuple[int, Any]]) -> FederationView:
    absent: defaultdict[int, list[str]] = defaultdict(list)
    took_part: Counter[str] = Counter()
    trust: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for _, record in records:
        if isinstance(record, AbsenceRecord):
            absent[record.round].append(f"{record.client}: {record.outcome}")
        elif isinstance(record, ParticipationRecord):
            took_part[record.account] += 1
        elif isinstance(record, TrustRecord):
            trust[record.client].append((record.round, record.trust))
    rounds = [
        RoundLine(r.round, r.time, r.clients, tuple(absent[r.round]), number)
        for number, r in records
        if isinstance(r, FederationRoundRecord)
    ]
    missed = Counter(line.partition(":")[0] for lines in absent.values() for line in lines)
    parties = sorted({*took_part, *missed, *trust})
    return FederationView(
        name,
        tuple(rounds[: -_MOST_ROUNDS - 1 : -1]),
        tuple(
            PartyLine(each, took_part[each] or len(trust[each]), missed[each], tuple(trust[each]))
            for each in parties
        ),
    )


def _logs(dashboard: Dashboard) -> tuple[tuple[str, tuple[LogLine, ...]], ...]:
    """Of each release from an artefact, the logs in it; none of them is believed unchecked."""
    artefacts = {name: each.job.artefact for name, each in dashboard.workspace.releases.items()}
    return tuple(
        (name, log_lines(artefact))
        for name, artefact in artefacts.items()
        if isinstance(artefact, Artefact)
    )


def log_lines(artefact: Artefact) -> tuple[LogLine, ...]:
    """Each log against the policy of its party: unchanged since it was signed."""
    return tuple(LogLine(party, _fault(artefact, party)) for party in artefact.settings["logs"])


def _fault(artefact: Artefact, party: str) -> str:
    try:
        changed = tuple(
            (each.name, each.stat().st_mtime_ns) for each in artefact.log_folder(party).iterdir()
        )
        return _checked(artefact.folder, party, changed)
    except (OSError, VoileError) as error:
        return str(error)


@lru_cache(maxsize=256)
def _checked(folder: Path, party: str, _changed: tuple[tuple[str, int], ...]) -> str:
    """Checked once for files that stay as they are: pages are looked at again and again."""
    failed = check_log(load_artefact(folder), party).failed
    return "" if failed is None else f"{failed.name}: {failed.detail}"
