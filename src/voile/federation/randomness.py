"""Where a client's randomness comes from: always its own machine, never a message."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from voile.core.randomness import GeneratorSource, Seeded, StreamCipher


class Sources(Protocol):
    """A source for each participation of a client."""

    def source(self, client: str, stage: str, round: int) -> GeneratorSource:
        """Randomness for one participation."""


@dataclass(frozen=True)
class FreshCiphers:
    """A stream cipher with a new key each time: asked twice for one round, noise differs."""

    def source(self, client: str, stage: str, round: int) -> GeneratorSource:  # noqa: ARG002
        return StreamCipher()


@dataclass(frozen=True)
class SeededSources:
    """Reproducible in every engine and after every restart. For tests and experiments only.

    What is made with it carries "no privacy guarantee (seeded noise)".
    """

    seed: int

    def source(self, client: str, stage: str, round: int) -> GeneratorSource:
        text = f"{self.seed}\0{client}\0{stage}\0{round}"
        return Seeded(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
