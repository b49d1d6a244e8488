"""What is told while a command runs: rounds and clients, the budget spent so far, Ctrl-C, the log.

`--verbose` and `--log-file` may stand anywhere on the command line. What is written is what voile
says of its own work: steps, files, warnings, refusals, errors with the place in the code. Never
rows or explanations, and of a database's address no password.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from voile.federation import HistoryRow, Progress, ProgressEvent
    from voile.training import Progress as Steps

_MOST_NAMED: Final = 5
_log = logging.getLogger("voile.cli")
VERBOSE, LOG_FILE = "--verbose", "--log-file"
SAID = "voile.said"
"""Of lines that were printed already, and are for the file alone."""
_LINE = "%(asctime)s %(levelname)s %(message)s"
_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@\s]*@")


def rounds_line(delta: float, clock: Callable[[], float] = time.monotonic) -> Progress:
    """A line that is rewritten on a terminal; one line a round elsewhere. Goes to stderr.

    From the second round on it says how long the stage will still take, by the rounds so far.
    """
    from voile.federation import most_spent

    spent: dict[str, float] = {}
    first: dict[str, tuple[int, float]] = {}
    left: dict[str, str] = {}

    def show(seen: ProgressEvent) -> None:
        terminal = sys.stderr.isatty()
        if seen.done:
            # The budget of a round is read once: composing costs more than a line is worth.
            spent[seen.stage] = most_spent(seen.rows, delta) if seen.round == seen.rounds else 0.0
            _log.info("%s: round %d of %d is done", seen.stage, seen.round, seen.rounds)
            # From the first round that was seen to end: an earlier one may be of a run before this.
            now = seen.round, clock()
            time_left = _time_left(first.setdefault(seen.stage, now), now, seen.rounds)
            left[seen.stage] = f"; about {time_left} left in this stage" if time_left else ""
        if not (terminal or seen.done):
            return
        read = spent.get(seen.stage)
        budget = f"; ε = {read:.3g} at δ = {delta:g} spent in this stage" if read else ""
        missing = seen.missing
        text = (
            f"{seen.stage}: round {seen.round} of {seen.rounds}, "
            f"{seen.answered - len(missing)} of {seen.asked} clients{_named(missing)}"
            f"{left.get(seen.stage, '')}{budget}"
        )
        end = "\n" if seen.done and (seen.round == seen.rounds or not terminal) else ""
        sys.stderr.write(f"\r\x1b[K{text}{end}" if terminal else f"{text}\n")
        sys.stderr.flush()

    return show


def _time_left(first: tuple[int, float], last: tuple[int, float], total: int) -> str:
    """In words, if what is left goes on as from the first to the last; empty if none can be said.

    Args:
        first, last: how much was done, and when.
    """
    from voile.app.federate.expectation import duration_in_words

    done = last[0] - first[0]
    if not done or last[0] == total:
        return ""
    return duration_in_words((last[1] - first[1]) / done * (total - last[0]))


def _named(missing: Sequence[HistoryRow]) -> str:
    told = [f"{row.client}: {row.outcome}" for row in missing[:_MOST_NAMED]]
    more = ["…"] if len(missing) > _MOST_NAMED else []
    return f" ({'; '.join(told + more)})" if told else ""


def say(text: str) -> None:
    """What is being done, in words; to stderr, beside the results."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    logging.getLogger(SAID).info(text)


def steps_line(clock: Callable[[], float] = time.monotonic) -> Steps:
    """How far a long computation is and how long it will still take, on a terminal."""
    seen: list[tuple[int, float]] = []

    def show(done: int, total: int) -> None:
        if not sys.stderr.isatty():
            return
        seen.append((done, clock()))
        left = _time_left(seen[0], seen[-1], total)
        text = f"{done} of {total} steps" + (f"; about {left} left" if left else "")
        sys.stderr.write(f"\r\x1b[K{text}" + ("\n" if done == total else ""))
        sys.stderr.flush()
        if done == total:
            seen.clear()

    return show


# --- Ctrl-C: what is kept, and how to go on -------------------------------------------------------


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


# --- `--verbose` and `--log-file`: what a command does, step by step, with times ------------------


@dataclass(frozen=True)
class LogSettings:
    """Where steps are told, besides what is printed anyway."""

    verbose: bool = False
    file: Path | None = None


def taken_out(arguments: Sequence[str]) -> tuple[list[str], LogSettings]:
    """The arguments without these two options, and what they said; nothing after `--`."""
    left, verbose, file = list[str](), False, None
    words = iter(arguments)
    for word in words:
        if word == "--":
            left += [word, *words]
        elif word == VERBOSE:
            verbose = True
        elif word.startswith(f"{LOG_FILE}="):
            file = Path(word.partition("=")[2])
        elif word == LOG_FILE and (name := next(words, None)) is not None:
            file = Path(name)
        else:
            left.append(word)
    return left, LogSettings(verbose, file)


@contextmanager
def logged(settings: LogSettings, arguments: Sequence[str]) -> Iterator[None]:
    """Steps of a command go where somebody asked for them, while it runs."""
    from voile.core.errors import InvalidInput

    root = logging.getLogger("voile")
    handlers: list[logging.Handler] = [logging.NullHandler()]  # else Python prints by itself
    if settings.verbose:
        handlers.append(logging.StreamHandler(sys.stderr))
        handlers[-1].addFilter(lambda record: record.name != SAID)
    if settings.file is not None:
        from voile.app.output_check import check_outputs

        check_outputs([settings.file], [])
        try:
            handlers.append(logging.FileHandler(settings.file, encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(f"{settings.file}: cannot be written: {error.strerror}") from error
    for handler in handlers:
        handler.setFormatter(logging.Formatter(_LINE))
        root.addHandler(handler)
    before = root.level
    if len(handlers) > 1:
        root.setLevel(logging.DEBUG)
    began = time.monotonic()
    _log.info("voile %s", _PASSWORD.sub(r"\1...@", shlex.join(arguments)))
    try:
        yield
    finally:
        _log.info("ended after %.1f s", time.monotonic() - began)
        root.setLevel(before)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()
