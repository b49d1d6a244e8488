"""A model that leaves the process, or panics, because of a protected row tells nothing by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.protecting import row_of
from tests.unit.release.own_rows import COMMON, SCHEMA
from voile.attribution import ExactShapley
from voile.core.guarantee import Relation
from voile.models import Box, wrap
from voile.release import PUBLIC, ClippedRelease, PrivateBackgroundShapley


class Panic(BaseException):
    """As libraries written in other languages raise it."""


def leaving(reason: type[BaseException]) -> Any:
    def forward(rows: Any) -> Any:
        if (rows[:, 0] > 1.5).any():
            raise reason(f"{rows[:, 0].max()} is not supported")
        return np.clip(rows[:, 0], 0, 1)

    return wrap(forward, outputs=Box(0, 1), digest="leaving")


ROWS = np.zeros((4, 3))
ROWS[1, 0] = 2.0


@pytest.mark.parametrize("reason", [SystemExit, Panic])
def test_a_background_row_cannot_end_the_process(reason: type[BaseException]) -> None:
    release = PrivateBackgroundShapley(
        leaving(reason),
        ROWS,
        schema=SCHEMA,
        protected=row_of("d", Relation.REPLACE_ONE),
        epsilon=1.0,
        delta=1e-5,
        origins=[PUBLIC],
    )
    assert release.draw(np.zeros((1, 3))).shape == (1, 3, 1)


@pytest.mark.parametrize("reason", [SystemExit, Panic])
def test_an_explained_row_cannot_end_the_process(reason: type[BaseException]) -> None:
    explainer = ExactShapley(leaving(reason), np.zeros((1, 3)), schema=SCHEMA)
    release = ClippedRelease(explainer, bound=0.5, epsilon=1.0, delta=1e-5, **COMMON)
    assert release.draw(ROWS).shape == (4, 3, 1)


def test_whoever_sits_at_the_keyboard_may_interrupt() -> None:
    explainer = ExactShapley(leaving(KeyboardInterrupt), np.zeros((1, 3)), schema=SCHEMA)
    release = ClippedRelease(explainer, bound=0.5, epsilon=1.0, delta=1e-5, **COMMON)
    with pytest.raises(KeyboardInterrupt):
        release.draw(ROWS)
