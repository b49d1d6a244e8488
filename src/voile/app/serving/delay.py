"""When a charged answer leaves: at its arrival plus a time that follows from public facts.

The guarantee of a charged answer assumes that its running time is not observed. Work is constant
where that applies, and what is left is hidden by waiting. The time to wait for is measured on
invented rows in place of protected ones: it depends on the model, on features, on sizes and on the
machine, and on no protected value.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from voile.app.explain import ExplanationInputs, ReleaseService, build_release
from voile.app.explain.rows import row_count
from voile.app.explain_rows import ExplanationJob
from voile.core.guarantee import RowPart
from voile.core.schema.schema import draw_rows

SMALLEST: Final = 0.05
_MARGIN: Final = 4.0
_RECORDING: Final = 0.03
_TRIALS: Final = 3
_ROUNDING: Final = 1e-6
_SEVERAL: Final = 5


@dataclass(frozen=True)
class Delay:
    """How long after its arrival an answer leaves.

    Args:
        first: seconds for one row.
        each: seconds for every further row.

    >>> Delay(0.05, 0.01).seconds(3)
    0.07
    """

    first: float
    each: float = 0.0

    def seconds(self, rows: int) -> float:
        """For so many rows, which is public; whole milliseconds, as the loop counts."""
        seconds = self.first + self.each * max(rows - 1, 0)
        return math.ceil(1000 * seconds - _ROUNDING) / 1000

    def slot(self, rows: int, passed: float) -> int:
        """Which slot an answer leaves in that took this long: 1 unless the first was missed.

        One that missed its slot leaves in a later one, a whole multiple: completion shows little.
        """
        return max(1, math.ceil(passed / self.seconds(rows)))


def delay_of(
    inputs: ExplanationInputs, job: ExplanationJob, service: ReleaseService, setting: bool | float
) -> Delay | None:
    """The delay of a release that costs something, as the workspace sets it."""
    if setting is False:
        return None
    if setting is not True:
        return Delay(float(setting))
    one, several = (_longest(_draw(inputs, job, service, n)) for n in (1, _SEVERAL))
    each = max(0.0, several - one) / (_SEVERAL - 1)
    return Delay(max(SMALLEST, _RECORDING + _MARGIN * one), _MARGIN * each)


def _draw(
    inputs: ExplanationInputs, job: ExplanationJob, service: ReleaseService, rows: int
) -> Callable[[], Any]:
    """A draw of the same size over invented rows; it is thrown away."""
    generator, schema = np.random.default_rng(0), inputs.schema
    if inputs.background is not None and job.spec.protect is RowPart.BACKGROUND:
        size = row_count(inputs.background)
        inputs = replace(inputs, background=draw_rows(schema, size, generator))
    assert job.spec.account is not None
    release = build_release(inputs, service.vault.account(job.spec.account), rows)
    invented = draw_rows(schema, rows, generator)
    return lambda: release.draw(invented)


def _longest(draw: Callable[[], Any]) -> float:
    found = []
    for _ in range(_TRIALS + 1):
        started = time.perf_counter()
        draw()
        found.append(time.perf_counter() - started)
    return max(found[1:])  # the first one loads what others find loaded
