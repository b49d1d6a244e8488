"""Artefacts as if somebody had paid for them, where a test is about what is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from voile.release import Release
from voile.release.charged import Artefact, paid_artefact


@dataclass(frozen=True)
class Ledger:
    """Keeps one answer, whatever the charge."""

    answer: bytes

    def paid_answer(self, *_: object) -> bytes:
        return self.answer


def as_if_paid(release: Release[Artefact], rows: Any = None) -> Artefact:
    """What a release draws, as a ledger would give it back."""
    kept = release.codec.pack(release.draw(rows))
    return paid_artefact(release, "charge 1", Ledger(kept))
