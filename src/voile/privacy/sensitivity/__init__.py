"""How far one record can move what is published, derived from declared public facts only.

- declare what a model may return: `OutputSet`, `interval`
- Shapley values over a private background: `shapley_background`, `shapley_background_with_base`,
  `shapley_background_coordinate`; by any estimator: `clipped_shapley_background`; by a
  linear one: `sampled_shapley_background_with_base`;
  pairs: `interaction_background`
- importance over a private population: `mean_absolute_shapley` and its relatives
- sums over users: `unit_row_sum`, `unit_row_gram`
- everything else: `clipped_vector`, `clipped_mean`, `bounded_mean`, `bounded_sum`, `count`,
  `histogram`

There is no default and no estimate: a sensitivity read off the protected data protects nothing.
"""

from voile.privacy.sensitivity.bound import (
    Norm,
    Sensitivity,
    bounded_mean,
    bounded_sum,
    clipped_mean,
    clipped_vector,
    count,
    histogram,
    unit_row_gram,
    unit_row_sum,
)
from voile.privacy.sensitivity.shapley import (
    OutputSet,
    clipped_shapley_background,
    interaction_background,
    interaction_norm,
    interval,
    mean_absolute_shapley,
    mean_absolute_shapley_coordinate,
    mean_absolute_shapley_over_itself,
    sampled_shapley_background_with_base,
    shapley_background,
    shapley_background_coordinate,
    shapley_background_with_base,
    shapley_norm,
    signed_mean_shapley_coordinate,
)

__all__ = [
    "Norm",
    "OutputSet",
    "Sensitivity",
    "bounded_mean",
    "bounded_sum",
    "clipped_mean",
    "clipped_shapley_background",
    "clipped_vector",
    "count",
    "histogram",
    "interaction_background",
    "interaction_norm",
    "interval",
    "mean_absolute_shapley",
    "mean_absolute_shapley_coordinate",
    "mean_absolute_shapley_over_itself",
    "sampled_shapley_background_with_base",
    "shapley_background",
    "shapley_background_coordinate",
    "shapley_background_with_base",
    "shapley_norm",
    "signed_mean_shapley_coordinate",
    "unit_row_gram",
    "unit_row_sum",
]
