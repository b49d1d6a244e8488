"""No function is long, and none takes many parameters; values that travel together are one value.

The options of a command, and the text that `--help` shows of it, are its list, not its length. The
example at the end of a docstring does not count either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import typer

import voile
from voile.cli.app import app

ROOT = Path(voile.__file__).parent
MOST_LINES, MOST_PARAMETERS = 60, 8
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def commands(of: typer.Typer = app) -> Iterator[tuple[Path, str]]:
    """File and name of what typer calls."""
    for command in of.registered_commands:
        assert command.callback is not None
        code = command.callback.__code__
        yield Path(code.co_filename), code.co_name
    for group in of.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance)


def lines(function: Function, *, is_command: bool) -> int:
    statements = function.body[1:] if ast.get_docstring(function) else function.body
    first = statements[0].lineno if is_command and statements else function.lineno
    example = 0 if is_command else example_lines(ast.get_docstring(function) or "")
    return (function.end_lineno or first) - first + 1 - example


def example_lines(docstring: str) -> int:
    before, shown, _ = docstring.partition("\n\n>>> ")
    return len(docstring.splitlines()) - len(before.splitlines()) if shown else 0


def parameters(function: Function) -> int:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    bound = bool(named) and named[0].arg in ("self", "cls")
    return len(named) - bound + (given.vararg is not None) + (given.kwarg is not None)


def too_large(source: str, path: Path, known: set[tuple[Path, str]]) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            is_command = (path, node.name) in known
            long = lines(node, is_command=is_command) > MOST_LINES
            if long or (not is_command and parameters(node) > MOST_PARAMETERS):
                found.append(f"{path.name}:{node.lineno} {node.name}")
    return found


def test_functions_are_short_and_take_few_parameters() -> None:
    known = set(commands())
    assert (ROOT / "cli" / "commands.py", "run") in known
    found = [
        each
        for path in sorted(ROOT.rglob("*.py"))
        for each in too_large(path.read_text(), path, known)
    ]
    assert found == []


def test_what_is_too_large_is_seen() -> None:
    body = "\n    pass" * MOST_LINES
    wide = ", ".join(f"p{place}" for place in range(MOST_PARAMETERS + 1))
    here = Path("here.py")
    assert too_large(f"def long():{body}", here, set()) == ["here.py:1 long"]
    shown = '\n    """Is long.\n\n    >>> 1\n    1\n    """'
    assert too_large(f"def long():{shown}{body}", here, set()) == ["here.py:1 long"]
    shorter = "\n    pass" * (MOST_LINES - 3)
    assert too_large(f"def fits():{shown}{shorter}", here, set()) == []
    assert too_large(f"def wide({wide}): pass", here, set()) == ["here.py:1 wide"]
    assert too_large(f"class A:\n    def f(self, *{wide}): pass", here, set()) == ["here.py:2 f"]
    assert too_large(f"def command({wide}): pass", here, {(here, "command")}) == []
    long = f"def command():{body}\n    pass"
    assert too_large(long, here, {(here, "command")}) == ["here.py:1 command"]
    assert too_large("def fits(a, *b, **c): pass", here, set()) == []
