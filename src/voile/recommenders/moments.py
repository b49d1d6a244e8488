"""`ItemMoments`: the item side of a recommender, learned once with user-level privacy.

Two charged releases: how popular each item is, and how items go together among the *head*, the
items that the first release says are popular. Everything after them (denoising, models,
recommendations, what a user sees about herself) is post-processing. Proof:
docs/guarantees/recommenders.md.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from voile.core.errors import InvalidInput
from voile.core.guarantee import Adversary, Guarantee, Protected, RowPart
from voile.core.input_file import damaged
from voile.privacy import events
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.recommenders.budget import RIDGE, MomentsBudget, epsilon_of, stated_epsilon
from voile.recommenders.shop import Catalogue, Interactions
from voile.release.charged import STORED, Accuracy, ChargedRelease, OneTimeArtefact
from voile.release.contract import Codec
from voile.release.origin import Origin, trained_privately

# --- Users as unit vectors, on a grid on which sums are exact -------------------------------------
# Every user is a vector without negative entries and at most 1 long: whoever touched much counts
# no more than whoever touched little. Entries are rounded toward zero to multiples of 2^-b, with b
# so that a sum over all users of products of two entries is a whole number of at most 2^52 steps:
# each partial sum is a floating-point number, nothing is lost, and the order does not matter. So
# two data sets that differ in one user differ by what that user adds, exactly, and parties that
# add up their parts get what one party would.


def grid_bits(users: int) -> int:
    """Binary digits of an entry: users · 2^(2b) stays within 2^52."""
    return (52 - math.ceil(math.log2(positive("users", users)))) // 2


def unit_rows(matrix: sparse.csr_array, *, bits: int) -> sparse.csr_array:
    """Every row scaled to length 1 at most, on the grid; an empty row stays empty.

    Entries below 0 and entries that are no numbers count as 0: a record never raises.
    """
    rows = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    largest = np.finfo(np.float64).max
    rows.data = np.clip(np.nan_to_num(rows.data, nan=0.0, posinf=largest, neginf=0.0), 0.0, None)
    counts = np.diff(rows.indptr)
    peaks = np.repeat(_largest_of_rows(rows), counts)
    # First by the largest entry, which is harmless, so that squares neither vanish nor overflow.
    rows.data = np.divide(rows.data, peaks, out=np.zeros_like(rows.data), where=peaks > 0)
    owner = np.repeat(np.arange(rows.shape[0]), counts)
    squares = np.bincount(owner, weights=rows.data**2, minlength=rows.shape[0])
    lengths = np.repeat(np.sqrt(squares), counts)
    rows.data = np.divide(rows.data, lengths, out=np.zeros_like(rows.data), where=lengths > 0)
    rows.data = np.floor(rows.data * 2.0**bits) / 2.0**bits
    return rows


def _largest_of_rows(rows: sparse.csr_array) -> NDArray[np.float64]:
    peaks = np.zeros(rows.shape[0])
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    np.maximum.at(peaks, owner, rows.data)
    return peaks


def popularity(rows: sparse.csr_array) -> NDArray[np.float64]:
    """The sum of all rows."""
    return np.asarray(rows.sum(axis=0)).reshape(-1)


def gram(rows: sparse.csr_array) -> NDArray[np.float64]:
    """The sum of all products of a row with itself, as what is released: `folded`."""
    return folded((rows.T @ rows).toarray())


def folded(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A symmetric matrix as a vector: entries above the diagonal, then the diagonal over √2.

    Equal noise on all entries of the vector is, unfolded, noise that looks alike from every
    direction (the Gaussian orthogonal ensemble): what shrinking eigenvalues needs.
    """
    above = np.triu_indices(len(matrix), 1)
    return np.concatenate([matrix[above], np.diag(matrix) / math.sqrt(2)])


