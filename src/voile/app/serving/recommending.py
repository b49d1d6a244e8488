"""A recommender as it is served: what to recommend to a user, and why, from her own history.

The history comes with the request. So whoever asks knows it already, and what is answered is for
the user it is about: free, whatever she asks. What others may be told about her is charged, and it
is not asked here: `voile recommend explain --audience others`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from voile.app.explain import ReleasedExplanation, RowsToExplain
from voile.app.explain.questions import ExplanationRequest
from voile.app.explain.service import ReleaseService
from voile.app.recommend import SCORES, RecommendationSpec, TrainedRecommender, build
from voile.app.serving.callers import Caller
from voile.app.serving.once import Receiving
from voile.core.errors import InvalidInput
from voile.core.transparency import Level
from voile.recommenders import Interactions, PopularityRecommender, interactions_of

_SOMEBODY: Final = "the user"
"""Nobody says who she is."""
PURPOSE: Final = "told to herself"
NOTHING_KNOWN: Final = (
    "nothing in this history is in the catalogue, so this is what is popular with everybody"
)


class UnknownReasons(InvalidInput):
    """Reasons that a recommender does not know."""


@dataclass(frozen=True)
class AskedRecommendation:
    """What a request asks for.

    Args:
        history: items that the user has touched, by their identifiers in the catalogue.
        group_by: what the reasons are: `items` of the history, a kind of labels such as genre, or
            `scores` for none.
        count: how many recommendations.
    """

    history: Sequence[Any] = field(repr=False)
    group_by: str = "items"
    count: int = 10


@dataclass(frozen=True, eq=False)
class ServedRecommender:
    """A recommender, loaded; the workspace's own ledger paid for it."""

    name: str
    trained: TrainedRecommender
    service: ReleaseService

    def check_paid(self) -> None:
        """Refuse one whose guarantee does not follow from what this ledger charged."""
        spec = self._spec(_SOMEBODY, by=SCORES)
        build(self.service, self.trained, self._interactions(()), spec)

    def answer(self, asked: AskedRecommendation, caller: Caller) -> ReleasedExplanation:
        """Recommend: free, on record, with a receipt for whoever asked."""
        caller.check_level(Level.DETAILED)
        if asked.group_by not in self.reasons:
            raise UnknownReasons("this recommender knows no such reasons")
        who, found = caller.grants.caller, self._interactions(asked.history)
        spec = self._spec(who, by=asked.group_by, count=min(asked.count, self.items))
        history = found.history(_SOMEBODY)
        request = ExplanationRequest(
            rows=RowsToExplain([history], notes=() if len(history) else (NOTHING_KNOWN,)),
            caller=who,
            purpose=PURPOSE,
            settlement=Receiving(who),
        )
        release = build(self.service, self.trained, found, spec)
        (outcome,) = self.service.answer_many(release, [request])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def items(self) -> int:
        """How many items can be recommended."""
        return len(self.trained.catalogue)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What reasons can be; there are none where everybody is recommended the same."""
        if isinstance(self.trained.model, PopularityRecommender):
            return (SCORES,)
        return ("items", SCORES, *self.trained.catalogue.kinds)

    def facts(self) -> dict[str, Any]:
        """What is public about it."""
        return {
            "name": self.name,
            "model": self.trained.kind,
            "items": self.items,
            "group_by": list(self.reasons),
            "guarantees": [self.trained.guarantee.to_dict()],
        }

    def _spec(self, caller: str, **more: Any) -> RecommendationSpec:
        return RecommendationSpec(caller=caller, user=_SOMEBODY, **more)

    def _interactions(self, history: Sequence[Any]) -> Interactions:
        """One user's lines; what is not in the catalogue adds nothing, and is not told."""
        items = np.empty(len(history) + 1, dtype=object)
        items[:-1] = history
        items[-1] = ""  # she is there, whatever she touched
        users = np.array([_SOMEBODY] * len(items), dtype=object)
        return interactions_of({"user": users, "item": items}, self.trained.catalogue)
