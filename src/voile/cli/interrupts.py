"""Ctrl-C: what is kept, and how to go on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from voile.cli.rounds import say

PAID: Final = (
    "what was paid for is kept and given again at no further cost, anything else was neither "
    "charged nor released"
)
_FRESH, _YES = "--fresh", "--yes"


@contextmanager
def interruptible(kept: str, outputs: Callable[[], Sequence[Path]] = lambda: ()) -> Iterator[None]:
    """Tells whoever interrupts what is kept, and the command that goes on from there.

    It is the same command, but for two options: --fresh would pay again for what was charged just
    before the interrupt, and files that were written already may be overwritten with --yes.

    Args:
        kept: in words.
        outputs: what the command writes; asked once it is interrupted.
    """
    try:
        yield
    except KeyboardInterrupt:
        words = [word for word in ("voile", *sys.argv[1:]) if word != _FRESH]
        if _YES not in words and any(map(os.path.lexists, outputs())):
            words.append(_YES)
        say(f"\ninterrupted: {kept}; to go on, type:\n  {shlex.join(words)}")
        raise
