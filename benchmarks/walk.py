"""How long the way is from `voile explain` to a private answer: types, files and functions.

One call from the command line (private background, charged, on record) is run twice in this
process; the first run loads what is loaded once, the second is traced. Counted are

    files        of voile in which something ran
    functions    of voile that ran
    wrappers     types of voile that stand between the command and the work: whose methods are on
                 the call stack when the model is asked, when the noise is drawn, or when the
                 account is charged
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from benchmarks.harness import Figure, write

PACKAGE = "voile"
SCHEMA = """\
name = "walk"

[features.age]
kind = "continuous"
bounds = [0, 100]
default = 50

[features.income]
kind = "continuous"
bounds = [0, 100]
default = 50
"""


def risk(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The model that is asked."""
    found: np.ndarray[Any, Any] = 1 / (1 + np.exp(-(rows[:, 0] - rows[:, 1]) / 50))
    return found


@dataclass
class Walk:
    """What ran, and who stood in between."""

    root: str
    work: tuple[CodeType, ...]
    functions: set[CodeType] = field(default_factory=set)
    wrappers: set[type] = field(default_factory=set)

    def notice(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(self.root):
            self.functions.add(code)
        if code in self.work or code.co_name == "randomise":
            self._look_up(frame)

    def _look_up(self, frame: FrameType | None) -> None:
        while frame is not None:
            kind = type(frame.f_locals.get("self"))
            if kind.__module__.startswith(f"{PACKAGE}."):
                self.wrappers.add(kind)
            frame = frame.f_back

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.functions}


def run() -> None:
    walk = traced()
    figures = [
        Figure(
            "wrapper types",
            "",
            len(walk.wrappers),
            None,
            None,
            "at most 6",
            len(walk.wrappers) <= 6,
        ),
        Figure("files", "", len(walk.files), None, None),
        Figure("functions", "", len(walk.functions), None, None),
    ]
    names = sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in walk.wrappers)
    write("walk", "none: a count", figures, wrappers=names)


def traced() -> Walk:
    import voile
    from voile.ledger import Ledger

    work = (risk.__code__, Ledger.charge.__code__)
    walk = Walk(str(Path(voile.__file__).parent), work)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _prepare()
        _command("explain", *_arguments("first.csv"))
        sys.setprofile(walk.notice)
        try:
            _command("explain", *_arguments("second.csv"))
        finally:
            sys.setprofile(None)
    return walk


def _prepare() -> None:
    Path("schema.toml").write_text(SCHEMA)
    rows = np.random.default_rng(0).uniform(0, 100, (200, 2))
    _table("people.csv", rows)
    _table("first.csv", rows[:1])
    _table("second.csv", rows[1:2])
    _command("audit", "init", "log.db", "--origin", "example.org/walk")
    _command(
        "budget",
        "open",
        "log.db",
        "people",
        "--dataset",
        "people 1",
        "--epsilon",
        "5",
        "--delta",
        "1e-6",
    )


def _table(name: str, rows: np.ndarray[Any, Any]) -> None:
    np.savetxt(name, rows, delimiter=",", header="age,income", comments="")


def _arguments(rows: str) -> list[str]:
    return [
        "benchmarks.walk:risk",
        rows,
        *("--schema", "schema.toml"),
        *("--model-origin", "public"),
        *("--protect", "background"),
        *("--background", "people.csv"),
        *("--account", "people"),
        *("--between", "0", "1"),
    ]


def _command(*words: str) -> None:
    from voile.cli import main

    try:
        main(list(words))
    except SystemExit as end:
        if end.code not in (0, None):
            raise RuntimeError(f"voile {' '.join(words)} ended with {end.code}") from end