def unfolded(vector: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The inverse of `folded`."""
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size, 1)] = vector[: size * (size - 1) // 2]
    matrix += matrix.T
    matrix[np.diag_indices(size)] = vector[size * (size - 1) // 2 :] * math.sqrt(2)
    return matrix


# --- What can be got out of noisy moments. All of it is post-processing and costs nothing ---------
# The noise on an unfolded Gram matrix is a Gaussian orthogonal ensemble of a *known* size: its
# eigenvalues lie within ±2τ√H. So eigenvalues outside tell of users, those inside of nothing, and
# how much one outside is to be shrunk is known as well. Then the same once more within few
# directions, those of popularity times public features, in which noise is smaller: 2τ√r for r of
# them.


Matrix = NDArray[np.float64]


def denoised(
    noisy: Matrix, *, deviation: float, popularity: NDArray[np.float64], features: Matrix
) -> Matrix:
    """The Gram matrix as far as it stands out of the noise: symmetric, positive semidefinite.

    Args:
        noisy: unfolded, shape (H, H).
        deviation: standard deviation τ of the noise above the diagonal.
        popularity: of the H items, with its noise.
        features: public, shape (H, r).
    """
    first = shrunk(noisy, deviation)
    basis = _directions(popularity, features)
    rest = basis.T @ (noisy - first) @ basis
    second = basis @ shrunk(rest, deviation) @ basis.T
    return positive_semidefinite(first + second)


def shrunk(noisy: Matrix, deviation: float) -> Matrix:
    """Eigenvalues λ beyond the edge e = 2τ√n become √(λ² − e²), the others 0.

    That is the best function of the eigenvalues in the Frobenius norm, for few directions in much
    noise (Donoho and Gavish, and Shabalin and Nobel, for the symmetric case). The true matrix has
    no negative eigenvalues, so those are noise, however large.
    """
    values, vectors = np.linalg.eigh(noisy)
    edge = 2 * deviation * math.sqrt(len(noisy))
    kept = np.sqrt(np.maximum(values**2 - edge**2, 0.0)) * (values > 0)
    return np.asarray((vectors * kept) @ vectors.T)


def positive_semidefinite(matrix: Matrix) -> Matrix:
    """The nearest one in the Frobenius norm."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _directions(popularity: NDArray[np.float64], features: Matrix) -> Matrix:
    """An orthonormal basis of popularity times features; of all zeros, nothing."""
    scaled = np.maximum(popularity, 0.0)[:, np.newaxis] * features
    left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    return np.asarray(left[:, sizes > 1e-8 * max(float(sizes.max()), 1e-300)])


Progress: TypeAlias = Callable[[int, int], object]
"""Is told how many values are drawn, out of how many."""
PAID_WITH: Final = "app.recommend.train"
_PUBLIC_FACTS: Final = ("catalogue", "number of users", "the frozen rule of the budget")


@dataclass(frozen=True, eq=False)
class ItemPopularity(OneTimeArtefact):
    """How popular every item is, with noise: the sum of all users' unit vectors.

    Args: besides those of `OneTimeArtefact`:
        charge: a stored recommender states it; it is looked up in the ledger before anything is
            said on its ground (`voile.app.recommend.handler`).
    """

    charge: str | None = field(default=None, kw_only=True)
    values: NDArray[np.float64]
    what: ClassVar = "popularities"
    paid_with: ClassVar = PAID_WITH

    def head(self, size: int) -> NDArray[np.int64]:
        """The most popular items as the noise has it, best first; among equals the earlier one."""
        return np.argsort(-self.values, kind="stable")[:size]


@dataclass(frozen=True, eq=False)
class ItemGram(OneTimeArtefact):
    """How the head items go together, with noise: the unfolded Gram matrix of unit rows.

    Args: besides those of `OneTimeArtefact`:
        charge: as for `ItemPopularity`.
    """

    charge: str | None = field(default=None, kw_only=True)
    matrix: Matrix
    what: ClassVar = "Gram matrices"
    paid_with: ClassVar = PAID_WITH


@dataclass(frozen=True, eq=False)
class _MomentsRelease(ChargedRelease):
    """What both releases have in common.

    Args: besides those of `ChargedRelease`:
        interactions: protected.
        budget: how much each of them tells; its users and items are those of the interactions.
        protected: a user of their data set; zero-out or replace one.
        delta: at which the epsilon of one release is stated; both are judged together
            (`ItemMoments.guarantee`).
        progress: is told how far drawing is.
    """

    interactions: Interactions = field(repr=False)
    budget: MomentsBudget
    _: KW_ONLY
    epsilon: float = field(init=False)
    progress: Progress | None = field(default=None, repr=False)
    name: ClassVar[str]
    part: ClassVar = RowPart.TRAINING

    @property
    def noise(self) -> GaussianMechanism:
        raise NotImplementedError

    def prepare(self) -> None:
        budget, catalogue = self.budget, self.interactions.catalogue
        here = len(self.interactions)
        other_users = here > budget.users or (budget.parties == 1 and here < budget.users)
        if other_users or budget.items != len(catalogue):
            raise InvalidInput(
                f"the budget is for {budget.users} users and {budget.items} items, found "
                f"{len(self.interactions)} and {len(catalogue)}"
            )
        check_bounds(self.noise.sensitivity, self.protected)
        object.__setattr__(self, "epsilon", stated_epsilon([self.noise], self.delta))

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.interactions.catalogue.digest, self.name, self.name

    @property
    def settings_v1(self) -> dict[str, object]:
        return {"delta": self.delta, "sigma": self.noise.sigma, "users": self.budget.users}

    def cost(self, rows: int) -> events.Gaussian:
        positive("rows", rows)
        return self.noise.event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism=f"Gaussian noise of standard deviation {self.noise.sigma:.6g} on {self.name}",
            composition="one release",
            public_facts=_PUBLIC_FACTS,
            assumptions=(*self.noise.sensitivity.conditions, "running time is not observed"),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        return Accuracy.from_noise(self.noise.preview(), *expected_quality(self.budget))

    @property
    def bits(self) -> int:
        return grid_bits(self.budget.users)


@dataclass(frozen=True, eq=False)
class PrivatePopularity(_MomentsRelease):
    """The first release: Σ x_u over unit vectors of users, for every item of the catalogue.

    Guarantees
        1. One user moves it by 1 at most (zero-out), or √2 (replace one), in the l2 norm.
        2. Items are those of the public catalogue: also those that nobody touched.
        3. No interaction makes `draw` raise.
    """

    tag: ClassVar = "item-popularity"
    name: ClassVar = "popularity of items"

    @property
    def noise(self) -> GaussianMechanism:
        return self.budget.popularity_noise

    def draw(self, rows: Any = None) -> ItemPopularity:  # noqa: ARG002
        exact = popularity(unit_rows(self.interactions.matrix, bits=self.bits))
        return ItemPopularity(self.noise.randomise(exact, self.progress), event=self.cost(1))

    @property
    def codec(self) -> Codec[ItemPopularity]:
        return Codec(lambda made: packed(made.values), self._unpack)

    def _unpack(self, content: bytes) -> ItemPopularity:
        return ItemPopularity(unpacked(content, self.noise.shape), event=self.cost(1))


@dataclass(frozen=True, eq=False)
class PrivateGram(_MomentsRelease):
    """The second release: Σ x_u x_uᵀ over users' unit vectors on the head.

    Each user's history is cut to the head and *then* scaled to length 1: the head is fixed by the
    first release, whatever a user did.

    Guarantees
        1. One user moves what is released by 1/√2 at most (zero-out), or 1 (replace one).
        2. No interaction makes `draw` raise.

    Args: besides those of both:
        chosen: the first release, paid for; the head is chosen from its noisy values.
    """

    chosen: ItemPopularity = field(kw_only=True)
    tag: ClassVar = "item-gram"
    name: ClassVar = "Gram matrix of items"

    def prepare(self) -> None:
        self.chosen.check_paid()
        super().prepare()

    @property
    def noise(self) -> GaussianMechanism:
        return self.budget.gram_noise

    @cached_property
    def head(self) -> NDArray[np.int64]:
        return self.chosen.head(self.budget.head)

    @property
    def settings_v1(self) -> dict[str, object]:
        head = hashlib.sha256(np.ascontiguousarray(self.head, dtype="<i8").tobytes()).hexdigest()
        # A new popularity asks for a new Gram matrix, even if it should choose the same head.
        return {**super().settings_v1, "head": head, "chosen by": self.chosen.charge}

    @property
    def settings(self) -> dict[str, object]:
        found = self.settings_v1
        found["chosen_by"] = found.pop("chosen by")
        return found

    def draw(self, rows: Any = None) -> ItemGram:  # noqa: ARG002
        exact = gram(unit_rows(self.interactions.matrix[:, self.head], bits=self.bits))
        return self._made(self.noise.randomise(exact, self.progress))

    def _made(self, vector: NDArray[np.float64]) -> ItemGram:
        return ItemGram(unfolded(vector, self.budget.head), event=self.cost(1))

    @property
    def codec(self) -> Codec[ItemGram]:
        """The matrix as it is: unfolding rounds, and what is given again is the same to the bit."""
        return Codec(lambda made: packed(made.matrix), self._unpack)

    def _unpack(self, content: bytes) -> ItemGram:
        size = self.budget.head
        return ItemGram(unpacked(content, (size, size)), event=self.cost(1))


@dataclass(frozen=True, eq=False)
class ItemMoments:
    """Both releases, and what they promise together. All that is made from it is free.

    Args:
        catalogue: public.
        budget: how noisy they are.
        popularity, gram: paid for; no Gram matrix where popularity got the whole budget.
        guarantee: joint, of both.
    """

    catalogue: Catalogue
    budget: MomentsBudget
    popularity: ItemPopularity
    gram: ItemGram | None
    guarantee: Guarantee

    def __post_init__(self) -> None:
        for each in filter(None, (self.popularity, self.gram)):
            each.check_paid()
        if (self.gram is None) != self.budget.popularity_only:
            raise InvalidInput("a budget for both moments needs both, one for popularity one")

    @property
    def origin(self) -> Origin:
        return trained_privately(self.guarantee)

    @property
    def artefacts(self) -> tuple[OneTimeArtefact, ...]:
        """What was paid for, in order."""
        return tuple(each for each in (self.popularity, self.gram) if each is not None)

    @property
    def events(self) -> tuple[events.PrivacyEvent, ...]:
        """What each of them cost."""
        return self.budget.events

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """The same by name."""
        found = {"popularity": self.popularity.values}
        return found if self.gram is None else found | {"gram": self.gram.matrix}

    @cached_property
    def head(self) -> NDArray[np.int64]:
        """Places of the head items; none without a Gram matrix."""
        return self.popularity.head(0 if self.gram is None else self.budget.head)

    @cached_property
    def clean_gram(self) -> Matrix:
        """What stands out of the noise; see `denoising`."""
        if self.gram is None:
            return np.zeros((0, 0))
        return denoised(
            self.gram.matrix,
            deviation=self.budget.gram_deviation,
            popularity=self.popularity.values[self.head],
            features=self.catalogue.features[self.head],
        )


def joint_guarantee(budget: MomentsBudget, *, protected: Protected, delta: float) -> Guarantee:
    """What both releases of a budget promise together (`stated_epsilon`).

    Noise in shares costs what zero-concentrated differential privacy says of it.
    """
    sensitivity, shared = budget.popularity_noise.sensitivity, budget.shares > 1
    check_bounds(sensitivity, protected)
    what, how = "popularity and Gram matrix", "both releases together, by exact composition"
    if shared:
        how = "both releases together, by zero-concentrated differential privacy"
    if budget.popularity_only:
        what, how = "popularity", "one release"
    noise = "discrete Gaussian noise in shares" if shared else "Gaussian noise"
    return Guarantee(
        epsilon=epsilon_of(budget, delta),
        delta=delta,
        protected=protected,
        against=(Adversary.PUBLIC,),
        computational=shared,
        mechanism=f"{noise} on {what} of items",
        composition=how,
        public_facts=_PUBLIC_FACTS,
        assumptions=(
            *sensitivity.conditions,
            "running time is not observed",
            "whoever adds up the interactions sees them: the guarantee is not against the server",
        ),
    )


def expected_quality(budget: MomentsBudget) -> tuple[str, ...]:
    """What comparable budgets reached elsewhere; nothing of these users is looked at."""
    if budget.popularity_only:
        return (
            f"users times mu is {budget.signal:.3g}: too little for a Gram matrix, so the whole "
            "budget goes to popularity, and everybody is recommended the same",
        )
    share = float(np.interp(math.log(budget.signal), *np.array(_MEASURED).T))
    return (
        f"a Gram matrix of {budget.head} items, ridge {RIDGE:g}; on MovieLens such a budget "
        f"(users times mu: {budget.signal:.3g}) reached about {share:.0%} of the NDCG@10 without "
        "privacy, full ranking; sparse catalogues reach much less",
    )


_MEASURED: Final = tuple(
    (math.log(signal), share)
    for signal, share in ((120, 0.50), (223, 0.62), (770, 0.66), (1430, 0.75), (6180, 0.89))
)
"""Users times μ, and the share of the quality without privacy (experiments/recommender_framework).
"""


def packed(array: NDArray[np.float64]) -> bytes:
    """As released moments are kept."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def unpacked(content: bytes, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The inverse of `packed`, for an array of this shape; anything else is `UnreadableFile`."""
    with damaged(STORED):
        buffer = io.BytesIO(content)
        array: NDArray[np.float64] = np.lib.format.read_array(buffer, allow_pickle=False)
        if array.shape != shape or array.dtype != np.float64 or buffer.read(1):
            raise ValueError(f"expected numbers of shape {shape}")
        return array
