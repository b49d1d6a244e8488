"""What an attack has found on records that nobody protects; that may be published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from voile.core.errors import Refused


@dataclass(frozen=True)
class InventedRecords:
    """Records that are about nobody."""

    def __str__(self) -> str:
        return "invented records"


@dataclass(frozen=True)
class OpenRows:
    """Rows that nobody protects.

    Args:
        why: public, held out, ...
    """

    why: str

    def __str__(self) -> str:
        return f"rows that nobody protects: {self.why}"


Publishable: TypeAlias = InventedRecords | OpenRows


@dataclass(frozen=True, kw_only=True)
class AttackFinding:
    """How well one attack works, plain and protected, with the blind guess beside it.

    Args:
        attack: what is attempted.
        measure: what the figures are: a share of right answers, an area under a curve.
        plain: without protection.
        protected: with it.
        blind: of somebody who has not seen the output.
        bound: what the charged event allows at most, where that is known.
        release: what was attacked.
        epsilon, delta: of it, in all.
        rows: how many records were protected.
        trials: how often it was attempted.
        on: whose records; anything else than these two types is refused.
    """

    attack: str
    measure: str
    plain: float
    protected: float
    blind: float
    release: str
    epsilon: float
    delta: float
    rows: int
    trials: int
    on: Publishable
    bound: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.on, InventedRecords | OpenRows):
            raise Refused(
                "only findings on invented records and on rows that nobody protects may be "
                "published; findings on members are a MembersFinding"
            )

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "on": str(self.on)}
