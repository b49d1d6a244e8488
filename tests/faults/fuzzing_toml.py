"""Every TOML file that voile reads, broken: it is read, or what is wrong is told, in little memory.

Each file is fed through the reader that commands use, so line numbers of errors are looked for too.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

from tests.faults.forking import child, exit_code, lines
from tests.faults.fuzzing import Parser, feed, through
from tests.faults.mutations import words_changed
from tests.unit.app.workspace.examples import (
    CUSTOMERS,
    PUBLIC_ROWS,
    private_spec,
    write_files,
)
from voile.app.federate import read_job
from voile.app.federate.config import SingleFile
from voile.app.federate.starting import NewParty, Settings, write_federation
from voile.app.toml_file import TomlFile
from voile.app.workspace import start_workspace
from voile.app.workspace.file import WorkspaceFile
from voile.core.schema import Schema
from voile.records.checkpoints import read_policy

MEMORY = 300 * 2**20
"""Bytes that reading may take, above what the process has when it begins."""
LARGE = 2**20
"""Characters of the largest file that is read; some inputs are just below and above."""


def fuzz_toml(folder: Path, inputs: int, *, seed: int = 0) -> int:
    """Feed so many inputs in a process of their own; raises at the first unsound outcome, and if it
    took too much memory."""
    every = readers(folder)

    def work(pipe: int) -> None:
        before = _memory("VmRSS")
        fed = feed(every, folder, inputs, seed=seed)
        taken = _memory("VmHWM") - before
        assert taken < MEMORY, f"reading took {taken // 2**20} MiB"
        os.write(pipe, f"{fed}\n".encode())

    with child(work) as (process, pipe):
        said = lines(pipe)
        assert exit_code(process) == 0, "see the traceback above"
    return int(said[0])


def _memory(which: str) -> int:
    """Bytes in memory now, or at most so far."""
    found = re.search(rf"{which}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def readers(folder: Path) -> list[Parser]:
    """Of a workspace, a schema, a policy and the files of a federation, all sound."""
    home = write_files(folder / "study")
    spec = private_spec(home)
    promise = {"dataset": "customers v1", "epsilon": 5.0, "delta": 1e-5}
    workspace = start_workspace(spec, promise, name="approval", folder=home).file
    study = _federation(folder / "federation")
    single = folder / "single.toml"
    single.write_text(_SINGLE)
    return [
        _parser("workspace", workspace, _read_workspace),
        _parser("schema", home / "loans.toml", Schema.load),
        _parser("policy", home / "audit-policy.toml", read_policy),
        _parser("federation", study, read_job),
        _parser("server", study.parent / "server.toml", lambda _: read_job(study)),
        _parser("node", study.parent / "nodes/north/node.toml", lambda _: read_job(study)),
        _parser("federation in one file", single, _read_single),
    ]


_SINGLE = """\
name = "study"
schema = "schema.toml"
output = "output"
[privacy]
epsilon = 2.0
delta = 1e-5
[training]
rounds = 3
[[clients]]
name = "north"
data = "north.csv"
rows = 100
[[held_out]]
name = "others"
data = "others.csv"
"""


def _federation(folder: Path) -> Path:
    folder.mkdir()
    schema = write_files(folder) / "schema.toml"
    schema.write_text(
        (folder / "loans.toml").read_text()
        + '\n[label]\nname = "paid"\ncategories = ["no", "yes"]\n'
    )
    for name, rows in (("north", CUSTOMERS), ("south", CUSTOMERS), ("others", PUBLIC_ROWS)):
        head, *rest = rows.splitlines()
        text = "\n".join([f"{head},paid", *(f"{row},yes" for row in rest), ""])
        (folder / f"{name}.csv").write_text(text)
    founders = [NewParty(name, folder / f"{name}.csv", 160) for name in ("north", "south")]
    settings = Settings(held_out=(("others", folder / "others.csv"),))
    return write_federation(folder, "study", schema, founders, settings)


def _parser(name: str, path: Path, read: Callable[[Path], object]) -> Parser:
    """The sound file is put back after each input: others are read beside it."""
    sound = path.read_bytes()
    write_and_read = through(path, read)

    def read_bytes(content: bytes) -> object:
        try:
            return write_and_read(content)
        finally:
            path.write_bytes(sound)

    return Parser(name, sound, read_bytes, (words_changed, nested, enlarged))


def _read_workspace(path: Path) -> object:
    file = WorkspaceFile.read(path)
    file.check_files()
    return [file.spec(name) for name in file.releases], file.place


def _read_single(path: Path) -> object:
    return TomlFile.read(path).checked(SingleFile)


# --- ways to break TOML ---------------------------------------------------------------------------


def nested(content: bytes, chance: random.Random) -> bytes:
    """A statement of many levels, somewhere between two lines."""
    depth = chance.choice((2, 8, 15, 16, 17, 100, 1000, 30_000, 200_000))
    key = ".".join(chance.choice(("a", '"a"', "'a'", "a1")) for _ in range(min(depth, 50_000)))
    statement = chance.choice(
        (
            f"{key} = 1",
            f"[{key}]",
            f"[[{key}]]",
            f"x = {{ {key} = 1 }}",
            "x = " + "[" * depth + "]" * depth,
            "x = " + "[" * depth,
            "x = " + "{a=" * depth + "1" + "}" * depth,
            "[" * depth + "x" + "]" * depth,
            'x = """' + "." * depth,
            "x = [\n" + "[1],\n" * depth + "]",
        )
    )
    return _inserted(content, statement.encode(), chance)


def enlarged(content: bytes, chance: random.Random) -> bytes:
    """Very many keys, tables, entries or lines, up to just above what is read."""
    small = (1_000, 3_000, 10_000, 10_000, 30_000, 30_000, 100_000)
    size = chance.choice((*small, LARGE - len(content) - 1, LARGE + 1))
    unit = chance.choice(
        (
            "k{n} = 1\n",
            "[t{n}]\n",
            "[[t]]\nname = {n}\n",
            "[[parties]]\nname = 'p{n}'\n",
            "[features.f{n}]\n",
            "[releases.r{n}]\nmodel = 'x'\n",
            "# {n}\n",
            "\n",
            "k{n} = [\n[1],\n]\n",
            'k{n} = """\n"""\n',
            "k{n} = '\\u{n}'\n",
            "log_keys{n} = 'x'\n",
        )
    )
    units: list[str] = []
    total = 0
    while total < size:
        units.append(unit.replace("{n}", str(len(units))))
        total += len(units[-1])
    if chance.random() < 0.2:
        return ("x = [\n" + "[1],\n" * (size // 5) + "]\n").encode() + content
    return _inserted(content, "".join(units).encode(), chance)


def _inserted(content: bytes, statement: bytes, chance: random.Random) -> bytes:
    rows = content.split(b"\n")
    rows.insert(chance.choice((0, len(rows), chance.randrange(len(rows) + 1))), statement)
    return b"\n".join(rows)
