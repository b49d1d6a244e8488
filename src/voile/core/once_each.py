"""What follows from an object that never changes, found once.

`functools.lru_cache` hashes and compares what it is asked about, which may take as long as to find
it once more. Here an object is known by itself; an equal one is another one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")
MOST: Final = 256


def once_each(find: Callable[[Given], Found]) -> Callable[[Given], Found]:
    """The same function of one frozen object, which remembers what it found for the last ones.

    >>> @once_each
    ... def length(names: tuple[str, ...]) -> int:
    ...     print("counting")
    ...     return len(names)
    >>> names = ("a", "b")
    >>> length(names), length(names)
    counting
    (2, 2)
    """
    known: dict[int, tuple[Any, Found]] = {}

    @wraps(find)
    def remembered(given: Given) -> Found:
        # The object is kept with what was found: so its number is nobody else's meanwhile.
        entry = known.get(id(given))
        if entry is None or entry[0] is not given:
            if len(known) >= MOST:
                known.clear()
            entry = known[id(given)] = given, find(given)
        return entry[1]

    return remembered
