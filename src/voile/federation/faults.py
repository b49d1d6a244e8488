"""What a server checks before it uses an answer. The first reason to reject it is the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from voile.federation.arrays import Shapes
from voile.federation.messages import Instruction, Update
from voile.federation.recorder import Outcome


def fault_of(
    answer: Any, asked: str, instruction: Instruction, shapes: Shapes, largest: float
) -> Outcome | None:
    """Why an answer cannot be used, or None. Whatever it is, looking at it never raises.

    1. It is an update, from the client that was asked, for this stage and round.
    2. It maps exactly the names of the global arrays to float32 arrays of the same shapes.
    3. Every value is finite, and at most `largest` in size.
    """
    try:
        return _fault_of(answer, asked, instruction, shapes, largest)
    except Exception:  # an object that cannot even be compared or listed
        return Outcome.WRONG_TYPE


def _fault_of(
    answer: Any, asked: str, instruction: Instruction, shapes: Shapes, largest: float
) -> Outcome | None:
    if type(answer) is not Update or not isinstance(answer.arrays, Mapping):
        return Outcome.WRONG_TYPE
    if (answer.client, answer.stage, answer.round) != (asked, instruction.stage, instruction.round):
        return Outcome.WRONG_SENDER
    arrays = answer.arrays
    if set(arrays) != set(shapes):
        return Outcome.WRONG_SHAPE
    if any(type(a) is not np.ndarray or a.dtype != np.float32 for a in arrays.values()):
        return Outcome.WRONG_TYPE
    if any(arrays[name].shape != shape for name, shape in shapes.items()):
        return Outcome.WRONG_SHAPE
    sizes = [float(np.abs(array).max()) for array in arrays.values() if array.size]
    if not np.isfinite(sizes).all():
        return Outcome.NOT_FINITE
    return Outcome.TOO_LARGE if max(sizes, default=0.0) > largest else None
