"""`assessment.json`: what an assessment has found, in full. Nothing in it is about anybody's rows.

Compatibility promise: a file of version n is read by every later voile.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from voile.core.atomic_file import replace_file
from voile.core.input_file import read_file
from voile.workflows.artefact_manifest import read_form

ASSESSMENT: Final = "assessment.json"
_Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


class _AssessmentForm(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class AssessedEvent(_AssessmentForm):
    """One event that was tried; see `voile.attacks.assessment.Assessed`."""

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
        left_out: what is charged and was not rehearsed, and why.
    """

    format: Literal["voile assessment"] = "voile assessment"
    version: Literal[1] = 1
    software: str
    subject: str
    verdict: Literal["refuted", "not refuted", "blind"]
    events: Annotated[list[AssessedEvent], Field(min_length=1)]
    left_out: list[str]


def write_assessment(found: AssessmentFile, folder: Path) -> tuple[Path, bytes]:
    """The file, and the digest of its content."""
    content = (json.dumps(found.model_dump(), indent=2, allow_nan=False) + "\n").encode()
    return replace_file(folder / ASSESSMENT, content), hashlib.sha256(content).digest()


def find_assessment(folder: Path) -> dict[str, Any] | None:
    """That of a folder, with the digest that its log record holds; None if there is none."""
    path = folder / ASSESSMENT
    if not path.is_file():
        return None
    return {
        **read_form(path, AssessmentFile),
        "digest": hashlib.sha256(read_file(path)).hexdigest(),
    }
