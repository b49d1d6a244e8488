"""Where randomness comes from. Three sources, three types; none is a default of another.

- `laplace`, `gaussian`: exact samplers fed by the operating system's entropy (OpenDP). For what is
  published. Tens of thousands of values a second.
- `StreamCipher`: a fast generator keyed with 256 bits of the operating system's entropy. For noise
  and sampling inside training, where millions of values are needed. Its guarantee is computational,
  and its floating-point normals are not exact samplers (see the sharp edges in the docs).
- `Seeded`: reproducible, hence guessable. For tests and experiments only; what is made with it
  carries `KnownNote.SEEDED_NOISE` instead of a guarantee.
"""

from __future__ import annotations

import math
import os
import secrets
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput
from voile.core.row_note import KnownNote

# Below, the sampler's grid would be finer than floating point; above, noisy values could overflow.
SMALLEST_SCALE: Final = 2.0**-1000
LARGEST_SCALE: Final = 2.0**1000


class GeneratorSource(Protocol):
    """Something that training can draw from."""

    @property
    def note(self) -> KnownNote | None:
        """What must be written on anything made with it."""

    def generator(self) -> np.random.Generator:
        """The generator; later calls continue the same stream."""


class StreamCipher:
    """A numpy generator over ChaCha20, keyed with 256 bits of OS entropy that nobody else sees.

    A forked child would repeat the parent's stream, and two releases with the same noise reveal
    their difference exactly: after a fork a new key is drawn. It cannot be pickled or copied for
    the same reason.
    """

    note: KnownNote | None = None

    def __init__(self) -> None:
        self._process = -1
        self._generator: np.random.Generator

    def generator(self) -> np.random.Generator:
        if self._process != os.getpid():
            self._generator = _chacha20(secrets.randbits(256))
            self._process = os.getpid()
        return self._generator

    def __reduce__(self) -> Any:
        raise TypeError("a stream cipher must not be copied: both copies would give equal noise")


@dataclass(frozen=True)
class Seeded:
    """Reproducible randomness. Whoever knows or guesses the seed can subtract the noise."""

    seed: int
    note: KnownNote | None = field(default=KnownNote.SEEDED_NOISE, init=False)
    _generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_generator", np.random.default_rng(self.seed))

    def generator(self) -> np.random.Generator:
        return self._generator


def laplace(values: ArrayLike, scale: float) -> NDArray[np.float64]:
    """Each value plus exact Laplace noise of this scale, from the operating system's entropy."""
    return _with_noise("laplace", values, scale)


def gaussian(values: ArrayLike, scale: float) -> NDArray[np.float64]:
    """Each value plus exact discrete Gaussian noise of this standard deviation on a fine grid."""
    return _with_noise("gaussian", values, scale)


def _with_noise(law: str, values: ArrayLike, scale: float) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("noise is added to an array of numbers") from None
    if not array.size or not np.isfinite(array).all():
        raise InvalidInput("noise is added to finite numbers, at least one of them")
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise InvalidInput(
            "the scale of noise must be finite and above 0, and between 2^-1000 and 2^1000, found "
            f"{scale}"
        )
    noisy = _sampler(law, array.size, float(scale))(array.ravel().tolist())
    return np.array(noisy).reshape(array.shape)


def laplace_epsilon(scale: float, size: int, sensitivity: float) -> float:
    """The pure epsilon of `laplace` on `size` values, its rounding to the grid included."""
    return float(_sampler("laplace", size, float(scale)).map(float(sensitivity)))


def gaussian_rho(scale: float, size: int, sensitivity: float) -> float:
    """The rho (zCDP) of `gaussian` on `size` values, its rounding to the grid included."""
    return float(_sampler("gaussian", size, float(scale)).map(float(sensitivity)))


@lru_cache(maxsize=256)
def _sampler(law: str, size: int, scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    # Forty binary digits below the noise: rounding costs nothing that can be seen, and sampling is
    # four times faster than on the finest grid of floating point.
    grid = math.frexp(scale)[1] - 41
    if law == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale, k=grid)
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale, k=grid)


def _chacha20(key: int) -> np.random.Generator:
    import randomgen

    return np.random.Generator(randomgen.ChaCha(key=key, rounds=20))
