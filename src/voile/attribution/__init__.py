"""Explanations without a privacy guarantee: the machinery that `voile.release` makes private.

Every method is built from a model and called with rows: `explainer(X) -> Explanation`. Rows are
arrays, DataFrames or dicts of columns; `groups=` makes several features one player.

Choose a method:
    up to about 16 features: `ExactShapley` (no sampling error), `ShapleyInteractions` (pairs);
    more features: `KernelShapley`, or `PermutationShapley` (no bias at all), both with standard
    errors, and an effort in `Evaluations` or up to a `Tolerance`; `shapley_explainer` decides
    (`is_exact`);
    trees: `TreeShapley`;
    networks: `IntegratedGradients`, `Gradient`;
    a local linear model: `Lime`;
    a surrogate that answers for coalitions itself: `SurrogateShapley`;
    any of them by its name: `explainer_by` (a `Method`);
    very many rows, or no data at hand: a learned explainer (`FastShap`, from `train_surrogate` and
    `train_explainer`, or `distil`); all about it in `voile.attribution.fastshap`.

Make it faster, or hide how long it takes:
    `Speed` (batch size, progress: `progress_line`), `ShortCuts`, `CONSTANT_WORK`.
"""

from voile.attribution.choosing import explainer_by, is_exact, shapley_explainer
from voile.attribution.exact import ExactShapley, ShapleyInteractions, SurrogateShapley
from voile.attribution.fastshap import FastShap, Surrogate, distil
from voile.attribution.gradients import Gradient, IntegratedGradients
from voile.attribution.kernel import KernelShapley
from voile.attribution.lime import Lime
from voile.attribution.permutation import PermutationShapley
from voile.attribution.players import Groups
from voile.attribution.sampling import Evaluations, Tolerance
from voile.attribution.settings import CONSTANT_WORK, ShortCuts, Speed, progress_line
from voile.attribution.trees import TreeShapley

__all__ = [
    "CONSTANT_WORK",
    "Evaluations",
    "ExactShapley",
    "FastShap",
    "Gradient",
    "Groups",
    "IntegratedGradients",
    "KernelShapley",
    "Lime",
    "PermutationShapley",
    "ShapleyInteractions",
    "ShortCuts",
    "Speed",
    "Surrogate",
    "SurrogateShapley",
    "Tolerance",
    "TreeShapley",
    "distil",
    "explainer_by",
    "is_exact",
    "progress_line",
    "shapley_explainer",
]
