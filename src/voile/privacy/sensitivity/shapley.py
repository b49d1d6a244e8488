"""Sensitivities of Shapley values. They do not grow with the number of features.

Proofs: docs/guarantees/sensitivity.md. R is the width (diameter) of the declared output set, d the
number of players (features, or groups that play as one), m the background rows, n the rows of a
population; m and n are public. Each result carries its assumptions, as `conditions`.

    H = Σ_{s=1}^{d−1} 1/√(s(d−s))      → π
    B = √(1/d + d/(4(d−1))·H²)         → π/2
    S = √(1/d + d/(d−1)·H²)            → π
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.privacy.sensitivity.bound import Norm, Sensitivity, by_relation, positive, width_of

# --- The declared set that a model's outputs are clamped to: two numbers are all a bound needs ---


@dataclass(frozen=True)
class OutputSet:
    """A declared set of output vectors; `voile.models` has the sets themselves.

    Two outputs are at most twice the radius apart, so a smaller radius is refused: it would make
    zeroing out cheaper than any set allows.

    Args:
        diameter: the largest l2 distance between two outputs.
        radius: the largest l2 distance from the null output (the centre) to an output.

    >>> OutputSet(diameter=2.0, radius=1.0) == interval(2.0)
    True
    >>> OutputSet(diameter=2.0, radius=0.5)
    Traceback (most recent call last):
    voile.core.errors.InvalidInput: no set of diameter 2.0 lies within 0.5 of one point: ...
    """

    diameter: float
    radius: float

    def __post_init__(self) -> None:
        diameter, radius = width_of("diameter", self.diameter), width_of("radius", self.radius)
        if diameter > 2 * radius * (1 + 1e-12):
            raise InvalidInput(
                f"no set of diameter {diameter} lies within {radius} of one point: "
                f"the radius must be at least {diameter / 2}"
            )


def interval(width: float) -> OutputSet:
    """One output in an interval. Assumes that outputs are clamped to it.

    A binary classifier releases one output, not two: the other is its complement.

    >>> interval(1.0)
    OutputSet(diameter=1.0, radius=0.5)
    """
    width = width_of("width", width)
    return OutputSet(width, width / 2)


def output_set(output_width: float | OutputSet) -> OutputSet:
    """A bare number means one output in an interval of that width."""
    return output_width if isinstance(output_width, OutputSet) else interval(output_width)


# --------------------------------------------------------------------------------------------------


_CLAMPED = "every model output entering the game is clamped to the declared set"
_MODEL = (
    "the model is public, or trained on other rows, or trained on these rows with differential "
    "privacy charged to the same account"
)
_EXPLAINED = "explained rows are not protected rows of this account"
_EXACT = "Shapley values are exact, not estimated"
_CLIPPED = (
    "each background row's vector is estimated from that row alone, with coalitions drawn "
    "independently of the data, and clipped to the bound on its length"
)
_LINEAR = (
    "each background row's vector is a linear function of that row's outputs, whose weights were "
    "drawn independently of the data and stretch them by no more than stated"
)
_LENGTHS = (
    "values are exact, or each row's vector is estimated with coalitions drawn independently of "
    "the data and clipped to the bound on its length"
)
_COORDINATES = (
    "values are exact, or estimated with coalitions drawn independently of the data and each "
    "clamped to the width of the output range"
)
_BACKGROUND = (
    "the background does not depend on these rows, or only through differential privacy charged to "
    "the same account"
)
_TIME = "running time is not observed"


def shapley_norm(*, features: int, output_width: float | OutputSet) -> float:
    """B·R, the length of the longest Shapley vector of a game with values in the declared set.

    It stays below (π/2)·R from two features on, however many there are.

    >>> shapley_norm(features=1000, output_width=1.0) < math.pi / 2
    True
    """
    return _b(features) * output_set(output_width).diameter


def shapley_background(
    *, features: int, background_rows: int, output_width: float | OutputSet, relation: Relation
) -> Sensitivity:
    """Exact interventional Shapley values over m private background rows.

    Replacing a row moves them by at most (R/m)·S. A zeroed-out row contributes the centre to every
    coalition but the full one, and f(x) to the full one, which costs less. Assumes outputs clamped
    to the declared set; all conditions are listed in the result.

    >>> terms = {"features": 12, "background_rows": 500, "output_width": 1.0}
    >>> blank, replace = (shapley_background(**terms, relation=r)
    ...                   for r in (Relation.BLANK_ONE, Relation.REPLACE_ONE))
    >>> blank.value < replace.value < math.pi / 500
    True
    """
    outputs = output_set(output_width)
    value = by_relation(
        relation,
        replace_one=outputs.diameter * _s(features),
        blank_one=_blank(features, outputs, base=0.0),
    )
    return _of_rows(value / positive("background_rows", background_rows), relation, _EXACT)


def shapley_background_with_base(
    *, features: int, background_rows: int, output_width: float | OutputSet, relation: Relation
) -> Sensitivity:
    """The values of `shapley_background` together with the base value (the mean background output).

    One release of both costs little more than the values alone.

    >>> terms = {"features": 12, "background_rows": 500, "output_width": 1.0,
    ...          "relation": Relation.BLANK_ONE}
    >>> 1 < float(shapley_background_with_base(**terms)) / float(shapley_background(**terms)) < 1.1
    True
    """
    outputs = output_set(output_width)
    value = by_relation(
        relation,
        replace_one=outputs.diameter * math.hypot(1.0, _s(features)),
        blank_one=_blank(features, outputs, base=1.0),
    )
    return _of_rows(value / positive("background_rows", background_rows), relation, _EXACT)


def shapley_background_coordinate(
    *, features: int, background_rows: int, output_width: float, relation: Relation
) -> Sensitivity:
    """The attribution of one feature to one output, over m private background rows.

    It bounds each coordinate by itself, so it suits a choice among features, not noise on a vector.

    >>> one = shapley_background_coordinate(features=2, background_rows=100, output_width=1.0,
    ...                                     relation=Relation.REPLACE_ONE)
    >>> one.value, one.norm.name
    (0.015, 'LINF')
    """
    whole = (2 - 1 / positive("features", features)) * width_of("output_width", output_width)
    value = by_relation(relation, replace_one=whole, blank_one=whole / 2)
    rows = positive("background_rows", background_rows)
    return _of_rows(value / rows, relation, _EXACT, norm=Norm.LINF)


def clipped_shapley_background(
    *, features: int, background_rows: int, output_width: float | OutputSet, relation: Relation
) -> Sensitivity:
    """Any estimator: each background row's estimated vector is clipped to B·R, then averaged.

    Assumes that each row's estimate uses that row alone. Holds for every number of sampled
    coalitions, because the clipping bounds each row.

    >>> terms = {"features": 12, "background_rows": 500, "output_width": 1.0}
    >>> clipped = clipped_shapley_background(**terms, relation=Relation.BLANK_ONE)
    >>> 500 * clipped.value == shapley_norm(features=12, output_width=1.0)
    True
    """
    # Exact vectors are never longer, so clipping to this length costs no accuracy.
    length = shapley_norm(features=features, output_width=output_width)
    value = by_relation(relation, replace_one=2 * length, blank_one=length)
    rows = positive("background_rows", background_rows)
    return _of_rows(value / rows, relation, _CLIPPED)


def sampled_shapley_background_with_base(
    *,
    features: int,
    background_rows: int,
    output_width: float | OutputSet,
    relation: Relation,
    stretch: float,
) -> Sensitivity:
    """A linear estimator from drawn coalitions, not clipped, together with the exact base value.

    `stretch` bounds what the drawn weights make of pairs of coalitions; assumes that they were
    drawn independently of the data. With all coalitions it is √(d/(d−1))·H, and the result equals
    `shapley_background_with_base`. Proof: docs/guarantees/background.md.

    >>> terms = {"features": 2, "background_rows": 100, "output_width": 1.0,
    ...          "relation": Relation.BLANK_ONE}
    >>> sampled = sampled_shapley_background_with_base(**terms, stretch=math.sqrt(2))
    >>> math.isclose(sampled.value, shapley_background_with_base(**terms).value)
    True
    """
    outputs = output_set(output_width)
    share = width_of("stretch", stretch) ** 2
    constant = 1 + 1 / positive("features", features)
    value = by_relation(
        relation,
        replace_one=outputs.diameter * math.sqrt(constant + share),
        blank_one=math.sqrt(outputs.radius**2 * constant + outputs.diameter**2 / 4 * share),
    )
    return _of_rows(value / positive("background_rows", background_rows), relation, _LINEAR)


def mean_absolute_shapley(
    *, features: int, rows: int, output_width: float | OutputSet, relation: Relation
) -> Sensitivity:
    """The mean of |φ| over the rows of a private population, with a public background.

    Holds for exact values, and for estimates if each row's vector is clipped to B·R. With several
    outputs the vector is that of all features and outputs. Two vectors without negative entries are
    at most √2 times their length apart, not twice.

    >>> terms = {"features": 12, "rows": 1000, "output_width": 1.0}
    >>> blank, replace = (float(mean_absolute_shapley(**terms, relation=r))
    ...                   for r in (Relation.BLANK_ONE, Relation.REPLACE_ONE))
    >>> math.isclose(replace, math.sqrt(2) * blank)
    True
    """
    length = shapley_norm(features=features, output_width=output_width)
    value = by_relation(relation, replace_one=math.sqrt(2) * length, blank_one=length)
    return _of_population(value / positive("rows", rows), relation, _LENGTHS)


def mean_absolute_shapley_coordinate(
    *, rows: int, output_width: float, relation: Relation
) -> Sensitivity:
    """The mean of |φᵢ| for each feature by itself, as a choice of the top features needs it.

    Assumes that estimates are clamped to R one by one: an entry of a vector clipped to B·R can
    exceed R.

    >>> float(mean_absolute_shapley_coordinate(
    ...     rows=1000, output_width=1.0, relation=Relation.BLANK_ONE))
    0.001
    """
    width = width_of("output_width", output_width)
    value = by_relation(relation, replace_one=width, blank_one=width)
    rows = positive("rows", rows)
    return _of_population(value / rows, relation, _COORDINATES, norm=Norm.LINF)


def signed_mean_shapley_coordinate(
    *, rows: int, output_width: float, relation: Relation
) -> Sensitivity:
    """The scores max(0, ±mean φᵢ) of signed candidates, each by itself.

    A sign can flip, so replacing a row costs twice as much as for |φᵢ|.

    >>> float(signed_mean_shapley_coordinate(
    ...     rows=1000, output_width=1.0, relation=Relation.REPLACE_ONE))
    0.002
    """
    width = width_of("output_width", output_width)
    value = by_relation(relation, replace_one=2 * width, blank_one=width)
    rows = positive("rows", rows)
    return _of_population(value / rows, relation, _COORDINATES, norm=Norm.LINF)


def mean_absolute_shapley_over_itself(
    *,
    features: int,
    rows: int,
    background_rows: int,
    output_width: float | OutputSet,
    relation: Relation,
) -> Sensitivity:
    """The mean of |φ| over a population that is, or contains, its own background.

    One record acts twice: its own explanation changes, and so does the background of the n − 1
    others. The two changes are added.

    >>> terms = {"features": 12, "rows": 1000, "output_width": 1.0,
    ...          "relation": Relation.BLANK_ONE}
    >>> float(mean_absolute_shapley_over_itself(**terms, background_rows=1000)) > float(
    ...     mean_absolute_shapley(**terms))
    True
    """
    own = mean_absolute_shapley(
        features=features, rows=rows, output_width=output_width, relation=relation
    )
    others = shapley_background(
        features=features,
        background_rows=background_rows,
        output_width=output_width,
        relation=relation,
    )
    # Taking absolute values stretches nothing, so the n − 1 others move as signed values do.
    value = own.value + (rows - 1) / rows * others.value
    return Sensitivity.of_rows(value, Norm.L2, relation, _CLAMPED, _MODEL, _EXACT, _TIME)


def _of_rows(value: float, relation: Relation, how: str, *, norm: Norm = Norm.L2) -> Sensitivity:
    return Sensitivity.of_rows(value, norm, relation, _CLAMPED, _MODEL, _EXPLAINED, how, _TIME)


def _of_population(
    value: float, relation: Relation, how: str, *, norm: Norm = Norm.L2
) -> Sensitivity:
    return Sensitivity.of_rows(value, norm, relation, _CLAMPED, _MODEL, _BACKGROUND, how, _TIME)


@lru_cache(maxsize=1024)
def _h_squared(features: int) -> float:
    """(d/(d−1))·H², the share of directions in which the attributions sum to nothing."""
    d = positive("features", features)
    if d == 1:
        return 0.0
    # Coalitions of size s carry at most √(d/(d−1))/√(s(d−s)) of any zero-sum direction: a mean
    # absolute value is at most the standard deviation of sampling without replacement.
    h = math.fsum(1 / math.sqrt(s * (d - s)) for s in range(1, d))
    return d / (d - 1) * h * h


def _b(features: int) -> float:
    # A set and its complement have opposite coefficients, and two outputs are at most R apart: each
    # set counts with R/2. Empty and full set share the even split, R/√d.
    return math.sqrt(1 / positive("features", features) + _h_squared(features) / 4)


def _s(features: int) -> float:
    # The difference of two games is up to R in every coalition, and 0 in the full one, where both
    # are f(x): the even split moves by R/√d once, not twice.
    return math.sqrt(1 / positive("features", features) + _h_squared(features))


def _blank(features: int, outputs: OutputSet, *, base: float) -> float:
    # The empty set has no partner (the full one does not move), so it counts with the distance to
    # the centre; all other sets pair up with their complements and count with half the diameter.
    constant = outputs.radius**2 * (base + 1 / positive("features", features))
    return math.sqrt(constant + outputs.diameter**2 / 4 * _h_squared(features))


# --- Sensitivities of the pairwise Shapley interaction index, as a vector over all pairs i < j ---
#     I_ij = Σ_{S ⊆ N∖ij} |S|!(d−|S|−2)!/(d−1)! · (v(S∪ij) − v(S∪i) − v(S∪j) + v(S))
#
# Proof: docs/guarantees/sensitivity.md. The bounds grow like 2 ln d.


_PAIRS = "interactions are exact, not estimated, and only those of pairs are released, each once"


def interaction_norm(*, features: int, output_width: float) -> float:
    """The length of the longest vector of pairwise interactions of a game of this width.

    >>> interaction_norm(features=2, output_width=0.5)
    1.0
    """
    width = width_of("output_width", output_width)
    if features == 2:
        return 2 * width
    return width / 2 * _length(features, constant=8.0)


def interaction_background(
    *, features: int, background_rows: int, output_width: float, relation: Relation
) -> Sensitivity:
    """Exact pairwise interactions of one output over m private background rows.

    Covers the pairs i < j, each once. Attributions of single features are another release.

    >>> float(interaction_background(features=2, background_rows=100, output_width=1.0,
    ...                              relation=Relation.REPLACE_ONE))
    0.03
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
