"""Additive models: one score for each bin of each feature, and an intercept.

`AdditiveModel` predicts chances of classes or a number, explains rows by a closed formula with
standard errors, and is saved in voile's one format. `FeatureBins` says which values share a score,
a `Link` what scores mean. A model is made from released statistics by `voile.release.statistics`.
"""

from voile.models.additive.bins import FeatureBins, bin_codes, bin_slices
from voile.models.additive.links import Link, link_of
from voile.models.additive.model import AdditiveModel

__all__ = ["AdditiveModel", "FeatureBins", "Link", "bin_codes", "bin_slices", "link_of"]
