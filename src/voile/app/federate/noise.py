"""Noise of each party's own, or in shares: what a federation may choose, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from voile.core.errors import InvalidInput
from voile.federation import RoundProtocol, SecureSum

NOISES: Final = ("shared", "local")
_VALUES_A_SECOND: Final = 20_000.0
"""Of exact noise."""


@dataclass(frozen=True)
class NoiseOptions:
    """`[options]` of pipelines whose parties may share the noise.

    Args:
        noise: "shared", where parties add their parts of one noise, for which sums have to be
            secret; "local", where each adds all of it. As is best, if None.
    """

    noise: str | None = None

    @property
    def stated(self) -> dict[str, Any]:
        return {"noise": self.noise}

    @property
    def shared(self) -> bool | None:
        return None if self.noise is None else self.noise == "shared"


def read_noise(stated: Mapping[str, Any]) -> NoiseOptions | None:
    """What `[options]` says; None where it says nothing."""
    if not stated:
        return None
    if set(stated) != {"noise"} or stated["noise"] not in NOISES:
        raise InvalidInput(
            f'this pipeline has one option, noise = "shared" or "local"; found {dict(stated)}'
        )
    return NoiseOptions(stated["noise"])


def said_of_sharing(parties: int, shares: int, protocol: RoundProtocol) -> str:
    """How the noise of the sum compares with that of one table."""
    if shares > 1:
        return (
            f"noise is shared: {shares} honest parties of {parties} give all of it, so if all "
            f"survive, the variance is {parties / shares:.3g} times that of one table"
        )
    said = f"each of {parties} parties adds all of the noise: {parties} times its variance"
    if isinstance(protocol, SecureSum):
        said += "; noise is shared where at least two honest parties are in every sum"
    return said


def seconds_of_noise(parties: int, values: int) -> float:
    """Most of the time is exact noise; two parties work at a time."""
    return parties * (values / _VALUES_A_SECOND + 0.2)
