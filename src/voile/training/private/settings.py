"""What a private run promises, what it returns, and what only changes its speed.

`PrivateSteps` holds everything a guarantee depends on; a changed field there is a changed promise.
`TrainingSpeed` holds what can be changed without touching any promise. They are never mixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.row_note import KnownNote
from voile.privacy.events import Gaussian, PoissonSampled, PrivacyEvent, Repeated
from voile.training.loop import Progress

# --- Which clipping norm, from public facts alone ------------------------------------------------
# Chosen once, on Adult and on generated clinics (`experiments/clipping_rule`), never on the data
# sets that results are reported on. Noise on a step is the norm times something that falls with the
# rows of a client: with few rows a small norm keeps noise down, with many a large one keeps the
# bias of clipping down. Whoever chooses otherwise by looking at protected records pays for every
# look.


def classifier_norm(rows_per_client: int) -> float:
    """For cross entropy: ½ up to 1,000 rows a client, growing with them up to 2."""
    return min(max(_checked(rows_per_client) / 2_000, 0.5), 2.0)


def surrogate_norm(rows_per_client: int) -> float:
    """For the divergence of a surrogate, averaged over a record's coalitions: from 0.05 up to ½.

    A norm adapted to the median gradient reached the same within seeds, so the simpler one is used.
    """
    return min(max(_checked(rows_per_client) / 10_000, 0.05), 0.5)


def _checked(rows: int) -> int:
    if rows < 1:
        raise InvalidInput(f"a client has at least one row, found {rows}")
    return rows


# --------------------------------------------------------------------------------------------------


ROUNDING_MARGIN: Final = 1e-3
"""Noise is wider by this share, for what float32 may lose in norms and sums; never charged for."""
SMALLEST_NORM: Final = 1e-5
"""Below, squares of single-precision numbers vanish; scale the loss instead."""


@dataclass(frozen=True, kw_only=True)
class PrivateSteps:
    """Everything the privacy of a run of DP-SGD depends on.

    Args:
        clipping_norm: no record moves the sum of a step by more, in the l2 norm.
        noise_multiplier: of a step, over the largest contribution of one record.
        sampling_rate: each record is part of a step with this probability, independently.
        steps: how many.
        rows: the declared, public number of records; sums are divided by sampling_rate·rows.
        relation: how neighbouring data sets differ.
    """

    clipping_norm: float
    noise_multiplier: float
    sampling_rate: float
    steps: int
    rows: int
    relation: Relation = Relation.BLANK_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", Relation(self.relation))
        check_norm(self.clipping_norm)
        _whole("rows", self.rows)
        self.event()

    def event(self) -> PrivacyEvent:
        """What the whole run costs, whatever was drawn."""
        noise = Gaussian(self.noise_multiplier)
        return Repeated(PoissonSampled(noise, self.sampling_rate, self.relation), self.steps)

    @property
    def expected_batch(self) -> float:
        """What sums are divided by; the size that was drawn would itself be a release."""
        return self.sampling_rate * self.rows


@dataclass(frozen=True)
class TrainingSpeed:
    """What changes time and memory, and no promise.

    Args:
        chunk: how many records' gradients are held at once, for modules of torch.
        progress: told how far the work is.
    """

    chunk: int = 64
    progress: Progress | None = None

    def __post_init__(self) -> None:
        _whole("chunk", self.chunk)


@dataclass(frozen=True)
class PrivateRun:
    """What may be told about a run: nothing in it depends on the records beyond what is charged.

    Args:
        event: what it costs.
        note: what must be written on anything made with this run's randomness, if anything.
    """

    event: PrivacyEvent
    note: KnownNote | None


def _above_zero(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{name} must be a number, found {value!r}")
    if not math.isfinite(value) or value <= 0:
        raise InvalidInput(f"{name} must be finite and above 0, found {value}")


def check_norm(norm: Any) -> None:
    _above_zero("a clipping norm", norm)
    if norm < SMALLEST_NORM:
        raise InvalidInput(
            f"a clipping norm must be at least {SMALLEST_NORM:g}, found {norm:g}; scale the loss up"
        )


def _whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"{name} must be a whole number of at least 1, found {value!r}")
