"""Models made of trees, as games against protected rows see them: leaf sums inside a declared set.

Interventional values of an ensemble are the mean of single-reference values, each exact, so the
bound for background rows carries over, if (numbers are cited in the code):

1. what the model answers *is* the sum of its leaves: probabilities of a forest, predictions of a
   regressor, log-odds of boosting (`raw_scores`), and never probabilities of boosting;
2. every sum of leaves, one of each tree, lies in the declared set. Nothing has to be clamped then,
   whatever a row holds. Else games are played with the model's clamped answers;
3. rounding stays far below the slack in sensitivities: leaves that cancel each other are refused.

All of it is found out from the model, the schema and rows drawn from the schema, which are public.
Values, f(x) and base value then come from the same leaves, and the model is not asked about any
protected row. What the leaves say of it depends on no other row.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voile.attribution.tree_leaves import leaves_of
from voile.attribution.tree_patterns import LeafSums
from voile.attribution.trees import is_tree, read_leaf_sums
from voile.core.errors import VoileError
from voile.core.schema import Schema
from voile.core.schema.schema import draw_rows
from voile.models import DeclaredOutputs, Simplex, WrappedModel
from voile.models.outputs import ROUNDING
from voile.release.silence import silenced

CLOSE: Final = 1e-6
"""How far, as a share of the width, leaf sums may be from answers in single precision."""
_PROBES: Final = 128
_BESIDE: Final = 2.0**-40
"""How far, as a share of the width, a sum of leaves may be outside for being rounded."""
_STEADY: Final = 2.0**24
"""Leaves times the largest sum of their sizes, over the width: 2^-52 of this is rounding."""


class LeafBounds(NamedTuple):
    """How far sums of leaves, one of each tree, can go.

    Args:
        lower, upper: of every output, shape (outputs,).
        least, most: of the sum of all outputs.
        size: of the largest parts that are added up, whatever their sign.
        leaves: how many there are.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    least: float
    most: float
    size: float
    leaves: int

    @classmethod
    def from_ensemble(
        cls, ensemble: Any, places: Sequence[int] | None, shift: NDArray[np.float64]
    ) -> LeafBounds:
        ends = leaves_of(ensemble)
        chosen = slice(None) if places is None else list(places)
        values = ensemble.values.astype(np.float64)
        offset = np.broadcast_to(np.asarray(ensemble.base_offset, np.float64), values.shape[2:])
        values, offset = values[:, :, chosen], offset[chosen] + shift

        def extremes(each: NDArray[np.float64], mask: NDArray[np.bool_]) -> Any:
            low, high = (np.where(mask, each, limit) for limit in (np.inf, -np.inf))
            return low.min(axis=1).sum(axis=0), high.max(axis=1).sum(axis=0)

        lower, upper = extremes(values, ends[:, :, np.newaxis])
        least, most = extremes(values.sum(axis=2), ends)
        largest = np.where(ends[:, :, np.newaxis], np.abs(values), 0.0).max(axis=(1, 2)).sum()
        return cls(
            lower + offset,
            upper + offset,
            float(least + offset.sum()),
            float(most + offset.sum()),
            float(largest + np.abs(offset).max()),
            int(ends.sum()),
        )

    def inside(self, declared: DeclaredOutputs, width: float) -> bool:
        """Whether every sum of leaves lies in the declared set; a box, or probabilities."""
        if isinstance(declared, Simplex):
            adds_up = self.least >= 1 - ROUNDING and self.most <= 1 + ROUNDING
            return adds_up and bool((self.lower >= 0).all())
        corners = np.stack([self.lower, self.upper])
        return bool(np.abs(declared.clamp(corners)[0] - corners).max() <= _BESIDE * width)


@dataclass(frozen=True, eq=False)
class BoundedTrees:
    """An ensemble that is a model, and where its leaves add up to.

    Args:
        sums: the ensemble.
        lower, upper: of every output, over all sums of one leaf of each tree.
        fits: whether all of these lie in the declared set, so that nothing is ever clamped.
    """

    sums: LeafSums
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    fits: bool

    @classmethod
    def from_model(
        cls, model: WrappedModel, places: Sequence[int] | None, schema: Schema, width: float
    ) -> BoundedTrees | None:
        """None if it is not made of trees, or if these are not what it answers.

        Args:
            model: answers every row, inside the declared set.
            places: which outputs of the ensemble those of the model are; None: all of them.
            width: of the declared set.
        """
        source = getattr(model.source, "__self__", model.source)
        if not is_tree(source):
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of shap, about the model
                ensemble, sums = read_leaf_sums(source, schema.null_row)
        except VoileError:  # shap is not here, cannot read these trees, or they are too large
            return None
        if places is not None and max(places) >= len(sums.constant):
            return None  # boosting has one score for two classes
        sums = sums if places is None else sums.only(places)
        shift = _shift(model, sums, schema, width)
        if shift is None:  # 1
            return None
        bounds = LeafBounds.from_ensemble(ensemble, places, shift)
        if bounds.size * bounds.leaves > _STEADY * width:  # 3
            return None
        sums = replace(sums, constant=sums.constant + shift)
        return cls(sums, bounds.lower, bounds.upper, bounds.inside(model.outputs, width))  # 2

    def remarks(self, model: WrappedModel) -> tuple[str, ...]:
        """What a preview says about them."""
        if self.fits:
            return (FROM_LEAVES,)
        if len(self.lower) > 1 or isinstance(model.outputs, Simplex):
            return ()
        lower, upper = float(self.lower[0]), float(self.upper[0])
        times = (upper - lower) / model.outputs.width(1)
        return (
            f"the leaves of the trees add up to between {lower:.4g} and {upper:.4g}, beyond the "
            "declared range, so coalitions are enumerated and answers clamped: slower. With that "
            f"range declared, values come from the trees, with {times:.3g} times the noise",
        )


FROM_LEAVES: Final = "values come from the trees themselves: exact, and the model is not asked"


def _shift(
    model: WrappedModel, sums: LeafSums, schema: Schema, width: float
) -> NDArray[np.float64] | None:
    """What the model adds to every sum of leaves, on rows that are public; None if it answers
    something else. shap does not read the constant that CatBoost adds."""
    rows = np.vstack([schema.null_row, draw_rows(schema, _PROBES, np.random.default_rng(0))])
    with silenced():
        said, found = model.predict(rows.copy()), sums.outputs(rows)
        if said.shape != found.shape:
            return None
        shift = np.median(said - found, axis=0)
        for each in (np.zeros_like(shift), shift):
            if np.abs(said - model.outputs.clamp(found + each)[0]).max() <= CLOSE * width:
                return each
    return None
