"""`TopFeaturesOfRow`: which features matter most to one person's row, toward a third party.

The set of its top features is said with a grain of salt: sets that overlap the truth are e^epsilon
times as likely as others. The explanation holds names and not attributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit
from voile.core.schema import Schema
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import SubsetSelection
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.artefact_guarantees import carried_forward, notes_on_unprotected_data
from voile.release.clipped import OF_ONE_ROW
from voile.release.contract import Preview, ReleaseIdentity, RowsAre, parameters
from voile.release.origin import Origin, origins_digest, refuse_unprotected, stated
from voile.release.per_row import PerRow
from voile.release.post_processed import Explainer
from voile.release.top_features import check_one_output, names_only


@dataclass(frozen=True, eq=False)
class TopFeaturesOfRow:
    """The k features of a row with the largest |attribution|, by subset selection.

    With k = 1 this is randomised response. Nothing about the row has to be bounded: the guarantee
    holds for any two sets.

    Guarantees
        1. Pure epsilon for each explained row, any row standing against any other.
        2. Each row is explained alone and answered by itself: different records compose in
           parallel, a call costs each of them one event.

    Args:
        explainer: of one output.
        schema: rows are clamped to it.
        k: how many features are named; fewer than there are.
        epsilon: for each row.
        protected: an explained row of a data set; replace one, as nothing else is offered for it.
        origins: of everything that the explainer holds.
        model: digest of what is explained, for the record.
        name: of the explainer, for the record.
        signed: name directions too; twice as many candidates, so it needs more epsilon.
    """

    explainer: Explainer
    _: KW_ONLY
    schema: Schema
    k: int
    epsilon: float
    protected: Protected
    origins: Sequence[Origin]
    model: str
    name: str
    signed: bool = False
    level: str = "detailed"
    _inner: PerRow = field(init=False, repr=False)
    _response: SubsetSelection = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "origins", stated(self.origins))
        role = "data set of the explained rows"
        refuse_unprotected(self.protected.dataset, self.origins, role=role)
        inner = PerRow(self.explainer, self.schema)
        check_one_output(inner)
        if positive("k", self.k) >= inner.players:
            raise InvalidInput(f"naming {self.k} of {inner.players} features tells nothing")
        response = SubsetSelection(
            epsilon=self.epsilon,
            items=inner.players * (2 if self.signed else 1),
            k=self.k,
            unit=ProtectedUnit.EXPLAINED_ROW,
            relation=self.protected.relation,
        )
        check_bounds(response, self.protected)
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_response", response)

    @property
    def identity(self) -> ReleaseIdentity:
        settings = {
            "dataset": self.protected.dataset,
            "epsilon": self.epsilon,
            "k": self.k,
            "origins": origins_digest(self.origins),
            "schema": self.schema.digest,
            "signed": self.signed,
        }
        return ReleaseIdentity(
            self.model, f"top features of a row by {self.name}", self.level, parameters(settings)
        )

    @property
    def rows_are(self) -> RowsAre:
        return RowsAre.RECORD

    def cost(self, rows: int) -> PrivacyEvent:
        """What each of the explained records pays: one event, whatever the number of others."""
        positive("rows", rows)
        return self._response.event()

    def guarantees(self, rows: int) -> tuple[Guarantee, ...]:  # noqa: ARG002
        promise = Guarantee(
            epsilon=self.epsilon,
            delta=0.0,
            protected=self.protected,
            against=(Adversary.PUBLIC,),
            computational=False,
            mechanism=f"subset selection of {self.k} out of {self._response.items}",
            composition="one release of each row; different rows in parallel",
            public_facts=("schema", "model and explainer", "number of rows"),
            assumptions=OF_ONE_ROW,
        )
        return promise, *carried_forward(self.origins)

    def preview(self, rows: int = 1) -> Preview:
        truth = self._response.preview().truth
        chance = self.k / self._response.items
        return Preview(
            event=self.cost(rows),
            guarantees=self.guarantees(rows),
            accuracy=f"a feature that is named is a true one with probability {truth:.3f} "
            f"(by chance {chance:.3f})",
        )

    def draw(self, rows: Any) -> Explanation:
        vectors = self._inner.vectors(rows)[:, :, 0]
        named = [self._response.randomise(self.truth(vector)) for vector in vectors]
        shape = (len(named), 2 if self.signed else 1, self._inner.players)
        chosen = np.zeros(shape)
        for row, items in enumerate(named):
            chosen[row].reshape(-1)[sorted(items)] = 1.0
        # Named in both directions, a feature cancels out: the answer said nothing about it.
        values = chosen[:, 0] - chosen[:, 1] if self.signed else chosen[:, 0]
        return names_only(
            values,
            self._inner,
            self.guarantees(len(values)),
            notes_on_unprotected_data(self.origins),
        )

    def truth(self, vector: NDArray[np.float64]) -> tuple[int, ...]:
        """The top k of one row; among equals, those that stand first in the schema."""
        top = np.argsort(-np.abs(vector), kind="stable")[: self.k]
        down = self.signed * len(vector) * (vector[top] < 0)
        return tuple(int(item) for item in top + down)
