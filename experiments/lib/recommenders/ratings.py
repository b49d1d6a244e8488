"""How much items are liked: the sum of centred ratings, one charged release.

Popularity asks who touched an item, this asks how she rated it. It is what ranks items that a user
has rated anyway; for recommending, moments are better (`PrivateGram`).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voile.core.guarantee import Guarantee, ProtectedUnit, RowPart
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.mechanisms.parameters import checked_bounds
from voile.privacy.sensitivity import Norm, clipped_vector
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.recommenders.moments import PAID_WITH, grid_bits, packed, unpacked
from voile.recommenders.shop import Interactions
from voile.release.charged import Accuracy, ChargedRelease, OneTimeArtefact
from voile.release.contract import Codec


@dataclass(frozen=True, eq=False)
class ItemLiking(OneTimeArtefact):
    """How much every item is liked, with noise."""

    values: NDArray[np.float64]
    what: ClassVar = "ratings of items"
    paid_with: ClassVar = PAID_WITH


@dataclass(frozen=True, eq=False)
class PrivateLiking(ChargedRelease):
    """Σ_u v_u with v_u the ratings of one user, centred to [−1, 1] and divided by √(their number).

    Guarantees
        1. v_u is at most 1 long, and may point anywhere: one user moves the sum by 1 (zero-out) or
           2 (replace one) in the l2 norm.
        2. Ratings beyond the bounds are clamped, those that are no numbers count as none.

    Args: besides those of `ChargedRelease`:
        interactions: protected.
        bounds: lowest and highest rating there is; public.
        protected: a user of their data set.
    """

    interactions: Interactions = field(repr=False)
    _: KW_ONLY
    bounds: tuple[float, float]
    _noise: GaussianMechanism = field(init=False, repr=False)
    part: ClassVar = RowPart.TRAINING
    tag: ClassVar = "item-ratings"
    name: ClassVar = "ratings of items"

    def prepare(self) -> None:
        checked_bounds(self.bounds)
        sensitivity = clipped_vector(
            bound=1.0, norm=Norm.L2, unit=ProtectedUnit.USER, relation=self.protected.relation
        )
        check_bounds(sensitivity, self.protected)
        noise = GaussianMechanism.calibrated(
            sensitivity,
            epsilon=self.epsilon,
            delta=self.delta,
            shape=(len(self.interactions.catalogue),),
        )
        object.__setattr__(self, "_noise", noise)

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.interactions.catalogue.digest, self.name, self.name

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "bounds": list(self.bounds),
            "delta": self.delta,
            "epsilon": self.epsilon,
            "users": len(self.interactions),
        }

    def cost(self, rows: int) -> PrivacyEvent:
        positive("rows", rows)
        return self._noise.event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism=f"Gaussian noise of standard deviation {self._noise.sigma:.6g} on the sum "
            "of centred ratings",
            composition="one release",
            public_facts=("catalogue", "number of users", "bounds of ratings"),
            assumptions=(
                "all lines of one user make one vector",
                *self._noise.sensitivity.conditions,
                "running time is not observed",
            ),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        return Accuracy.from_noise(self._noise.preview())

    def draw(self, rows: Any = None) -> ItemLiking:  # noqa: ARG002
        return ItemLiking(self._noise.randomise(self._sums()), event=self.cost(1))

    def _sums(self) -> NDArray[np.float64]:
        found, (lower, upper) = self.interactions, self.bounds
        centred = (found.rating - (lower + upper) / 2) / ((upper - lower) / 2)
        rated = ~np.isnan(centred)
        counts = np.bincount(found.user[rated], minlength=len(found))
        shares = np.clip(centred[rated], -1, 1) / np.sqrt(counts[found.user[rated]])
        steps = 2.0 ** grid_bits(len(found))  # rounded toward 0, so that sums are exact
        exact = np.trunc(shares * steps) / steps
        items, count = found.item[rated], len(found.catalogue)
        return np.bincount(items, weights=exact, minlength=count).astype(np.float64)

    @property
    def codec(self) -> Codec[ItemLiking]:
        return Codec(lambda made: packed(made.values), self._unpack)

    def _unpack(self, content: bytes) -> ItemLiking:
        return ItemLiking(unpacked(content, self._noise.shape), event=self.cost(1))
