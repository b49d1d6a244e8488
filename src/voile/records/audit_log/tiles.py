"""The log as tiles (c2sp.org/tlog-tiles): anybody can mirror and verify it with plain files.

A tile of level L holds 256 hashes of subtrees with 256^L leaves each; a bundle holds 256 records,
each with its length before it. The last tile of a level may be partial: it says how wide it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from voile.core.errors import InvalidInput
from voile.records.audit_log.log import LEAVES
from voile.records.audit_log.merkle import HASH_SIZE
from voile.records.storage import Reader

WIDTH: Final = 256
ENTRIES: Final = "entries"
_BITS: Final = 8
_PATH: Final = re.compile(
    r"(entries|[0-5])/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?", re.ASCII
)


@dataclass(frozen=True)
class Tile:
    """Which tile is asked for.

    Args:
        level: 0 to 5, or None for a bundle of records.
        index: its place in the level.
        width: how many hashes or records; 256 for a full one.

    >>> Tile.parse("1/x001/067.p/8")
    Tile(level=1, index=1067, width=8)
    """

    level: int | None
    index: int
    width: int = WIDTH

    @classmethod
    def parse(cls, path: str) -> Self:
        """From what follows `tile/`; `InvalidInput` if it names none."""
        found = _PATH.fullmatch(path)
        if found is None:
            raise InvalidInput("expected the path of a tile, such as 0/000 or entries/x001/067.p/8")
        level, place, partial = found.groups()
        index = int(place.replace("x", "").replace("/", ""))
        width = WIDTH if partial is None else int(partial)
        if partial is not None and width >= WIDTH:
            raise InvalidInput("a partial tile has a width of 1 to 255")
        tile = cls(None if level == ENTRIES else int(level), index, width)
        if place != _place(index):
            raise InvalidInput("a tile has one path only: leave out leading zeros")
        return tile

    @property
    def leaves(self) -> int:
        """How many leaves stand below one hash."""
        return 1 << (_BITS * (self.level or 0))

    def is_within(self, size: int) -> bool:
        """Whether a log of this size has it."""
        return (self.index * WIDTH + self.width) * self.leaves <= size

    def content(self, t: Reader) -> bytes:
        """Hashes, or records with their lengths."""
        first = self.index * WIDTH
        if self.level is None:
            rows = t.scan(LEAVES, after=first - 1, limit=self.width)
            return b"".join(len(row.record).to_bytes(2, "big") + row.record for row in rows)
        return b"".join(self._hash(t, first + place) for place in range(self.width))

    def _hash(self, t: Reader, position: int) -> bytes:
        """Of one complete subtree: it is kept with the leaf that completes it."""
        row = t.get(LEAVES, (position + 1) * self.leaves - 1)
        if row is None:
            raise InvalidInput("the log has no such tile")
        start = HASH_SIZE * _BITS * (self.level or 0)
        return row.hashes[start : start + HASH_SIZE]


def _place(index: int) -> str:
    """1067 as x001/067."""
    groups = []
    while True:
        index, rest = divmod(index, 1000)
        groups.append(f"{rest:03}")
        if not index:
            break
    return "/".join([*(f"x{each}" for each in groups[:0:-1]), groups[0]])
