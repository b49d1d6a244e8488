"""Clusters of features that go together, for the aggregate level: from public rows, or privately.

How much two features go together is read off their second moments after scaling each encoded
feature to [−1, 1] by the schema (categories by their place in the list). Features are joined by
average linkage until k clusters are left. Only the moments touch data; everything after them is
post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.schema import Schema
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.sensitivity import Norm, Sensitivity
from voile.privacy.sensitivity.bound import by_relation, check_bounds, positive
from voile.release.origin import PUBLIC, Origin, trained_privately
from voile.release.records import Records

CLUSTERS: Final = 5
"""As in the recommender framework."""


@dataclass(frozen=True)
class Clusters:
    """Which features play together, where that comes from, and what finding it cost.

    Args:
        groups: the names of the features in each cluster.
        origin: public, or covered by a guarantee; give it to whatever uses the clusters.
        event: what has to be charged before they are used; None if they are public.
        charge: the ledger's name for the charge that paid for `event`
            (`voile.workflows.explain.paid_clusters` sets it).
    """

    groups: dict[str, tuple[str, ...]]
    origin: Origin
    event: PrivacyEvent | None
    charge: str | None = None

    def check_paid(self) -> None:
        """Refuse clusters that protected rows chose and nobody paid for."""
        if self.event is not None and not self.charge:
            raise Refused(
                "these clusters were found in protected rows and nobody was charged for them: "
                "voile.workflows.explain.paid_clusters finds and charges them"
            )


def declared_clusters(groups: dict[str, tuple[str, ...]]) -> Clusters:
    """Clusters that somebody named without looking at protected data."""
    return Clusters(dict(groups), PUBLIC, None)


def public_clusters(rows: Any, *, schema: Schema, count: int = CLUSTERS) -> Clusters:
    """Clusters found in public rows."""
    scaled = _scaled(rows, schema)
    return Clusters(_joined(_moments(scaled), schema, count), PUBLIC, None)


def private_clusters(
    rows: Any,
    *,
    schema: Schema,
    epsilon: float,
    delta: float,
    protected: Protected,
    count: int = CLUSTERS,
) -> Clusters:
    """Clusters found in private rows, from first and second moments with Gaussian noise.

    Nothing is charged here, so no release takes them yet: `paid_clusters` of
    `voile.workflows.explain` does both.
    """
    scaled = _scaled(rows, schema)
    sensitivity = moments_sensitivity(
        features=scaled.shape[1], rows=len(scaled), relation=protected.relation
    )
    check_bounds(sensitivity, protected)
    moments = _moments(scaled)
    noise = GaussianMechanism.calibrated(
        sensitivity, epsilon=epsilon, delta=delta, shape=moments.shape
    )
    promise = Guarantee(
        epsilon=epsilon,
        delta=delta,
        protected=protected,
        against=(Adversary.PUBLIC,),
        computational=False,
        mechanism="Gaussian noise on moments of features, clusters by average linkage",
        composition="one release",
        public_facts=("schema", f"number of rows: {len(scaled)}"),
        assumptions=sensitivity.conditions,
    )
    noisy = noise.randomise(moments)
    return Clusters(_joined(noisy, schema, count), trained_privately(promise), noise.event())


def moments_sensitivity(*, features: int, rows: int, relation: Relation) -> Sensitivity:
    """Of the means of x_i, and of x_i·x_j for i ≤ j, of vectors x in [−1, 1]^d.

    Each is a mean of numbers in [−1, 1]: the vector of one row is at most √(how many there are)
    long. Replacing a row moves it by at most twice that, blanking it (zeros) by once.
    """
    length = math.sqrt(positive("features", features) * (features + 3) / 2)
    value = by_relation(relation, replace_one=2 * length, blank_one=length)
    return Sensitivity(
        value=value / positive("rows", rows),
        norm=Norm.L2,
        unit=ProtectedUnit.ROW,
        relation=relation,
        conditions=(
            "each feature is scaled to [-1, 1] by the schema",
            "running time is not observed",
        ),
    )


def _scaled(rows: Any, schema: Schema) -> NDArray[np.float64]:
    """Features in [−1, 1]: by their bounds, or by their place in the list of categories.

    Null records are zeros: they add nothing to any moment.
    """
    records = Records.read(rows, schema, "the data that clusters are found in")
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
    names = schema.feature_names
    if not 1 <= positive("count", count) <= len(names):
        raise InvalidInput(f"of {len(names)} features {count} clusters cannot be made")
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
