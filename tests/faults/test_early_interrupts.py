"""Ctrl-C while a command starts, at exact places: no traceback, and no interrupt gets lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = 130
AMONG_IMPORTS = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from voile.cli import main
main(["schema", "show", "nothing.toml"])
"""
IN_A_COMMAND = """
import os, signal
from voile import cli
from voile.cli import app

class Deaf:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**6):
            pass

class Named:
    def __set_name__(self, *_):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**6):
            pass

def in_a_callback():
    Deaf()
    signal.sigtimedwait([], 30)

def in_a_class():
    type("Class", (), {"field": Named()})

root = app.build()
root.command("interrupted")(WHERE)
app.build = lambda words: root
cli.main(["interrupted"])
"""


def run(script: str) -> tuple[int, str]:
    """As typed in a terminal: a background job would not hear Ctrl-C."""
    hearing = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{script}"
    done = subprocess.run(
        [sys.executable, "-c", hearing], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("module", ["voile.cli.app", "click", "typer", "voile.cli.schema"])
def test_among_imports_nothing_has_begun(module: str) -> None:
    said = "\nvoile: interrupted before anything began\n"
    assert run(AMONG_IMPORTS.format(module=module)) == (INTERRUPTED, said)


@pytest.mark.parametrize("where", ["in_a_callback", "in_a_class"])
def test_where_python_would_swallow_or_rename_it(where: str) -> None:
    assert run(IN_A_COMMAND.replace("WHERE", where)) == (INTERRUPTED, "")
