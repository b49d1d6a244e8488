"""`TopFeaturesOfRow`: which features matter most to one person's row, toward a third party.

The set of its top features is said with a grain of salt: sets that overlap the truth are e^epsilon
times as likely as others. The explanation holds names and not attributions.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, ProtectedUnit, RowPart
from voile.core.row_note import KnownNote
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import SubsetSelection
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import Accuracy, ExplainerRelease
from voile.release.clipped import OF_ONE_ROW
from voile.release.identities import origins_v1
from voile.release.top_features import check_one_output, names_only

_AS_GOOD_AS_A_COIN: Final = 0.5


@dataclass(frozen=True, eq=False)
class TopFeaturesOfRow(ExplainerRelease):
    """The k features of a row with the largest |attribution|, by subset selection.

    With k = 1 this is randomised response. Nothing about the row has to be bounded: the guarantee
    holds for any two sets.

    Guarantees
        1. Pure epsilon for each explained row, any row standing against any other.
        2. Each row is explained alone and answered by itself: different records compose in
           parallel, a call costs each of them one event.

    Args: besides those of `ExplainerRelease`:
        explainer: of one output.
        k: how many features are named; fewer than there are.
        epsilon: for each row; there is no delta.
        protected: an explained row of a data set; replace one, as nothing else is offered for it.
        signed: name directions too; twice as many candidates, so it needs more epsilon.
    """

    _: KW_ONLY
    k: int
    delta: float = field(init=False, default=0.0)
    signed: bool = False
    _response: SubsetSelection = field(init=False, repr=False)
    part: ClassVar = RowPart.EXPLAINED
    tag: ClassVar = "top-features-of-row"
    way: ClassVar = "top features of a row by"

    def prepare(self) -> None:
        super().prepare()
        check_one_output(self._inner)
        players = self._inner.players
        if positive("k", self.k) >= players:
            raise InvalidInput(f"naming {self.k} of {players} features tells nothing")
        response = SubsetSelection(
            epsilon=self.epsilon,
            items=players * (2 if self.signed else 1),
            k=self.k,
            unit=ProtectedUnit.EXPLAINED_ROW,
            relation=self.protected.relation,
        )
        check_bounds(response, self.protected)
        object.__setattr__(self, "_response", response)

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "dataset": self.protected.dataset,
            "epsilon": self.epsilon,
            "k": self.k,
            "origins": origins_v1(self.origins),
            "schema": self.schema.digest,
            "signed": self.signed,
        }

    def cost(self, rows: int) -> PrivacyEvent:
        """What each of the explained records pays: one event, whatever the number of others."""
        positive("rows", rows)
        return self._response.event()

    def own_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism=f"subset selection of {self.k} out of {self._response.items}",
            composition="one release of each row; different rows in parallel",
            public_facts=("schema", "model and explainer", "number of rows"),
            assumptions=OF_ONE_ROW,
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        truth = self._response.preview().truth
        chance = self.k / self._response.items
        return Accuracy(
            f"a feature that is named is a true one with probability {truth:.3f} "
            f"(by chance {chance:.3f})"
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
        notes = self.notes(KnownNote.NAMES_ONLY, *likely_wrong(self._response, "feature"))
        return names_only(values, self._inner, self.guarantees(len(values)), notes)

    def truth(self, vector: NDArray[np.float64]) -> tuple[int, ...]:
        """The top k of one row; among equals, those that stand first in the schema."""
        top = np.argsort(-np.abs(vector), kind="stable")[: self.k]
        down = self.signed * len(vector) * (vector[top] < 0)
        return tuple(int(item) for item in top + down)


def likely_wrong(response: SubsetSelection, what: str) -> tuple[str, ...]:
    """A note for an answer that is right with probability below one half; else nothing.

    It follows from epsilon, k and the number of items, which are public: it tells nothing of the
    record.
    """
    truth = response.preview().truth
    if truth >= _AS_GOOD_AS_A_COIN:
        return ()
    return (
        f"more likely wrong than right: a named {what} is a true one with probability "
        f"{truth:.3f} (by chance {response.k / response.items:.3f})",
    )
