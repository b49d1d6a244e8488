"""What may be said about a user to others: charged to her, or refused.

- the labels (genres) that matter most to her recommendations: `TopLabelsOfUser`
- the whole profile with noise, at a level: `NoisyProfileOfUser` (AGNI, with 2C where it is due)
- what matters over all users: `LabelImportance`
- which items of her history count: refused, because they name her history (`refuse_items`)
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, ProtectedUnit, RowPart
from voile.core.row_note import KnownNote
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism, SubsetSelection
from voile.privacy.mechanisms.parameters import MARGIN
from voile.privacy.sensitivity import Norm, Sensitivity, clipped_vector, unit_row_sum
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.recommenders.explaining import ByLabels
from voile.recommenders.shop import History, Interactions
from voile.release.charged import Accuracy, ModelRelease, with_earlier
from voile.release.origin import origins_v1
from voile.release.top_features import likely_wrong

TOTAL: Final = "all recommendations"
ALPHA: Final = 0.7
REFERENCE_EPSILON: Final = 0.5
"""Of the published privacy-adjusted score: the weight of fidelity, and where epsilon counts fully.
"""
OF_ONE_USER: Final = (
    "the histories of one call are of different users; a user who is explained again pays again",
    "the model depends on the explained users only through the moments, which are charged besides",
    "running time is not observed",
)


def refuse_items() -> NoReturn:
    raise Refused(
        "an explanation of a user by items names her history, so toward others it is refused: no "
        "noise could make it both true and private; name her top genres (--top), or show it to "
        "the user herself"
    )


@dataclass(frozen=True, eq=False)
class _OfUser(ModelRelease):
    """What releases about single users have in common.

    Args: besides those of `ModelRelease`:
        profile: of one history, a figure for each label or group.
        model: digest of the model, for the record.
        protected: a user of the data set that the moments are about.
        origins: of the model; what is said in the end is about both, moments and this.
    """

    profile: ByLabels
    _: KW_ONLY
    model: str
    part: ClassVar = RowPart.EXPLAINED
    way: ClassVar[str]

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.model, f"{self.way} {self.profile.name}", self.level

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "count": self.profile.count,
            "dataset": self.protected.dataset,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "groups": _listed(self.profile),
            "origins": origins_v1(self.origins),
        }

    @property
    def settings(self) -> dict[str, object]:
        return {**super().settings, "profile": self.profile.kind}

    def guarantees(self, rows: int) -> tuple[Guarantee, ...]:
        """The user is in the moments as well: the first guarantee is about both together."""
        return with_earlier(self.noise_guarantee(positive("rows", rows)), self._carried_forward)

    @property
    def players(self) -> tuple[str, ...]:
        return self.profile.players[0]

    def read(self, rows: Any) -> list[NDArray[np.float64]]:
        """The profile of each history; whatever a history holds, there is one."""
        return [self.profile.profile(self._sound(history)) for history in rows]

    def _sound(self, history: Any) -> History:
        places = np.unique(np.asarray(history, dtype=np.int64))
        inside = (places >= 0) & (places < len(self.profile.model.catalogue))
        return np.asarray(places[inside])

    def explained(self, values: NDArray[np.float64], *notes: str, **more: Any) -> Explanation:
        return Explanation(
            values=values[:, :, np.newaxis],
            base_values=np.zeros(1),
            feature_names=self.players,
            output_names=(TOTAL,),
            guarantees=self.guarantees(len(values)),
            notes=self.notes(*notes),
            **more,
        )


@dataclass(frozen=True, eq=False)
class TopLabelsOfUser(_OfUser):
    """The k labels that add most to a user's recommendations, by subset selection.

    Guarantees
        1. Pure epsilon for each explained user, besides what the moments cost; any two histories
           stand against each other.
        2. Each user is answered by herself: different users compose in parallel.

    Args: besides those of `_OfUser`:
        k: how many are named; fewer than there are.
        epsilon: for each user; there is no delta.
    """

    _: KW_ONLY
    k: int
    delta: float = field(init=False, default=0.0)
    _response: SubsetSelection = field(init=False, repr=False)
    tag: ClassVar = "top-labels-of-user"
    way: ClassVar = "top"

    def prepare(self) -> None:
        if positive("k", self.k) >= len(self.players):
            raise InvalidInput(f"naming {self.k} of {len(self.players)} labels tells nothing")
        response = SubsetSelection(
            epsilon=self.epsilon,
            items=len(self.players),
            k=self.k,
            unit=ProtectedUnit.USER,
            relation=self.protected.relation,
        )
        check_bounds(response, self.protected)
        object.__setattr__(self, "_response", response)

    @property
    def settings_v1(self) -> dict[str, object]:
        return {**super().settings_v1, "k": self.k}

    def cost(self, rows: int) -> PrivacyEvent:
        positive("rows", rows)
        return self._response.event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism=f"subset selection of {self.k} out of {len(self.players)}",
            composition="one release of each user; different users in parallel",
            public_facts=("catalogue", "model", "number of users"),
            assumptions=OF_ONE_USER,
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        truth = self._response.preview().truth
        return Accuracy(
            f"a label that is named is a true one with probability {truth:.3f} "
            f"(by chance {self.k / len(self.players):.3f})"
        )

    def draw(self, rows: Any) -> Explanation:
        values = np.zeros((len(rows), len(self.players)))
        for row, profile in enumerate(self.read(rows)):
            top = np.argsort(-profile, kind="stable")[: self.k]
            values[row, sorted(self._response.randomise([int(each) for each in top]))] = 1.0
        warned = likely_wrong(self._response, "label")
        return self.explained(values, KnownNote.NAMES_ONLY, *warned)


@dataclass(frozen=True, eq=False)
class NoisyProfileOfUser(_OfUser):
    """A user's whole profile, scaled to length 1, with Gaussian noise; mostly noise at a small
    epsilon, and the preview says so.

    The recommender framework calls the clipping length C the sensitivity; two profiles are up to
    2C apart (replace one), and C where a user stands against nothing (zero-out).

    Args: besides those of `_OfUser`:
        epsilon, delta: for each user.
    """

    _noise: GaussianMechanism = field(init=False, repr=False)
    tag: ClassVar = "noisy-profile-of-user"
    way: ClassVar = "noisy"

    def prepare(self) -> None:
        check_bounds(self.sensitivity, self.protected)
        noise = GaussianMechanism.calibrated(
            self.sensitivity, epsilon=self.epsilon, delta=self.delta, shape=(len(self.players),)
        )
        object.__setattr__(self, "_noise", noise)

    @property
    def sensitivity(self) -> Sensitivity:
        return clipped_vector(
            bound=1.0, norm=Norm.L2, unit=ProtectedUnit.USER, relation=self.protected.relation
        )

    def cost(self, rows: int) -> PrivacyEvent:
        positive("rows", rows)
        return self._noise.event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism=f"Gaussian noise of standard deviation {self._noise.sigma:.6g} on profiles "
            "of length 1",
            composition="one release of each user; different users in parallel",
            public_facts=("catalogue", "model", "number of users"),
            assumptions=(*self.sensitivity.conditions, *OF_ONE_USER),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        noise = self._noise.preview()
        length = math.sqrt(len(self.players)) * noise.standard_deviation
        floor = score_of_pure_noise(self.epsilon)
        return Accuracy.from_noise(
            noise,
            f"noise on {len(self.players)} values is {length:.3g} long, the profile 1",
            f"pure noise would reach a PAAS of {floor:.3f} at this epsilon",
        )

    def draw(self, rows: Any) -> Explanation:
        unit = [_unit(profile) for profile in self.read(rows)]
        noisy = np.stack([self._noise.randomise(each) for each in unit])
        shown = self._noise.preview()
        shape = (*noisy.shape, 1)
        return self.explained(
            noisy,
            standard_errors=np.full(shape, shown.standard_deviation),
            half_widths=np.full(shape, shown.half_width),
        )


@dataclass(frozen=True, eq=False)
class LabelImportance(ModelRelease):
    """What matters over all users: the mean of their absolute profiles of length 1, with noise.

    Guarantees
        1. (epsilon, delta) for each user, besides what the moments cost.
        2. One user moves the mean over n users by 1/n at most (zero-out), or √2/n (replace one).

    Args: besides those of `ModelRelease`:
        profile, model: see `TopLabelsOfUser`.
        users: how many there are; public. `draw` takes the `Interactions` of all of them.
    """

    profile: ByLabels
    _: KW_ONLY
    model: str
    users: int
    _noise: GaussianMechanism = field(init=False, repr=False)
    part: ClassVar = RowPart.POPULATION
    tag: ClassVar = "label-importance"

    def prepare(self) -> None:
        exact = unit_row_sum(relation=self.protected.relation).scaled(1 / self.users)
        check_bounds(exact, self.protected)
        noise = GaussianMechanism.calibrated(
            # Sums are rounded once for each value, whatever the number of users.
            exact.scaled(1 + MARGIN),
            epsilon=self.epsilon,
            delta=self.delta,
            shape=(len(self.players),),
        )
        object.__setattr__(self, "_noise", noise)

    @cached_property
    def players(self) -> tuple[str, ...]:
        return self.profile.players[0]

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.model, f"importance of {self.profile.name}", self.level

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "count": self.profile.count,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "groups": _listed(self.profile),
            "origins": origins_v1(self.origins),
            "population": self.protected.dataset,
            "users": self.users,
        }

    @property
    def settings(self) -> dict[str, object]:
        return {**super().settings, "profile": self.profile.kind}

    def cost(self, rows: int) -> PrivacyEvent:
        positive("rows", rows)
        return self._noise.event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism=f"Gaussian noise of standard deviation {self._noise.sigma:.6g} on the mean "
            "of absolute profiles",
            composition="one release",
            public_facts=("catalogue", "model", f"number of users: {self.users}"),
            assumptions=(*self._noise.sensitivity.conditions, "running time is not observed"),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        return Accuracy.from_noise(
            self._noise.preview(), "values are shares of a profile of length 1"
        )

    def draw(self, rows: Interactions) -> Explanation:
        if len(rows) != self.users:
            raise InvalidInput(
                f"expected the interactions of {self.users} users, found {len(rows)}"
            )
        profiles = np.stack(
            [np.abs(_unit(self.profile.profile(rows.history_at(n)))) for n in range(len(rows))]
        )
        mean = np.array([math.fsum(column) for column in profiles.T]) / self.users
        noisy, shown = self._noise.randomise(mean), self._noise.preview()
        shape = (1, len(noisy), 1)
        return Explanation(
            values=noisy.reshape(shape),
            base_values=np.zeros(1),
            feature_names=self.players,
            output_names=(TOTAL,),
            standard_errors=np.full(shape, shown.standard_deviation),
            half_widths=np.full(shape, shown.half_width),
            guarantees=self.guarantees(1),
            notes=self.notes("mean of absolute profiles over all users"),
        )


def score_of_pure_noise(epsilon: float) -> float:
    """What PAAS gives for a vector that says nothing: half of all pairs are in order by chance."""
    return ALPHA / 2 + (1 - ALPHA) * -math.expm1(-epsilon / REFERENCE_EPSILON)


def _listed(profile: ByLabels) -> dict[str, list[str]]:
    """The declared groups, as a part of the question."""
    return {name: list(labels) for name, labels in (profile.groups or {}).items()}


def _unit(profile: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scaled to length 1 at most; nothing stays nothing."""
    largest = float(np.abs(profile).max(initial=0.0))
    if not (math.isfinite(largest) and largest > 0):
        return np.zeros_like(profile)
    scaled = profile / largest
    return np.asarray(scaled / max(1.0, float(np.linalg.norm(scaled))))
