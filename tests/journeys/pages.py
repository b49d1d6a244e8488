"""A page of the documentation as a script: what a reader types, and what the page says comes back.

    ```console          lines with `$ ` are typed, others are excerpts of what is printed, in order;
                        `...` stands for anything. A command is to succeed, unless an excerpt begins
                        with `voile: error:`. A `cd` stands on a line of its own
    ```toml title="x"   (or any other kind with a title) the reader saves as the file x
    ```python           runs in one namespace for the whole page

Anything else is for reading. `<!-- files: NAME -->` says which files the reader has to begin with.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from voile import cli

FOLDER: Final = Path(__file__).parents[2] / "docs" / "first-hour"
_BLOCK: Final = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
_FILES: Final = re.compile(r"<!-- files: (?P<name>[a-z ]+) -->")
_FAILED: Final = "voile: error:"


@dataclass(frozen=True)
class Typed:
    """One command, and excerpts of what it prints."""

    line: str
    excerpts: tuple[str, ...]

    @property
    def is_to_fail(self) -> bool:
        return any(each.startswith(_FAILED) for each in self.excerpts)


def files_of(page: Path) -> str:
    found = _FILES.search(page.read_text(encoding="utf-8"))
    return "nothing" if found is None else found["name"]


def run_page(page: Path) -> None:
    """Everything on it, in order, in the current folder."""
    namespace: dict[str, object] = {}
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["title"] is not None:
            Path(block["title"]).write_text(block["text"], encoding="utf-8")
        elif block["kind"] == "python":
            exec(compile(block["text"], page.name, "exec"), namespace)
        elif block["kind"] == "console":
            for typed in commands(block["text"]):
                run(typed)


def commands(text: str) -> Iterator[Typed]:
    joined = text.replace("\\\n", " ")
    for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
        line, *shown = part.splitlines()
        yield Typed(line, tuple(each for each in shown if each.strip() not in ("", "...")))


def run(typed: Typed) -> None:
    code, printed = _run(typed.line)
    assert (code != 0) == typed.is_to_fail, f"$ {typed.line}\nexit code {code}\n{printed}"
    place, seen = 0, _plain(printed)
    for excerpt in typed.excerpts:
        for part in map(_plain, excerpt.split("...")):
            found = seen.find(part, place)
            assert found >= 0, f"$ {typed.line}\nexpected: {excerpt}\nfound: {printed}"
            place = found + len(part)


def _run(line: str) -> tuple[int, str]:
    words = shlex.split(line, comments=True)
    if words[0] == "cd":
        return _change_folder(Path(words[1]))
    if words[0] != "voile":
        ran = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False
        )
        return ran.returncode, ran.stdout + ran.stderr
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            cli.main(words[1:])
        except SystemExit as left:
            return int(left.code or 0), printed.getvalue()
    raise AssertionError("a command always leaves with an exit code")


def _change_folder(folder: Path) -> tuple[int, str]:
    """A reader's modules are imported anew from there, as by a command of its own."""
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    for name in [name for name, file in files.items() if file and Path(file).parent == Path.cwd()]:
        del sys.modules[name]
    os.chdir(folder)
    return 0, ""


def _plain(text: str) -> str:
    """Lines may be folded anywhere."""
    return " ".join(text.split())
