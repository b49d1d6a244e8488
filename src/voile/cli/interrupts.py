"""Ctrl-C: what is kept, and how to go on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from voile.cli.rounds import say

__all__ = ["interruptible", "told_how_to_go_on"]
_YES = "--yes"
_REDRAW = frozenset({"--redraw", "--fresh"})
"""What would pay again; the second is the former spelling."""


@dataclass
class _Course:
    """How far a command is: what is kept of it, from the block on that it was in last.

    Args:
        kept: in words; None while nothing can have been charged.
        told: whether the one who interrupted knows already.
    """

    kept: str | None = None
    outputs: Callable[[], Sequence[Path]] = lambda: ()
    told: bool = False

    def tell(self) -> None:
        """Say what is kept and how to go on, once."""
        if self.told:
            return
        self.told = True
        kept = "nothing was charged or released" if self.kept is None else self.kept
        say(f"\ninterrupted: {kept}; to continue, run:\n  {shlex.join(self._words())}")

    def _words(self) -> list[str]:
        words = ["voile", *sys.argv[1:]]
        if self.kept is None:
            return words
        words = [word for word in words if word not in _REDRAW]
        if _YES not in words and any(map(os.path.lexists, self.outputs())):
            words.append(_YES)
        return words


@contextmanager
def told_how_to_go_on(context: click.Context, commands: Collection[str]) -> Iterator[None]:
    """Around a whole command: whoever interrupts outside of all its blocks is told as well.

    Args:
        context: that of `voile` itself.
        commands: those that are gone on with; of another one nothing is said.
    """
    try:
        yield
    except BaseException as error:
        if not _is_interrupt(error):
            raise
        if context.invoked_subcommand in commands:
            _course(context).tell()
        raise KeyboardInterrupt from error


def _is_interrupt(error: BaseException | None) -> bool:
    """Python makes a RuntimeError of one that is raised while a class is made, as imports do."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


@contextmanager
def interruptible(
    kept: str | None = None, outputs: Callable[[], Sequence[Path]] = lambda: ()
) -> Iterator[None]:
    """Tells whoever interrupts what is kept, and the command that goes on from there.

    It is the same command, but for two options: --redraw would pay again for what was charged just
    before the interrupt, and files that were written already may be overwritten with --yes.

    Args:
        kept: in words; that paid answers are, if not given.
        outputs: what the command writes; asked once it is interrupted.
    """
    from voile.app.calls import PAID  # `voile --help` does without commands

    course = _course(click.get_current_context(silent=True))
    course.kept, course.outputs = kept or PAID, outputs  # also once the block has ended
    try:
        yield
    except KeyboardInterrupt:
        course.tell()
        raise


def _course(context: click.Context | None) -> _Course:
    """Of the command that runs; its parts share it."""
    if context is None:
        return _Course()
    found: _Course = context.meta.setdefault(__name__, _Course())
    return found
