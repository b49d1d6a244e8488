"""Clusters of features that go together, for the aggregate level: from public rows, or privately.

How much two features go together is read off their second moments after scaling each encoded
feature to [−1, 1] by the schema (categories by their place in the list). Features are joined by
average linkage until k clusters are left. Only the moments touch data; everything after them is
post-processing.
"""

from __future__ import annotations

import json
import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.guarantee import Guarantee, Relation, RowPart
from voile.core.input_file import damaged
from voile.core.schema import Schema
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.privacy.sensitivity.bound import by_relation, check_bounds, positive
from voile.release.charged import STORED, Accuracy, ArtefactRelease, OneTimeArtefact
from voile.release.contract import Codec
from voile.release.origin import PUBLIC, Origin, trained_privately
from voile.release.records import Records

CLUSTERS: Final = 5
"""As in the recommender framework."""


@dataclass(frozen=True)
class Clusters(OneTimeArtefact):
    """Which features play together, where that comes from, and what finding it cost.

    Args (in addition to those of `OneTimeArtefact`):
        groups: the names of the features in each cluster.
        found_in: public rows, or such that are covered by a guarantee.

    >>> Clusters({"body": ("height", "weight")}, PUBLIC, event=None).origin == PUBLIC
    True
    """

    groups: dict[str, tuple[str, ...]]
    found_in: Origin
    what: ClassVar = "clusters"
    paid_with: ClassVar = "app.explain.paid_clusters"

    @property
    def origin(self) -> Origin:
        """Give it to whatever uses the clusters; refused until they are paid for."""
        self.check_paid()
        return self.found_in


def declared_clusters(groups: dict[str, tuple[str, ...]]) -> Clusters:
    """Clusters that you name.

    Assumes that they were chosen without looking at protected data. Costs nothing.

    >>> declared_clusters({"body": ("height", "weight")}).groups
    {'body': ('height', 'weight')}
    """
    return Clusters(dict(groups), PUBLIC, event=None)


def public_clusters(rows: Any, *, schema: Schema, count: int = CLUSTERS) -> Clusters:
    """Find clusters in rows that are public. Costs nothing.

    Assumes that the rows are public: use `PrivateClusters` for protected ones.

    >>> from voile.core.schema import Feature, Numbers
    >>> schema = Schema("t", tuple(Feature(name, Numbers(0, 1)) for name in ("a", "b", "c")))
    >>> a, c = np.random.default_rng(0).random((2, 50))
    >>> list(public_clusters(np.column_stack([a, a, c]), schema=schema, count=2).groups)
    ['a + b', 'c']
    """
    scaled = _scaled(_read(rows, schema), schema)
    return Clusters(_joined(_moments(scaled), schema, count), PUBLIC, event=None)


