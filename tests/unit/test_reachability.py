"""What no command and no public name reaches is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tools.reachability import (
    EXCEPTIONS,
    ROOT,
    find_unreached,
    is_excepted,
    main,
    read_exceptions,
)

PROJECT = """
[project]
[project.scripts]
voile = "voile.cli:main"
"""
CLI = """
from voile import jobs
from voile.kinds import Kind
HANDLERS = {"one": "voile.handlers:handle"}
def main():
    from voile.late import loaded_late
    jobs.run(HANDLERS)
"""
TREE = {
    "__init__.py": "__all__ = ['Shown']\nfrom voile.shown import Shown\n",
    "shown.py": "class Shown:\n    def of(self): return _helper()\ndef _helper(): pass\n",
    "cli.py": CLI,
    "jobs.py": "def run(x: 'Kind'): pass\ndef unused(): return only_of_unused()\n"
    "def only_of_unused(): pass\n",
    "kinds.py": "class Kind: pass\n",
    "handlers.py": "def handle(): pass\n",
    "late.py": "LEFT = 1\ndef loaded_late(): pass\n",
    "alone.py": "def never(): pass\n",
}


def written(root: Path, tree: dict[str, str]) -> Path:
    package = root / "src" / "voile"
    package.mkdir(parents=True)
    (root / "pyproject.toml").write_text(PROJECT)
    for name, content in tree.items():
        (package / name).write_text(content)
    return root


def names(root: Path) -> set[str]:
    return {f"{found.module}:{found.name}" for found in find_unreached(root)}


def test_what_reached_code_mentions_is_reached_and_nothing_else(tmp_path: Path) -> None:
    assert names(written(tmp_path, TREE)) == {
        "voile.alone:never",
        "voile.jobs:only_of_unused",
        "voile.jobs:unused",
        "voile.kinds:Kind",
        "voile.late:LEFT",
    }


@pytest.mark.parametrize(
    "text", ["from voile.alone import never", "from voile.alone import (\n    never,\n)"]
)
def test_what_the_documentation_imports_is_reached(text: str, tmp_path: Path) -> None:
    root = written(tmp_path, TREE)
    (root / "README.md").write_text(f"```python\n{text}\n```\n")
    assert "voile.alone:never" not in names(root)


def test_a_name_in_a_string_stands_for_every_file_of_a_folder(tmp_path: Path) -> None:
    folder = {
        "cli.py": 'def main(name): return import_module(f"voile.doors.{name}")\n',
        "doors.py": "",
        "__init__.py": "",
    }
    root = written(tmp_path, folder)
    doors = root / "src" / "voile" / "doors"
    doors.mkdir()
    (root / "src" / "voile" / "doors.py").rename(doors / "__init__.py")
    (doors / "one.py").write_text(
        "def shown(): return _used()\ndef _used(): pass\ndef _gone(): 0\n"
    )
    assert names(root) == {"voile.doors.one:_gone"}


def test_lines_count_decorators(tmp_path: Path) -> None:
    tree = {"cli.py": "def main(): pass\n@cache\ndef gone():\n    return 1\n", "__init__.py": ""}
    assert [found.lines for found in find_unreached(written(tmp_path, tree))] == [3]


def test_a_planted_function_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("src", "docs", "examples"):
        skipped = shutil.ignore_patterns("__pycache__", "decisions", "*.svg", "*.png")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=skipped)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    assert main(["--root", str(tmp_path)]) == 0
    with (tmp_path / "src/voile/app/budgets.py").open("a") as file:
        file.write("\n\ndef nobody_calls_this() -> int:\n    return 1\n")
    assert main(["--root", str(tmp_path)]) == 1
    assert "2 voile.app.budgets:nobody_calls_this" in capsys.readouterr().out


def test_exceptions_have_a_reason() -> None:
    lines = EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line.startswith("  ")]
    assert len(patterns) == len(read_exceptions(EXCEPTIONS))
    assert all(line.partition("#")[2].strip() for line in patterns)


def test_an_exception_that_excepts_nothing_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written(tmp_path, {"cli.py": "def main(): pass\n", "__init__.py": ""})
    exceptions = tmp_path / "exceptions.toml"
    exceptions.write_text('exceptions = [\n  "voile.gone:*", # it is gone\n]\n')
    monkeypatch.setattr("tools.reachability.EXCEPTIONS", exceptions)
    assert main(["--root", str(root)]) == 1
    assert "voile.gone:* excepts nothing" in capsys.readouterr().out
    assert not any(is_excepted(found, ["voile.gone:*"]) for found in find_unreached(root))
