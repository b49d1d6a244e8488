"""What a server checks before it uses an answer. The first reason to reject it is the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from voile.federation.arrays import Shapes
from voile.federation.messages import LONGEST_STATEMENT, Instruction, Update
from voile.federation.round_log import Outcome


class Expected(NamedTuple):
    """What an answer is compared with.

    Args:
        client: who was asked.
        event: what one participation of it costs, as agreed on (`history.event_as_text`).
        shapes: of the global arrays.
        largest: value that an update may have, in size.
    """

    client: str
    event: str
    shapes: Shapes
    largest: float


def fault_of(answer: Any, instruction: Instruction, expected: Expected) -> Outcome | None:
    """Why an answer cannot be used, or None. Whatever it is, looking at it never raises.

    1. It is an update, from the client that was asked, for this stage, round and agreement.
    2. It states the cost that was agreed on.
    3. It maps exactly the names of the global arrays to float32 arrays of the same shapes.
    4. Every value is finite, and at most `largest` in size.
    """
    try:
        return _fault_of(answer, instruction, expected)
    except Exception:  # an object that cannot even be compared or listed
        return Outcome.WRONG_TYPE


def _fault_of(answer: Any, instruction: Instruction, expected: Expected) -> Outcome | None:
    if type(answer) is not Update or not isinstance(answer.arrays, Mapping):
        return Outcome.WRONG_TYPE
    wanted = expected.client, instruction.stage, instruction.round, instruction.agreement
    if (answer.client, answer.stage, answer.round, answer.agreement) != wanted:
        return Outcome.WRONG_SENDER
    if type(answer.event) is not str or not all(map(_is_statement, (answer.account, answer.note))):
        return Outcome.WRONG_TYPE
    if answer.event != expected.event:
        return Outcome.OTHER_COST
    arrays, shapes = answer.arrays, expected.shapes
    if set(arrays) != set(shapes):
        return Outcome.WRONG_SHAPE
    if any(type(a) is not np.ndarray or a.dtype != np.float32 for a in arrays.values()):
        return Outcome.WRONG_TYPE
    if any(arrays[name].shape != shape for name, shape in shapes.items()):
        return Outcome.WRONG_SHAPE
    sizes = [float(np.abs(array).max()) for array in arrays.values() if array.size]
    if not np.isfinite(sizes).all():
        return Outcome.NOT_FINITE
    return Outcome.TOO_LARGE if max(sizes, default=0.0) > expected.largest else None


def note_of(answer: Any) -> str:
    """What an update states about its randomness, also one that cannot be used: it was seen."""
    stated = answer.note if type(answer) is Update else None
    return stated if stated is not None and _is_statement(stated) else ""


def _is_statement(stated: Any) -> bool:
    """It is shown and kept, so it is printable and of moderate length, or absent."""
    if stated is None:
        return True
    return type(stated) is str and stated.isprintable() and 0 < len(stated) <= LONGEST_STATEMENT
