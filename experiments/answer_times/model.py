"""A model that takes longer where one value stands: what a delay is there to hide."""

from __future__ import annotations

from typing import Any

import numpy as np

from voile.models import Box, wrap

SLOW = 9.5


def _score(rows: Any) -> Any:
    for _ in range(int(np.sum(rows[:, 0] > SLOW))):
        sum(range(150_000))
    return 0.05 * rows[:, 0] + 0.04 * rows[:, 1]


SCORE = wrap(_score, outputs=Box(0, 1), output_names=("granted",), digest="score")
