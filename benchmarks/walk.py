"""How long the way is from `voile explain` to a private answer: types, files and functions.

One call from the command line (private background, charged, on record) is run twice in this
process; the first run loads what is loaded once, the second is traced. Counted are

    files        of voile in which something ran
    functions    of voile that ran; a comprehension is none, whatever Python makes of it
    wrappers     types of voile that stand between the command and the work: whose methods are on
                 the call stack when the model is asked, when the noise is drawn, or when the
                 account is charged
    types        of voile of which an object was made on the way, whoever made it

Beside all files and functions stand those of the walk proper (command line, app, release,
ledger and log, without the mathematics, the models and the reading of files below them), and those
of the second answer of a `ReleaseService` that is held open. `BEFORE` was counted by the same code
at commit 8310830, where an `Explainer` and a `Desk` stood in the place of the service; its 90 types
were counted later, before commands had one handler each.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from benchmarks.harness import Figure, compare, write

PACKAGE = "voile"
PROPER = ("cli", "app", "release", "ledger", "audit_log")
COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
BEFORE = {
    "wrapper types": 10,
    "files": 86,
    "functions": 499,
    "types": 90,
    "files, walk proper": 45,
    "functions, walk proper": 270,
    "files, second answer": 49,
    "functions, second answer": 209,
}
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
    types: set[type] = field(default_factory=set)

    def notice(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_name in ("__init__", "__new__", "__post_init__") and code.co_argcount:
            self._notice_object(frame.f_locals[code.co_varnames[0]])
        if code.co_filename.startswith(self.root) and code.co_name not in COMPREHENSIONS:
            self.functions.add(code)
        if code in self.work or code.co_name == "randomise":
            self._look_up(frame)

    def _notice_object(self, made: object) -> None:
        """Python's own and pydantic's constructors make objects of voile as well."""
        kind = made if isinstance(made, type) else type(made)
        if kind.__module__.startswith(f"{PACKAGE}."):
            self.types.add(kind)

    def _look_up(self, frame: FrameType | None) -> None:
        while frame is not None:
            kind = type(frame.f_locals.get("self"))
            if kind.__module__.startswith(f"{PACKAGE}."):
                self.wrappers.add(kind)
            frame = frame.f_back

    @property
    def proper(self) -> set[CodeType]:
        """Functions of the walk proper."""
        folders = tuple(f"{self.root}/{name}/" for name in PROPER)
        return {code for code in self.functions if code.co_filename.startswith(folders)}


def files(functions: set[CodeType]) -> int:
    return len({code.co_filename for code in functions})


def run() -> None:
    with _prepared():
        _command("explain", *_arguments("first.csv"))
        walk = traced(lambda: _command("explain", *_arguments("second.csv")))
        held = _second_answer()
    found = {
        "wrapper types": len(walk.wrappers),
        "files": files(walk.functions),
        "functions": len(walk.functions),
        "types": len(walk.types),
        "files, walk proper": files(walk.proper),
        "functions, walk proper": len(walk.proper),
        "files, second answer": files(held.functions),
        "functions, second answer": len(held.functions),
    }
    names = sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in walk.wrappers)
    write("walk", "commit 8310830", [_figure(*each) for each in found.items()], wrappers=names)


def _figure(what: str, now: int) -> Figure:
    before = BEFORE[what]
    if what == "wrapper types":
        return Figure(what, "", now, before, now / before, "at most 6 types", now <= 6)
    at_most = 0.5 if what in ("files", "functions") else None
    return compare(what, "", now, before, at_most=at_most)


def traced(act: Callable[[], object]) -> Walk:
    import voile
    from voile.records.ledger import Ledger

    walk = Walk(str(Path(voile.__file__).parent), (risk.__code__, Ledger.charge.__code__))
    sys.setprofile(walk.notice)
    try:
        act()
    finally:
        sys.setprofile(None)
    return walk


def _second_answer() -> Walk:
    """Of a service that is held open."""
    from voile.app.explain import ExplanationSpec, ReleaseService, build_release, load_inputs
    from voile.records.vault import open_vault_at, usual_place

    spec = ExplanationSpec.read(
        {
            "model": "benchmarks.walk:risk",
            "schema": "schema.toml",
            "model_origin": "public",
            "protect": "background",
            "background": "people.csv",
            "account": "people",
            "output_range": (0, 1),
        }
    )
    inputs = load_inputs(spec)
    with open_vault_at(usual_place()) as vault:
        service, release = (
            ReleaseService(vault),
            build_release(inputs, vault.account("people"), 1),
        )
        rows = np.array([[20.0, 30.0], [40.0, 50.0]])
        for row in (rows[:1], rows[1:]):
            walk = traced(partial(service.answer, release, row, payer="people", caller="somebody"))
    return walk


@contextmanager
def _prepared() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _prepare()
        yield


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
        *("--output-range", "0", "1"),
    ]


def _command(*words: str) -> None:
    from voile.cli import main

    try:
        main(list(words))
    except SystemExit as end:
        if end.code not in (0, None):
            raise RuntimeError(f"voile {' '.join(words)} ended with {end.code}") from end
