"""How far a federation is, in a terminal or a notebook; nothing is shown of a short one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from voile.python.progress import LONG

if TYPE_CHECKING:
    from voile.federation import Progress, ProgressEvent


@dataclass
class ProgressBars:
    """One bar for each stage, once it takes longer than a short call.

    Args:
        clock: in seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _bars: Any = None
    _tasks: dict[str, Any] = field(default_factory=dict)
    _began: float = 0.0

    def __enter__(self) -> Self:
        self._began = self.clock()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, what: str, done: int, total: int) -> None:
        """So many steps of this are done."""
        if self.clock() - self._began < LONG:
            return
        if self._bars is None:
            self._bars = _bars()
            self._bars.start()
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done)

    def rounds(self, _delta: float) -> Progress:
        """Told of every answer and of every round of a federation."""

        def seen(event: ProgressEvent) -> None:
            self.show(event.stage, event.round - (not event.done), event.rounds)

        return seen

    def steps(self, done: int, total: int) -> None:
        """Told of the steps of a long computation."""
        self.show("steps", done, total)


def _bars() -> Any:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    watched = console.is_terminal or console.is_jupyter
    return Progress(console=console, transient=True, disable=not watched)
