"""Charts as SVG, made on the server: each with a title, a description and its numbers as a table.

Colours and widths are classes of the stylesheet, so that a strict content security policy holds and
a chart is drawn in the colours of its page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from voile.core.errors import InvalidInput

WIDTH: Final = 640
HEIGHT: Final = 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 14, 30
MOST_POINTS: Final = 160
"""Of a line; more cannot be told apart at this width."""


@dataclass(frozen=True)
class Axis:
    """From which value to which, and what is written at which values."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.high > self.low:
            raise InvalidInput("an axis goes from a lower value to a higher one")

    def share(self, value: float) -> float:
        """How far along the axis a value lies, within 0 and 1."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


@dataclass(frozen=True)
class Line:
    """Points that are joined; `kind` is a class of the stylesheet."""

    points: tuple[tuple[float, float], ...]
    kind: str = "line"


@dataclass(frozen=True)
class Band:
    """What lies between two lines: of each point the place, and from where to where."""

    points: tuple[tuple[float, float, float], ...]
    kind: str = "fan"


@dataclass(frozen=True)
class Chart:
    """Lines and bands over two axes.

    Args:
        title, description: for those who do not see it, and for those who do.
        headings, rows: its numbers, as a table.
    """

    title: str
    description: str
    across: Axis
    up: Axis
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[Line, ...] = ()
    bands: tuple[Band, ...] = ()
    dots: tuple[tuple[float, float], ...] = field(default=())

    width: ClassVar[int] = WIDTH
    height: ClassVar[int] = HEIGHT
    left: ClassVar[int] = _LEFT
    right: ClassVar[int] = WIDTH - _RIGHT
    top: ClassVar[int] = _TOP
    bottom: ClassVar[int] = HEIGHT - _BOTTOM

    def x(self, value: float) -> float:
        """Where a value lies, in the units of the picture."""
        return round(self.left + self.across.share(value) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        """The same upward."""
        return round(self.bottom - self.up.share(value) * (self.bottom - self.top), 1)

    def path(self, line: Line) -> str:
        """The points of a line, as SVG writes them."""
        return " ".join(f"{self.x(a)},{self.y(b)}" for a, b in line.points)

    def outline(self, band: Band) -> str:
        """Along the lower edge and back along the upper one."""
        lower = [f"{self.x(a)},{self.y(b)}" for a, b, _ in band.points]
        upper = [f"{self.x(a)},{self.y(c)}" for a, _, c in band.points]
        return " ".join([*lower, *upper[::-1]])


def thinned(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """At most `MOST_POINTS` of them, always with the last.

    >>> len(thinned([(n, n) for n in range(1000)])) <= MOST_POINTS + 1
    True
    """
    step = -(-len(points) // MOST_POINTS) or 1
    kept = list(points[::step])
    if points and kept[-1] != points[-1]:
        kept.append(points[-1])
    return tuple(kept)
