"""What an attack on the claims behind an explanation has found, as far as the log confirms it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voile.app.assessment_file import find_assessment, is_on_record
from voile.app.explain.model_folder import ModelFolder
from voile.assess.assessment import Verdict
from voile.federation.history import event_as_text
from voile.privacy.events import Gaussian, PrivacyEvent, from_dict
from voile.records.vault import Vault
from voile.release import Release

_WORST = ("refuted", "blind", "not refuted")


@dataclass(frozen=True)
class AssessedClaims:
    """A verdict on the claims behind an explanation.

    Args:
        verdict: the worst of them.
        software: version of voile that was tried, and tried it.
        record: in the log of whoever explains, which holds the digest of the findings.
    """

    verdict: str
    software: str
    record: int

    @property
    def word(self) -> str:
        """The verdict for people."""
        return Verdict(self.verdict).word

    def __str__(self) -> str:
        return f"{self.word} by voile {self.software} (record {self.record} of the log)"


def tried_events(found: Mapping[str, Any]) -> dict[str, str]:
    """The verdict on each event, the worst where one was tried under several names."""
    verdicts: dict[str, str] = {}
    for each in sorted(found["events"], key=lambda each: -_WORST.index(each["verdict"])):
        verdicts[event_as_text(from_dict(each["event"]))] = each["verdict"]
    return verdicts


def claims_behind(
    vault: Vault, release: Release[Any], artefact: ModelFolder | None, workspace: Path | None
) -> AssessedClaims | None:
    """About what a release charges, or, where it is free, about what the training of its artefact
    has charged.

    Args:
        artefact: what is explained, if it is one.
        workspace: folder of the workspace that names the release, if one does.
    """
    event = release.cost(1)
    if event is None:
        if artefact is None:
            return None
        return assessed_claims(vault, artefact.folder, artefact.charged_events)
    if workspace is None:
        return None
    return assessed_claims(vault, workspace, {event_as_text(event)})


def assessed_claims(vault: Vault, folder: Path, events: Collection[str]) -> AssessedClaims | None:
    """What was found about all of these events; None where nothing was, or the log says otherwise.

    Args:
        vault: whose log has to confirm the findings: a file alone is believed by nobody.
        folder: where findings lie.
    """
    found = find_assessment(folder)
    if found is None or not is_on_record(vault, found):
        return None
    tried = tried_events(found)
    verdicts = [_verdict(each, tried) for each in events]
    known = [each for each in verdicts if each is not None]
    if not known or len(known) < len(verdicts):
        return None
    worst = min(known, key=_WORST.index)
    return AssessedClaims(worst, found["software"], found["record"])


def _verdict(event: str, tried: Mapping[str, str]) -> str | None:
    """On an event as it was tried; noise of another shape is rounded otherwise."""
    if event in tried:
        return tried[event]
    own = from_dict(json.loads(event))
    alike = [v for text, v in tried.items() if same_price(own, from_dict(json.loads(text)))]
    return min(alike, key=_WORST.index, default=None)


def same_price(one: PrivacyEvent, other: PrivacyEvent) -> bool:
    """Whether two events differ in rounding at most."""
    if isinstance(one, Gaussian) and isinstance(other, Gaussian):
        return math.isclose(one.noise_multiplier, other.noise_multiplier, rel_tol=1e-6)
    return one == other
