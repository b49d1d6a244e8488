"""What a client does in one stage: the recipe is public, rows and randomness are the client's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from voile.core.randomness import GeneratorSource
from voile.federation.arrays import Arrays, Shapes
from voile.federation.messages import Instruction
from voile.privacy.events import PrivacyEvent


@dataclass(frozen=True, eq=False)
class FitResult:
    """What came of one participation.

    Args:
        change: new arrays minus old ones, in float32 or, for whole numbers, in int64.
        event: what its release costs; None if the task promises no privacy.
        kept: what stays with the client for tasks that follow in the same round; never sent.
    """

    change: Arrays
    event: PrivacyEvent | None
    kept: Arrays = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Unprotected:
    """Records that exact figures may be published about, and why: held-out clients, public rows.

    `Task.evaluate` takes nothing else, so a figure on protected rows needs a deliberate lie.
    """

    records: Any
    why: str


class Task(Protocol):
    """One stage, as every client has agreed to run it. Nothing in it depends on anybody's rows."""

    @property
    def shapes(self) -> Shapes:
        """Names and shapes of the arrays that it trains."""

    def cost(self, size: int) -> PrivacyEvent | None:
        """What one participation of a client of this declared size releases; public facts only."""

    def fit(
        self, instruction: Instruction, records: Any, size: int, source: GeneratorSource
    ) -> FitResult:
        """Train on a client's records.

        Sampling rates and divisors come from the declared `size`, never from `records`, and no
        error may depend on a protected value. The proximal term of FedProx belongs here.
        """

    def evaluate(self, arrays: Arrays, given: Arrays, rows: Unprotected) -> Mapping[str, float]:
        """Figures of global arrays by name."""


@runtime_checkable
class FollowUp(Protocol):
    """What a client makes of what it kept of an earlier answer of the same round.

    It sees no records and draws nothing, so it is post-processing of what was charged with that
    answer: `FitResult.event` covers `FitResult.kept`, and what follows costs nothing more.
    """

    @property
    def follows(self) -> str:
        """The stage of the answer that something was kept of."""

    @property
    def shapes(self) -> Shapes:
        """Names and shapes of what it sends."""

    def make(self, instruction: Instruction, client: str, kept: Arrays) -> Arrays:
        """What is sent; `Refused` if the instruction contradicts what is kept."""