@dataclass(frozen=True, eq=False)
class PrivateClusters(ArtefactRelease):
    """`Clusters` found in private rows, from first and second moments with Gaussian noise.

    Args (in addition to those of `ArtefactRelease`):
        protected: a row of their data set; zero-out or replace one.
        epsilon, delta: of the publication, once.
        count: at most so many clusters.

    >>> from voile.core.guarantee import Protected
    >>> from voile.core.schema import Feature, Numbers
    >>> schema = Schema("t", tuple(Feature(name, Numbers(0, 1)) for name in ("a", "b", "c")))
    >>> release = PrivateClusters(
    ...     np.full((500, 3), 0.5), schema=schema, count=2, epsilon=1.0, delta=1e-6,
    ...     protected=Protected("row", "blank one", "patients"))
    >>> found = release.draw()
    >>> len(found.groups) <= 2, found.event == release.cost(1)
    (True, True)
    """

    _: KW_ONLY
    count: int = CLUSTERS
    _noise: GaussianMechanism = field(init=False, repr=False)
    part: ClassVar = RowPart.POPULATION
    tag: ClassVar = "feature-clusters"
    name: ClassVar = "clusters of features"

    def prepare(self) -> None:
        _check_count(self.count, self.schema)
        check_bounds(self._sensitivity(1), self.protected)
        object.__setattr__(self, "_read", _read(self.records, self.schema))
        features = len(self.schema.features)
        noise = GaussianMechanism.calibrated(
            self._sensitivity(len(self._read)),
            epsilon=self.epsilon,
            delta=self.delta,
            shape=(features * (features + 3) // 2,),
        )
        object.__setattr__(self, "_noise", noise)

    def _sensitivity(self, rows: int) -> Sensitivity:
        features, relation = len(self.schema.features), self.protected.relation
        return moments_sensitivity(features=features, rows=rows, relation=relation)

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "count": self.count,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "rows": self.public_size,
        }

    def cost(self, rows: int) -> PrivacyEvent:
        positive("rows", rows)
        return self._noise.event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        return self.promise(
            mechanism="Gaussian noise on moments of features, clusters by average linkage",
            composition="one release",
            public_facts=("schema", f"number of rows: {len(self._read)}"),
            assumptions=self._noise.sensitivity.conditions,
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        return Accuracy.from_noise(
            self._noise.preview(), "values are moments of features in [-1, 1]"
        )

    def draw(self, rows: Any = None) -> Clusters:  # noqa: ARG002
        return self._made(_joined(self.noisy_moments(), self.schema, self.count))

    def noisy_moments(self) -> NDArray[np.float64]:
        """All that clusters are made from; showing one of these costs the whole price."""
        return self._noise.randomise(_moments(_scaled(self._read, self.schema)))

    def _made(self, groups: dict[str, tuple[str, ...]]) -> Clusters:
        return Clusters(groups, trained_privately(*self.guarantees(1)), event=self.cost(1))

    @property
    def codec(self) -> Codec[Clusters]:
        return Codec(lambda made: json.dumps(made.groups).encode(), self._unpack)

    def _unpack(self, content: bytes) -> Clusters:
        with damaged(STORED):
            stored = json.loads(content)
            return self._made({str(k): tuple(map(str, v)) for k, v in stored.items()})


def moments_sensitivity(*, features: int, rows: int, relation: Relation) -> Sensitivity:
    """Of the means of x_i, and of x_i·x_j for i ≤ j, of vectors x in [−1, 1]^d.

    Each is a mean of numbers in [−1, 1]: the vector of one row is at most √(how many there are)
    long. Replacing a row moves it by at most twice that, blanking it (zeros) by once.
    """
    length = math.sqrt(positive("features", features) * (features + 3) / 2)
    value = by_relation(relation, replace_one=2 * length, blank_one=length)
    return Sensitivity.of_rows(
        value / positive("rows", rows),
        Norm.L2,
        relation,
        "each feature is scaled to [-1, 1] by the schema",
        "running time is not observed",
    )


def _read(rows: Any, schema: Schema) -> Records:
    return Records.read(rows, schema, "the data that clusters are found in")


def _scaled(records: Records, schema: Schema) -> NDArray[np.float64]:
    """Features in [−1, 1]: by their bounds, or by their place in the list of categories.

    Null records are zeros: they add nothing to any moment.
    """
    inside = records.rows
    columns = []
    for place, feature in enumerate(schema.features):
        last = len(feature.column_names) - 1
        share = inside[:, place] / last if last else feature.encode(inside[:, place])[:, 0]
        columns.append(np.clip(2 * share - 1, -1, 1))
    return np.where(records.blank[:, np.newaxis], 0.0, np.column_stack(columns))


def _moments(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
    """The means of all x_i, then of all products x_i·x_j with i ≤ j."""
    left, right = np.triu_indices(scaled.shape[1])
    products = scaled[:, left] * scaled[:, right]
    both = np.concatenate([scaled, products], axis=1)
    return np.array([math.fsum(column) for column in both.T]) / len(scaled)


def _joined(moments: NDArray[np.float64], schema: Schema, count: int) -> dict[str, tuple[str, ...]]:
    """Average linkage on 1 − |correlation|, down to at most `count` clusters."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    names = schema.feature_names
    _check_count(count, schema)
    if len(names) == 1:
        return {names[0]: names}
    numbers = fcluster(
        linkage(squareform(_distances(moments, len(names)), checks=False), "average"),
        count,
        criterion="maxclust",
    )
    members = [
        tuple(n for n, c in zip(names, numbers, strict=True) if c == number)
        for number in dict.fromkeys(numbers)
    ]
    return {" + ".join(group): group for group in members}


def _check_count(count: int, schema: Schema) -> None:
    features = len(schema.features)
    if positive("count", count) > features:
        raise InvalidInput(f"of {features} features {count} clusters cannot be made")


def _distances(moments: NDArray[np.float64], features: int) -> NDArray[np.float64]:
    mean, products = moments[:features], np.zeros((features, features))
    products[np.triu_indices(features)] = moments[features:]
    covariance = products + np.triu(products, 1).T - np.outer(mean, mean)
    # Noise may leave a variance without sense: one below a thousandth of the range counts as that.
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-3))
    distance: NDArray[np.float64] = 1 - np.minimum(
        np.abs(covariance / np.outer(deviation, deviation)), 1.0
    )
    np.fill_diagonal(distance, 0.0)
    return distance
