"""Fine cells of features, from the schema alone: no quantile of protected rows is ever taken."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from voile.core.schema import Categories, Domain, Feature, FeatureValues, Numbers
from voile.release.statistics.rule import RULE


def fine_edges(domain: Domain, count: int) -> tuple[float, ...] | None:
    """Edges between about `count` cells of a number; None for a category, which has levels.

    Equal parts of the bounds. Where the bounds hold 0, or their ratio is large, values are often
    heavy-tailed: then half of the cells lie on an asinh scale. Whole numbers are cut between them.
    """
    if isinstance(domain, Categories):
        return None
    assert isinstance(domain, Numbers)
    lower, upper = float(domain.lower), float(domain.upper)
    edges = np.linspace(lower, upper, count + 1)[1:-1]
    if lower <= 0 <= upper or (lower > 0 and upper / lower > RULE.bins.long_tail):
        scale = (upper - lower) / RULE.bins.tail_scale
        start, end = math.asinh(lower / scale), math.asinh(upper / scale)
        even = np.linspace(lower, upper, count // 2 + 1)[1:-1]
        edges = np.concatenate(
            [even, scale * np.sinh(np.linspace(start, end, count // 2 + 1)[1:-1])]
        )
    if domain.whole:
        edges = np.floor(edges) + 0.5
    edges = np.unique(edges)
    return tuple(edges[(edges > lower) & (edges < upper)].tolist())


def cut_edges(feature: Feature) -> tuple[float, ...]:
    """Edges of the bins between public cut points. A value on a cut point begins the upper bin,
    and a value on an edge belongs to the lower one."""
    domain, cuts = feature.domain, feature.cuts or ()
    if isinstance(domain, Numbers) and domain.whole:
        return tuple(cut - 0.5 for cut in cuts)
    return tuple(math.nextafter(cut, -math.inf) for cut in cuts)


def cell_codes(edges: tuple[float, ...] | None, values: FeatureValues) -> NDArray[np.intp]:
    """The fine cell of each value inside the schema."""
    if edges is None:
        return values.astype(np.intp)
    return np.searchsorted(np.array(edges), values, side="left")
