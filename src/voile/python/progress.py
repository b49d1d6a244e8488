"""How long a call takes, said before it starts, and how far it is, in terminals and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, TypeAlias

from voile.core.errors import InvalidInput

Progress: TypeAlias = bool | Callable[[int, int], None] | None
"""None: a bar if it takes longer than two seconds. True: always. False: never, and nothing is said.
A function is told how much is done, of how much."""

LONG: Final = 2.0
"""Seconds."""
_MINUTE: Final = 60.0


def check_progress(given: Any) -> Progress:
    """As it was given, if it is one."""
    if given is None or isinstance(given, bool) or callable(given):
        return given  # type: ignore[no-any-return]
    raise InvalidInput(
        f"progress: expected True, False, None or a function (done, total), found {given!r}"
    )


def say(text: str, progress: Progress) -> None:
    """A line beside the results, unless nobody wants any."""
    if progress is not False:
        sys.stderr.write(f"voile: {text}\n")
        sys.stderr.flush()


def in_words(seconds: float) -> str:
    """Roughly.

    >>> in_words(40.2), in_words(170), in_words(9_000)
    ('40 s', '3 min', '2.5 h')
    """
    if seconds < 1.5 * _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * _MINUTE else f"{seconds / 3600:.1f} h"


@contextmanager
def shown(
    title: str, total: int, seconds: float, progress: Progress
) -> Iterator[Callable[[int], None]]:
    """Inside, call what is given with how much was done just now.

    Args:
        title: what is being done.
        total: how much there is to do.
        seconds: how long it will take, about.
        progress: see `Progress`.
    """
    if callable(progress):
        yield _counted(total, progress)
        return
    if progress is False or (progress is None and seconds < LONG):
        yield lambda _done: None
        return
    say(f"{title}, about {in_words(seconds)}", progress)
    with _bar(title, total) as advance:
        yield advance


def _counted(total: int, progress: Callable[[int, int], None]) -> Callable[[int], None]:
    done = 0

    def tell(more: int) -> None:
        nonlocal done
        done = min(done + more, total)
        progress(done, total)

    return tell


@contextmanager
def _bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of rich; nothing where nobody watches, as in a log file."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn(title), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    watched = console.is_terminal or console.is_jupyter
    bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=not watched)
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.advance(task, done)
        bar.update(task, completed=total)


def seconds_to_ask(ask: Callable[[int], object], rows: int, batch: int) -> float:
    """How long a model takes for so many rows, about: one row and some more are timed.

    Args:
        ask: asks it for so many rows.
        rows: how many there are in all.
        batch: how many it gets at once, at most.
    """
    ask(1)  # the first call loads and compiles
    call = _quickest(ask, 1)
    count, taken, enough = 1, call, 2 * call + 0.02
    while taken < enough and count < batch:
        count = min(8 * count, batch)
        taken = _timed(ask, count)
        if taken >= enough:
            taken = min(taken, _quickest(ask, count))
    return rows / batch * call + rows * max(taken - call, 0.0) / count


def _quickest(ask: Callable[[int], object], count: int) -> float:
    """Of two: a machine that was busy for a moment must not count a million times."""
    return min(_timed(ask, count), _timed(ask, count))


def _timed(ask: Callable[[int], object], count: int) -> float:
    start = time.perf_counter()
    ask(count)
    return time.perf_counter() - start


@contextmanager
def late_bar(title: str, progress: Progress) -> Iterator[Callable[[int, int], None]]:
    """For work whose length shows in its first part: told (done, total), it may begin a bar.

    Told that nothing is done, it begins to count the time from there.

    Args:
        title: what is being done.
        progress: see `Progress`.
    """
    began, opened = time.perf_counter(), list[Callable[[int], None]]()
    with ExitStack() as stack:

        def tell(done: int, total: int) -> None:
            nonlocal began
            if not done:
                began = time.perf_counter()
                return
            if not opened:
                left = (time.perf_counter() - began) * (total - done) / done
                opened.append(stack.enter_context(shown(title, total, left, progress)))
            opened[0](1)

        yield tell
