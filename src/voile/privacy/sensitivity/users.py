"""Sensitivities of sums over users, each of whom is one vector of length at most one.

Proofs: docs/guarantees/recommenders.md.
"""

from __future__ import annotations

import math
from typing import Final

from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.sensitivity.bound import Norm, Sensitivity, by_relation

_UNIT_ROWS: Final = (
    "all lines of one user make one vector",
    "each user's vector has no entry below 0 and is at most 1 long",
    "a user without history adds nothing",
)


def unit_row_sum(*, relation: Relation) -> Sensitivity:
    """Σ_u x_u. Blanking a user takes at most 1 away; replacing moves by √(2 − 2⟨x, y⟩) ≤ √2,
    because vectors without negative entries never point away from each other."""
    value = by_relation(relation, replace_one=math.sqrt(2), blank_one=1.0)
    return _of_users(value, relation)


def unit_row_gram(*, relation: Relation) -> Sensitivity:
    """Σ_u x_u x_uᵀ, as the vector of its entries above the diagonal and its diagonal over √2.

    That vector is 1/√2 times as long as the matrix. Of one user the matrix is ‖x‖² ≤ 1 long, so
    blanking costs 1/√2; replacing moves it by √(2 − 2⟨x, y⟩²) ≤ √2, so the vector by at most 1.
    """
    value = by_relation(relation, replace_one=1.0, blank_one=math.sqrt(0.5))
    return _of_users(value, relation)


def _of_users(value: float, relation: Relation) -> Sensitivity:
    return Sensitivity(
        value=value,
        norm=Norm.L2,
        unit=ProtectedUnit.USER,
        relation=relation,
        conditions=_UNIT_ROWS,
    )
