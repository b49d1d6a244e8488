"""Sensitivities of the pairwise Shapley interaction index, as a vector over all pairs i < j.

    I_ij = Σ_{S ⊆ N∖ij} |S|!(d−|S|−2)!/(d−1)! · (v(S∪ij) − v(S∪i) − v(S∪j) + v(S))

Proof: docs/guarantees/sensitivity.md. The bounds grow like 2 ln d.
"""

from __future__ import annotations

import math
from functools import lru_cache

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.privacy.sensitivity.bound import Sensitivity, by_relation, positive, width_of
from voile.privacy.sensitivity.shapley import _of_rows

_PAIRS = "interactions are exact, not estimated, and only those of pairs are released, each once"


def interaction_norm(*, features: int, output_width: float) -> float:
    """The length of any vector of pairwise interactions of a game of this width."""
    width = width_of("output_width", output_width)
    if features == 2:
        return 2 * width
    return width / 2 * _length(features, constant=8.0)


def interaction_background(
    *, features: int, background_rows: int, output_width: float, relation: Relation
) -> Sensitivity:
    """Exact pairwise interactions of one output over m private background rows.

    Covers the pairs i < j, each once; what single features add besides is another release.
    """
    width = width_of("output_width", output_width)
    whole = width * (3.0 if features == 2 else _length(features, constant=4.5))
    value = by_relation(relation, replace_one=whole, blank_one=whole / 2)
    return _of_rows(value / positive("background_rows", background_rows), relation, _PAIRS)


@lru_cache(maxsize=1024)
def _length(features: int, *, constant: float) -> float:
    """√(c·d/(d−1) + 4d/(d−2) + K²): constant, degree and pure part of a direction over pairs."""
    d = features
    if isinstance(d, bool) or not isinstance(d, int) or d < 2:
        raise InvalidInput(f"interactions need at least two features, found {features!r}")
    return math.sqrt(constant * d / (d - 1) + 4 * d / (d - 2) + _pure(d) ** 2)


def _pure(d: int) -> float:
    if d < 4:
        return 0.0
    terms = (1 / math.sqrt(t * (t - 1) * (d - t) * (d - t - 1)) for t in range(2, d - 1))
    return math.sqrt(d * (d - 1) * (d - 2) / (d - 3)) * math.fsum(terms)
