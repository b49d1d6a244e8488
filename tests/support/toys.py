"""What another package would add to voile: a toy of each kind, and how it is installed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import numpy as np
import pytest

from voile.app.explain.inputs import ExplanationInputs
from voile.app.federate.kinds import LogisticRegressionKind
from voile.attribution import ExactShapley
from voile.core import choices
from voile.recommenders import Catalogue, Recommender, recommender_from
from voile.recommenders.kinds import FromMoments
from voile.records.ledger import Account
from voile.release import PostProcessed, TopFeaturesOfRow


def install(monkeypatch: pytest.MonkeyPatch, group: str, **named: str) -> None:
    """As if a package with these entry points of a group were installed."""
    found = EntryPoints(EntryPoint(name, value, group) for name, value in named.items())
    monkeypatch.setattr(choices, "entry_points", lambda group: found.select(group=group))


# --- a pipeline -----------------------------------------------------------------------------------


class QuietRegression(LogisticRegressionKind):
    """A logistic regression at half of the budget that was agreed on."""

    def plan(self, facts: Any, *, epsilon: float, **stated: Any) -> Any:
        return super().plan(facts, epsilon=epsilon / 2, **stated)


PIPELINE = QuietRegression()

# --- releases -------------------------------------------------------------------------------------


class TopFeatureOfRow(TopFeaturesOfRow):
    """One feature of a protected row, with its direction."""

    tag = "toy-top"


def top_feature(inputs: ExplanationInputs, account: Account | None, rows: int) -> TopFeatureOfRow:
    """The one feature that matters most, charged."""
    assert account is not None
    assert rows > 0
    return TopFeatureOfRow(
        ExactShapley(inputs.model, inputs.background, schema=inputs.schema),
        k=1,
        epsilon=1.0 if inputs.spec.epsilon is None else inputs.spec.epsilon,
        signed=True,
        schema=inputs.schema,
        protected=account.protected,
        origins=inputs.origins,
        model=inputs.model.digest,
        name="toy",
    )


def under_another_name(inputs: ExplanationInputs, *_: Any) -> PostProcessed:
    """A release that says it is one of voile's own."""
    explainer = ExactShapley(inputs.model, inputs.background, schema=inputs.schema)
    return PostProcessed(explainer, inputs.origins, inputs.model.digest, "toy")


# --- a recommender --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RootRecommender:
    """Scores that are no sums over a history: the square roots of those."""

    inner: Recommender

    @property
    def catalogue(self) -> Catalogue:
        return self.inner.catalogue

    def scores(self, histories: Any) -> Any:
        found = self.inner.scores(histories)
        return np.sign(found) * np.sqrt(np.abs(found))


RECOMMENDER = FromMoments(lambda moments: RootRecommender(recommender_from(moments)))
