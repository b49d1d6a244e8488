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


@dataclass(frozen=True)
class AdaptedNorm:
    """A clipping norm that follows a quantile of the records' gradient norms, privately.

    Each step also asks how many drawn records lie within the norm, with noise, and moves the norm
    by a factor toward the wanted share (Andrew, Thakkar, McMahan and Ramaswamy 2021). The gradient
    gets a little more noise, so that both answers together cost what `PrivateSteps` states:
    see `gradient_noise`.

    Args:
        start: the norm of the first step.
        share: of the records that should lie within the norm.
        rate: how fast it moves: one step changes it by a factor of e^(rate·difference).
        count_noise: standard deviation of the noise on the count, in records.
    """

    start: float
    count_noise: float
    share: float = 0.5
    rate: float = 0.2

    def __post_init__(self) -> None:
        for name in ("start", "count_noise", "rate"):
            _above_zero(name, getattr(self, name))
        check_norm(self.start)
        if not 0 < self.share < 1:
            raise InvalidInput(f"share must lie between 0 and 1, found {self.share}")

    def gradient_noise(self, noise_multiplier: float) -> float:
        """The gradient's own noise multiplier, if gradient and count together have this one.

        A record within the norm counts +½, one beyond −½, a blank one 0: the count has sensitivity
        ½. In units of their noise the two answers move by at most (1/z, 1/(2s)) with z the
        gradient's multiplier and s the count's noise, together √(1/z² + 1/(4s²)), which is to be
        1/noise_multiplier.
        """
        left = noise_multiplier**-2 - (2 * self.count_noise) ** -2
        if left <= 0:
            raise InvalidInput(
                f"a count with noise {self.count_noise} alone costs more than a noise multiplier "
                f"of {noise_multiplier}; count_noise must be above {noise_multiplier / 2:g}"
            )
        return 1 / math.sqrt(left)

    def after(self, norm: float, excess: float) -> float:
        """The next norm, if the noisy share of records within is ½ + excess."""
        share = min(max(0.5 + excess, 0.0), 1.0)
        return max(norm * math.exp(self.rate * (self.share - share)), SMALLEST_NORM)


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

    clipping_norm: float | AdaptedNorm
    noise_multiplier: float
    sampling_rate: float
    steps: int
    rows: int
    relation: Relation = Relation.BLANK_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", Relation(self.relation))
        if not isinstance(self.clipping_norm, AdaptedNorm):
            check_norm(self.clipping_norm)
        _whole("rows", self.rows)
        self.event()
        self.gradient_noise()

    def event(self) -> PrivacyEvent:
        """What the whole run costs, whatever was drawn."""
        noise = Gaussian(self.noise_multiplier)
        return Repeated(PoissonSampled(noise, self.sampling_rate, self.relation), self.steps)

    @property
    def expected_batch(self) -> float:
        """What sums are divided by; the size that was drawn would itself be a release."""
        return self.sampling_rate * self.rows

    @property
    def first_norm(self) -> float:
        norm = self.clipping_norm
        return norm.start if isinstance(norm, AdaptedNorm) else norm

    def gradient_noise(self) -> float:
        """The noise multiplier of the gradient alone; larger if the norm is adapted."""
        if isinstance(self.clipping_norm, AdaptedNorm):
            return self.clipping_norm.gradient_noise(self.noise_multiplier)
        return self.noise_multiplier


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
        clipping_norm: the last one; it differs from the first only if it was adapted.
        note: what must be written on anything made with this run's randomness, if anything.
    """

    event: PrivacyEvent
    clipping_norm: float
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
