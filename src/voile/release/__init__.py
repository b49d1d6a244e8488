"""Explanations with a guarantee. Which question do you have?

Training rows are to be protected: `PostProcessed`, of a model trained with differential privacy.

What every release offers: `Release` (`cost`, `guarantees`, `preview`, `draw`); `Identity`,
`Preview`, `RowsAre`, `NOT_CHARGED`.

Where artefacts come from: `Origin`, `PUBLIC`, `trained_on`, `trained_privately`.
"""

from voile.release.contract import NOT_CHARGED, Identity, Preview, Release, RowsAre
from voile.release.origin import PUBLIC, Origin, trained_on, trained_privately
from voile.release.post_processed import ALL_PUBLIC, PostProcessed

__all__ = [
    "ALL_PUBLIC",
    "NOT_CHARGED",
    "PUBLIC",
    "Identity",
    "Origin",
    "PostProcessed",
    "Preview",
    "Release",
    "RowsAre",
    "trained_on",
    "trained_privately",
]
