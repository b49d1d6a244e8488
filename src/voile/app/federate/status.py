"""How far a run of a federation is: written to its folder, shown, and ended on request.

`RunWatch` is told by the running server; `run_status` and `stop_run` are for another process on the
same machine. All of it is the server's own view: names, rounds and times that it saw.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from voile.app.artefact import is_artefact
from voile.app.federate.config import ServerFile
from voile.app.federate.files import SERVER_FILE, read_agreement, read_beside
from voile.app.federate.party import is_held
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.input_file import read_text
from voile.federation import Progress, ProgressEvent

STATUS: Final = "run-status.json"
STOP: Final = "stop-requested"
_OFTEN: Final = 1.0
"""Seconds between two writings within a round; the disk is not kept busy."""


@dataclass(frozen=True)
class RunPosition:
    """What a run was doing last.

    Args:
        updated: when this was written.
        stage, round, rounds: empty and 0 before the first round.
        asked, answered: parties of that round. While it runs, those that were given up count too.
        missing: who is not in the result of that round, and why; known when it is done.
        done: whether that round is over.
        waiting: for whom, and since when. It is over if the run is.
    """

    updated: str
    stage: str = ""
    round: int = 0
    rounds: int = 0
    asked: int = 0
    answered: int = 0
    waiting: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    done: bool = False

    @property
    def round_line(self) -> str:
        """For people."""
        if not self.round:
            return "before the first round"
        missing = "; ".join(f"{name}: {why}" for name, why in self.missing.items())
        return (
            f"stage {self.stage!r}, round {self.round} of {self.rounds}: {self.answered} of "
            f"{self.asked} parties have answered"
            + ("" if self.done else " or were given up")
            + (f" ({missing})" if missing else "")
        )


@dataclass(eq=False)
class RunWatch:
    """Told how far a run is; writes it down, and ends the run if that was asked for.

    Args:
        folder: of the run.
        seen: told of rounds as well.
    """

    folder: Path
    seen: Progress
    _now: RunPosition = field(default_factory=lambda: RunPosition(""), init=False, repr=False)
    _written: float = field(default=0.0, init=False, repr=False)

    def begin(self) -> None:
        """A request to stop was meant for an earlier run; the rounds of that run are kept."""
        (self.folder / STOP).unlink(missing_ok=True)
        with suppress(UnreadableFile):
            self._now = replace(_last(self.folder / STATUS) or self._now, waiting={})
        if not is_artefact(self.folder / "artefact"):  # what is complete is left as it is
            self._write(at_once=True)

    def __call__(self, seen: ProgressEvent) -> None:
        missing = {row.client: str(row.outcome) for row in seen.missing}
        self._now = RunPosition(
            "", seen.stage, seen.round, seen.rounds, seen.asked, seen.answered - len(missing),
            self._now.waiting, missing, seen.done,
        )  # fmt: skip
        self._write(at_once=seen.done)
        self.seen(seen)
        self._check_stop()

    def waiting(self, names: Mapping[str, float]) -> None:
        """For whom messages wait, and since when in seconds since 1970."""
        waiting = {name: utc(since) for name, since in sorted(names.items())}
        self._now = replace(self._now, waiting=waiting)
        self._write(at_once=not waiting)  # nothing may follow for long: the result is made next
        self._check_stop()

    def _write(self, *, at_once: bool) -> None:
        if not at_once and time.monotonic() - self._written < _OFTEN:
            return
        self._written = time.monotonic()
        content = {**asdict(self._now), "updated": utc(time.time())}
        replace_file(self.folder / STATUS, json.dumps(content, indent=2).encode())

    def _check_stop(self) -> None:
        """As Ctrl-C would: what is done is kept, and the same command goes on."""
        stop = self.folder / STOP
        if stop.exists():
            stop.unlink(missing_ok=True)
            self._write(at_once=True)
            raise KeyboardInterrupt


@dataclass(frozen=True)
class RunStatus:
    """What a server's operator is shown.

    Args:
        name, agreement: of the federation.
        running: whether a run uses the server's folder now.
        complete: whether its artefact is written.
        last: what the run was doing last; None if there was none yet.
    """

    name: str
    agreement: str
    running: bool
    complete: bool
    last: RunPosition | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def lines(self) -> list[str]:
        """For people."""
        state = "running" if self.running else "not running"
        if self.complete and not self.running:
            state = "complete"
        elif not self.running and self.last is not None:
            state = "not running; `voile federate` with the same files goes on"
        shown = [f"{self.name}: {state}", f"agreement {self.agreement}"]
        if self.last is None:
            return [*shown, "no run was begun yet"]
        waiting = self.last.waiting.items() if self.running else ()
        return [
            *shown,
            self.last.round_line,
            *(f"waiting for {name} since {since}" for name, since in waiting),
            f"last sign of the run: {self.last.updated}",
        ]


def run_status(config: Path) -> RunStatus:
    """Of the federation of this `federation.toml`; reads nobody's rows, and changes nothing."""
    agreement, folder = read_agreement(config), _folder(config)
    # Where the artefact of a run lies: `voile.app.federate.run.ARTEFACT`.
    complete = is_artefact(folder / "artefact")
    return RunStatus(
        agreement.name, agreement.digest, is_held(folder), complete, _last(folder / STATUS)
    )


def stop_run(config: Path, patience: float = 10.0) -> bool:
    """Ask the run of this federation to end; whether it has, within so many seconds.

    Rounds that are done are kept, and the same `voile federate` goes on from there.
    """
    folder = _folder(config)
    if not is_held(folder):
        raise InvalidInput(f"{folder}: no federation is running here")
    replace_file(folder / STOP, b"")
    until = time.monotonic() + patience
    while is_held(folder):
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def utc(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _folder(config: Path) -> Path:
    return read_beside(config.parent / SERVER_FILE, ServerFile).output


def _last(path: Path) -> RunPosition | None:
    if not path.exists():
        return None
    try:
        return RunPosition(**json.loads(read_text(path)))
    except (ValueError, TypeError) as error:
        raise UnreadableFile(f"{path}: is damaged; the next run writes it anew") from error
