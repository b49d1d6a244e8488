"""Ctrl-C: what is kept, and how to go on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from voile.cli.rounds import say


@contextmanager
def interruptible(kept: str) -> Iterator[None]:
    """Tells whoever interrupts what is kept, and that the same command goes on from there."""
    try:
        yield
    except KeyboardInterrupt:
        command = shlex.join(["voile", *sys.argv[1:]])
        say(f"\ninterrupted: {kept}; to go on, type the same again:\n  {command}")
        raise
