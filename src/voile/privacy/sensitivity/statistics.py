"""Sensitivities of private statistics: tables of cells, centred one-hot sums and their products.

Proofs: docs/guarantees/statistics.md. A row that is null adds nothing to any of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from voile.core.errors import InvalidInput
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.sensitivity.bound import Norm, Sensitivity, by_relation, positive

_CELLS: Final = "a row falls into one cell of each table, and a null row into none"
_PREDICTED: Final = "a row's prediction depends on that row and on released numbers only"
_CENTRED: Final = (
    "each row is centred before it is summed, so a null row adds nothing",
    "bins depend on released tables only",
)


def cell_tables(*, tables: int, relation: Relation) -> Sensitivity:
    """One count for each cell of several tables, in each of which a row has one cell.

    >>> cell_tables(tables=4, relation=Relation.BLANK_ONE).value
    2.0
    """
    positive("tables", tables)
    squared = by_relation(relation, replace_one=2.0 * tables, blank_one=float(tables))
    return _squared(squared, relation, (_CELLS,))


def centred_sums(
    *,
    bins: Sequence[int],
    label_weight: float,
    relation: Relation,
    classes: int = 2,
    square_weight: float = 0.0,
) -> Sensitivity:
    """√(1 − w)·Σz, √w·Σz·tᵀ and √w·Σt, with z the centred one-hot codes and t of length 1.

    `bins` holds the number of bins of each feature, and w is `label_weight`. For two classes t is
    −1 or 1; for C classes it is e_y − 1/C, divided by its length. A number in [−1, 1] counts as two
    classes do, and with `square_weight` v there is √v·Σ(t² − ½) as well. Under "replace one" either
    the label stays, which moves features by √2 each, or it changes.

    >>> given = {"bins": (2, 2), "label_weight": 0.75, "relation": Relation.REPLACE_ONE}
    >>> [round(centred_sums(**given, classes=count).value ** 2, 9) for count in (2, 3)]
    [6.0, 4.5]
    """
    radii = [_radius(count) for count in bins]
    if not 0 < label_weight < 1:
        raise InvalidInput(f"label_weight must be in (0, 1), found {label_weight}")
    if positive("classes", classes) < 2 or square_weight < 0:
        raise InvalidInput("expected two classes or more, and no negative weight")
    # 2/‖e_y − 1/C‖² is the squared distance of two labels, once each has length 1.
    apart = 2 * classes / (classes - 1) * label_weight
    turned = apart + sum(max(apart * radius, 2 - apart * (1 - radius)) for radius in radii)
    squared = by_relation(
        relation,
        replace_one=max(2.0 * len(radii), turned) + square_weight,
        blank_one=sum(radii) + label_weight + square_weight / 4,
    )
    return _squared(squared, relation, _CENTRED)


def prediction_products(*, relation: Relation) -> Sensitivity:
    """Σ t·p and Σ(p² − ½), with a number t and its prediction p in [−1, 1].

    >>> prediction_products(relation=Relation.REPLACE_ONE).value
    2.0
    """
    squared = by_relation(relation, replace_one=4.0, blank_one=1.25)
    return _squared(squared, relation, (_PREDICTED,))


def centred_products(*, bins: Sequence[int], relation: Relation) -> Sensitivity:
    """Σ z_j·z_kᵀ of every pair j < k of features, each pair once and no feature with itself."""
    radii = [_radius(count) for count in bins]
    if len(radii) < 2:
        raise InvalidInput(f"a pair needs two features, found {len(radii)}")
    pairs = (sum(radii) ** 2 - sum(radius**2 for radius in radii)) / 2
    squared = by_relation(relation, replace_one=min(sum(radii) ** 2, 4 * pairs), blank_one=pairs)
    return _squared(squared, relation, _CENTRED)


def _radius(bins: int) -> float:
    """The squared length of e_k − 1/K: the smallest ball around all one-hot codes."""
    if positive("bins", bins) < 2:
        raise InvalidInput("a feature with one bin has nothing to centre")
    return 1 - 1 / bins


def _squared(squared: float, relation: Relation, conditions: tuple[str, ...]) -> Sensitivity:
    return Sensitivity(
        value=math.sqrt(squared),
        norm=Norm.L2,
        unit=ProtectedUnit.ROW,
        relation=relation,
        conditions=conditions,
    )
