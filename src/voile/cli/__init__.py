"""The command `voile`.

`app` holds the root command and turns errors into exit codes; `commands` makes options from the
commands of the application, `output` is what they print with. Each group of commands (`audit`,
`budget`, `schema`) has a typer app of its own, added in `app`.

Here stands Ctrl-C while a command starts, and in places that cannot raise it. This module imports
next to nothing, so that it is there before the slow ones.
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130
_AGAIN = 0.01


def run_interruptibly(work: Callable[[], None]) -> None:
    """Ctrl-C ends the process at once until `raise_interrupts`, and never gets lost after it.

    Nothing is done where Ctrl-C is ignored or handled already.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return work()
    plain = sys.unraisablehook

    def hook(found: sys.UnraisableHookArgs) -> None:
        if issubclass(found.exc_type, KeyboardInterrupt):
            _interrupt_soon()
        else:
            plain(found)

    sys.unraisablehook = hook
    signal.signal(signal.SIGINT, _leave_at_once)
    try:
        return work()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = plain


def raise_interrupts() -> None:
    """From here on Ctrl-C is raised, so that the command can say what is kept."""
    if signal.getsignal(signal.SIGINT) is _leave_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave_at_once(*_: object) -> None:
    """Nothing has begun. Raised among imports, an interrupt would end in a traceback."""
    os.write(2, b"\nvoile: interrupted before anything began\n")
    os._exit(INTERRUPTED)


def _interrupt_soon() -> None:
    """It was raised in a callback, which cannot pass it on: again, when that has ended."""
    from threading import Timer

    again = Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()


def main(arguments: list[str] | None = None) -> None:
    """Run one command and leave the process with its exit code."""

    def run() -> None:
        from voile.cli import app

        app.main(arguments)

    run_interruptibly(run)
