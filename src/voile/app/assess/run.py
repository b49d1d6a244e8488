"""Assess a subject, write down what was found, and record it."""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from voile._version import __version__
from voile.app.assess.subjects import Subject, events_of
from voile.app.assessment_file import (
    AssessedEvent,
    AssessmentFile,
    check_place,
    write_assessment,
)
from voile.assess.assessment import AssessedClaim, AssessmentProgress, Verdict, assess
from voile.core.errors import InvalidInput
from voile.privacy.events import to_dict
from voile.records.audit_log import EventsAssessmentRecord
from voile.records.storage import Transaction
from voile.records.vault import open_vault_at

_LARGEST: Final = 1e300
"""An e-value that no float holds is told as this."""
_WORST: Final = (Verdict.REFUTED, Verdict.BLIND, Verdict.NOT_REFUTED)


@dataclass(frozen=True, eq=False)
class Assessment:
    """What came of it.

    Args:
        verdict: the worst of all events; "not refuted" only if none was refuted or blind.
        path: of the findings in full.
        record: its number in the log; None where there is no log to tell.
    """

    subject: Subject
    verdict: Verdict
    events: tuple[AssessedClaim, ...]
    path: Path
    record: int | None


def assess_subject(
    subject: Subject, *, seconds: float, seen: AssessmentProgress = lambda _: None
) -> Assessment:
    """Try to refute everything that is charged there.

    Nothing that this tells, nor how long it takes, depends on anybody's rows.
    """
    if not subject.trials:
        reasons = "; ".join(subject.left_out) or "nothing is charged there"
        raise InvalidInput(f"{subject.name}: nothing to assess: {reasons}")
    check_place(subject.folder)
    if subject.books is not None:
        with open_vault_at(subject.books, signing=None):
            pass  # a log that cannot be told is noticed now, and not after the attack
    found = assess(subject.trials, seconds=seconds, seen=seen)
    verdict = min((each.verdict for each in found), key=_WORST.index)
    content, record = _recorded(subject, found, verdict)
    path = write_assessment(content, subject.folder)
    return Assessment(subject, verdict, found, path, record)


def _recorded(
    subject: Subject, found: tuple[AssessedClaim, ...], verdict: Verdict
) -> tuple[bytes, int | None]:
    """What the file holds, and the record that holds its digest: the file says which that is."""
    if subject.books is None:
        return _file(subject, found, verdict, None).to_bytes(), None

    def append(t: Transaction) -> tuple[bytes, int]:
        number = vault.log.head(t).size
        content = _file(subject, found, verdict, number).to_bytes()
        vault.log.append(t, _record(subject, found, verdict, content))
        return content, number

    with open_vault_at(subject.books) as vault:
        return vault.storage.submit(append)


def _file(
    subject: Subject, found: tuple[AssessedClaim, ...], verdict: Verdict, record: int | None
) -> AssessmentFile:
    events = [
        AssessedEvent(
            **{
                **asdict(each),
                "event": to_dict(each.event),
                "verdict": each.verdict.value,
                "e_value": min(each.e_value, _LARGEST),
            }
        )
        for each in found
    ]
    return AssessmentFile(
        software=__version__,
        subject=subject.name,
        verdict=verdict.value,
        events=events,
        left_out=list(subject.left_out),
        record=record,
    )


def _record(
    subject: Subject, found: tuple[AssessedClaim, ...], verdict: Verdict, content: bytes
) -> EventsAssessmentRecord:
    largest = max(each.e_value / each.threshold for each in found)
    return EventsAssessmentRecord(
        time=int(time.time()),
        subject=subject.name,
        events=hashlib.sha256(events_of(subject)).digest(),
        software=__version__,
        runs=sum(each.runs for each in found),
        e_value=min(largest, _LARGEST),
        verdict=verdict.value,
        findings=hashlib.sha256(content).digest(),
    )
