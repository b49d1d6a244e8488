"""What is asked of a recommender, in texts and numbers; refuses what contradicts itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from voile.app.commands.recommend import Audience
from voile.core.choices import member
from voile.core.errors import InvalidInput, Refused
from voile.core.identifiers import canonical_identifier
from voile.recommenders import refuse_items
from voile.recommenders.explaining import RECOMMENDED

SCORES: Final = "scores"
"""What is recommended, without a reason."""
ITEMS: Final = "items"
"""Reasons are the items of the history; for the user herself only."""


class ProfileLevel(StrEnum):
    """How much of a profile is told to others; the four levels of the recommender framework."""

    SUMMARY = "summary"
    """Groups of labels that somebody declared."""
    AGGREGATE = "aggregate"
    """Groups of labels that stand together in the public catalogue."""
    DETAILED = "detailed"
    """The labels themselves."""
    GRANULAR = "granular"
    """Items of the history: refused."""


@dataclass(frozen=True, kw_only=True)
class RecommendationSpec:
    """One question to a recommender.

    Args:
        caller: who asks; written down.
        user: whom it is about, by identifier; None for all users together.
        toward: who is told.
        by: what the reasons are: `SCORES` (none), `ITEMS`, or a kind of labels such as genre.
        count: how many recommendations it is about.
        top: toward others, name so many labels; None for the whole profile with noise.
        account: toward others, who pays: the account that paid for the moments.
        epsilon, delta: toward others, of this release; naming labels has no delta.
        level: toward others, how much is told.
        groups: declared groups of labels, by name.
        fresh: pay again for new noise.
    """

    caller: str
    user: str | None = None
    toward: Audience = Audience.SELF
    by: str = ITEMS
    count: int = RECOMMENDED
    top: int | None = None
    account: str | None = None
    epsilon: float | None = None
    delta: float = 0.0
    level: ProfileLevel = ProfileLevel.DETAILED
    groups: Mapping[str, tuple[str, ...]] | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("toward", Audience), ("level", ProfileLevel)):
            object.__setattr__(self, name, member(kind, getattr(self, name), name))
        if self.count < 1:
            raise InvalidInput(f"count must be at least 1, found {self.count}")
        if self.user is not None and canonical_identifier(self.user) is None:
            raise InvalidInput(f"user must name somebody, found {self.user!r}")
        check = self._check_herself if self.toward is Audience.SELF else self._check_others
        check()

    @property
    def price(self) -> tuple[str, float]:
        """Who pays, and the epsilon."""
        assert self.account is not None
        assert self.epsilon is not None
        return self.account, self.epsilon

    def _check_herself(self) -> None:
        if self.user is None:
            raise InvalidInput(
                "name the user (--user): an explanation for the user is about one person"
            )
        given = {"top": self.top, "account": self.account, "epsilon": self.epsilon}
        named = [name for name, value in given.items() if value is not None]
        if named or self.delta:
            raise InvalidInput(
                f"what a user sees about herself costs nothing and holds no noise; leave out "
                f"{', '.join(named) or 'delta'}, or pass --audience others"
            )

    def _check_others(self) -> None:
        if self.by == ITEMS or self.level is ProfileLevel.GRANULAR:
            refuse_items()
        if self.by == SCORES:
            raise Refused(
                "recommendations reveal the history of a user, so they are not shown to others; "
                "ask for the top labels instead (--top)"
            )
        if self.account is None or self.epsilon is None:
            raise InvalidInput("for others, name the account that pays, and an epsilon")
        if (self.level is ProfileLevel.SUMMARY) != bool(self.groups):
            raise InvalidInput(
                "groups of labels are declared for the level summary, and only there"
            )
        if self.user is not None and self.top is not None:
            if self.delta:
                raise InvalidInput("--top has a pure epsilon: leave out delta")
        elif self.top is not None:
            raise InvalidInput("--top is for one user (--user): leave it out over all users")
        elif not self.delta:
            raise InvalidInput("noise on figures needs a delta above 0")
