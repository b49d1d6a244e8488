"""Blank records: the null record of "blank one", as training sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.optional import optional
from voile.training.loop import Batch


def blank_records(records: Batch) -> NDArray[np.bool_]:
    """Which records have a NaN in any of their tensors, shape (n,)."""
    torch: Any = optional("torch", extra="torch")
    found = torch.zeros(len(records[0]), dtype=torch.bool)
    for part in records:
        found |= part.isnan().reshape(len(part), part.shape[1:].numel()).any(1)
    blank: NDArray[np.bool_] = found.numpy()
    return blank
