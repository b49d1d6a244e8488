"""`assessment.json`: what an assessment has found, in full. Nothing in it is about anybody's rows.

Compatibility promise: a file of version n is read by every later voile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from voile.app.artefact_manifest import read_form
from voile.core.atomic_file import check_output, replace_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.input_file import read_file
from voile.records.audit_log import EventsAssessmentRecord, decode_record
from voile.records.storage import Reader
from voile.records.vault import Vault

ASSESSMENT: Final = "assessment.json"
_PAGE: Final = 1_000
_KIND: Final = EventsAssessmentRecord.kind.encode()
"""Stands in every such record, and in few others: most are not decoded."""
_Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


class _AssessmentForm(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class AssessedEvent(_AssessmentForm):
    """One event that was tried; see `voile.assess.assessment.AssessedClaim`."""

    name: str
    event: dict[str, Any]
    epsilon: _Figure
    delta: _Figure
    verdict: Literal["refuted", "not refuted", "blind"]
    runs: _Count
    e_value: _Figure
    threshold: _Figure
    epsilon_found: _Figure
    control_runs: _Count | None


class AssessmentFile(_AssessmentForm):
    """All of it.

    Args:
        software: version of voile that was tried, and tried it.
        verdict: the worst of all events.
        left_out: what is charged and was not audited, and why.
        record: number of the record in the log that holds the digest of this file; None where there
            was no log to tell, and in files of earlier versions.
    """

    format: Literal["voile assessment"] = "voile assessment"
    version: Literal[1] = 1
    software: str
    subject: str
    verdict: Literal["refuted", "not refuted", "blind"]
    events: Annotated[list[AssessedEvent], Field(min_length=1)]
    left_out: list[str]
    record: _Count | None = None

    def to_bytes(self) -> bytes:
        return (json.dumps(self.model_dump(), indent=2, allow_nan=False) + "\n").encode()


def check_place(folder: Path) -> None:
    """Refuse to overwrite a file of that name that holds anything but earlier findings."""
    path = folder / ASSESSMENT
    check_output(path)
    try:
        find_assessment(folder)
    except UnreadableFile as error:
        raise InvalidInput(
            f"{path}: exists and does not hold findings; move it away first"
        ) from error


def write_assessment(content: bytes, folder: Path) -> Path:
    """Whole or not at all."""
    return replace_file(folder / ASSESSMENT, content)


def is_on_record(vault: Vault, found: Mapping[str, Any]) -> bool:
    """Whether the log holds the digest of these findings, where they say that it does, and of no
    later ones about the same subject: whoever assesses often keeps the last word, not the best one.

    Args:
        found: by `find_assessment`.
    """
    number = found.get("record")  # of an earlier version, which did not say
    if number is None:
        return False
    about = vault.storage.read_snapshot(
        lambda t: [
            each for each in _assessments(vault, t, number) if each.subject == found["subject"]
        ]
    )
    said = [(each.findings.hex(), each.verdict) for each in about]
    return said == [(found["digest"], found["verdict"])]


def _assessments(vault: Vault, t: Reader, first: int) -> Iterator[EventsAssessmentRecord]:
    """All from this record on; if it is none itself, nothing."""
    while page := vault.log.records(t, first=first, limit=_PAGE):
        for content in page:
            record = decode_record(content) if _KIND in content else None
            if isinstance(record, EventsAssessmentRecord):
                yield record
        first += len(page)


def find_assessment(folder: Path) -> dict[str, Any] | None:
    """That of a folder, with the digest that its log record holds; None if there is none."""
    path = folder / ASSESSMENT
    if not path.is_file():
        return None
    return {
        **read_form(path, AssessmentFile),
        "digest": hashlib.sha256(read_file(path)).hexdigest(),
    }
