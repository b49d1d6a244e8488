"""`Method`: how an explanation is computed, where somebody chooses it."""

from __future__ import annotations

from enum import StrEnum


class Method(StrEnum):
    """How attributions are computed.

    >>> Method("lime").is_shapley, Method("kernel").is_shapley
    (False, True)
    """

    EXACT = "exact"
    """Shapley values from every coalition, up to 20 players."""
    KERNEL = "kernel"
    """Shapley values by regression on drawn coalitions."""
    PERMUTATION = "permutation"
    """Shapley values from random orders; unbiased."""
    TREES = "trees"
    """Shapley values from the trees of a forest themselves."""
    SURROGATE = "surrogate"
    """Shapley values of the surrogate in an artefact."""
    LIME = "lime"
    """Coefficients of a local linear model."""
    GRADIENTS = "gradients"
    """Integrated gradients, from the background rows."""
    SALIENCY = "saliency"
    """The gradient at the row itself."""

    @property
    def is_shapley(self) -> bool:
        """Whether it gives the Shapley values of the model over the background rows."""
        return self in (Method.EXACT, Method.KERNEL, Method.PERMUTATION, Method.TREES)
