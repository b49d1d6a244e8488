"""Blank records: the null record of "blank one", as training sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def blank_records(records: Sequence[Any]) -> NDArray[np.bool_]:
    """Which records have a NaN in any of their arrays (or tensors), shape (n,)."""
    found = np.zeros(len(records[0]), dtype=np.bool_)
    for part in records:
        missing = np.isnan(np.asarray(part))
        found |= missing.any(axis=tuple(range(1, missing.ndim)))
    return found
