"""Rows drawn from a schema: public facts only, no data."""

from __future__ import annotations

import numpy as np

from voile.core.schema.arrays import FeatureValues, Rows
from voile.core.schema.domains import Categories, Numbers
from voile.core.schema.features import Feature
from voile.core.schema.schema import Schema


def draw_rows(schema: Schema, count: int, draw: np.random.Generator) -> Rows:
    """Rows whose features are independent, each uniform over its listed values or its bounds."""
    return np.column_stack([_values(feature, count, draw) for feature in schema.features])


def _values(feature: Feature, count: int, draw: np.random.Generator) -> FeatureValues:
    domain = feature.domain
    if isinstance(domain, Categories):
        return draw.integers(0, len(domain.values), count).astype(np.float64)
    assert isinstance(domain, Numbers)
    if domain.whole:
        lower, upper = int(domain.lower), int(domain.upper)
        return draw.integers(lower, upper, count, endpoint=True).astype(np.float64)
    return draw.uniform(domain.lower, domain.upper, count)
