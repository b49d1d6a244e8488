"""Every public name shows an example, and every example in the source runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import io
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import voile

SOURCE = Path(voile.__path__[0])
PUBLIC = ("voile.privacy", "voile.attribution", "voile.release")
MODULES = ("voile.plots", "voile.privacy.calibration", "voile.privacy.events")
"""Modules that the tour of their package sends readers to."""
EXCEPTIONS: frozenset[str] = frozenset()
"""Public names that need no example. Say why beside each."""
Documented = ast.Module | ast.ClassDef | ast.FunctionDef


def names() -> list[str]:
    """Public classes and functions, each with the module that offers it."""
    packages = [
        found.name
        for top in PUBLIC
        for found in pkgutil.walk_packages(module(top).__path__, f"{top}.")
        if found.ispkg
    ]
    offered = [
        f"{home}:{name}"
        for home in ("voile", *PUBLIC, *packages, *MODULES)
        for name in public_in(module(home))
    ]
    return sorted(offered)


def public_in(home: ModuleType) -> list[str]:
    own = [name for name, value in vars(home).items() if is_own(home, name, value)]
    listed = getattr(home, "__all__", own)
    return [name for name in listed if is_documented(getattr(home, name))]


def is_documented(value: object) -> bool:
    """Classes and functions, also behind a cache; constants and aliases have no docstring."""
    return inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value))  # type: ignore[arg-type]


def is_own(home: ModuleType, name: str, value: object) -> bool:
    return not name.startswith("_") and getattr(value, "__module__", "") == home.__name__


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize("name", names())
def test_a_public_name_shows_an_example(name: str) -> None:
    home, _, public = name.partition(":")
    shown = ">>>" in (inspect.getdoc(getattr(module(home), public)) or "")
    assert shown != (name in EXCEPTIONS)


def files_with_examples() -> list[str]:
    """Files with a docstring that shows one, by the name of their module."""
    files = (file for file in SOURCE.rglob("*.py") if any(examples(file)))
    return sorted(".".join(file.relative_to(SOURCE.parent).with_suffix("").parts) for file in files)


def examples(file: Path) -> Iterator[Documented]:
    """Found in the source: a decorator can hide a function from `doctest`."""
    text = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if ">>>" in text else ():
        if isinstance(node, Documented) and ">>>" in (ast.get_docstring(node) or ""):
            yield node


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The working directory; modules that an example wrote there are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    yield
    loaded = {name: getattr(found, "__file__", None) for name, found in sys.modules.items()}
    for name in [name for name, file in loaded.items() if file and tmp_path in Path(file).parents]:
        del sys.modules[name]


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # shap's use of matplotlib
@pytest.mark.parametrize("name", files_with_examples())
def test_the_examples_of_a_file_run(name: str) -> None:
    """In an empty folder, each with the names of its module and no others."""
    home = module(name.removesuffix(".__init__"))
    for node in examples(Path(inspect.getfile(home))):
        assert not failures_of(node, home)


def failures_of(node: Documented, home: ModuleType) -> str:
    written = io.StringIO()
    label = f"{home.__name__}.{getattr(node, 'name', '')}"
    example = doctest.DocTestParser().get_doctest(
        ast.get_docstring(node) or "", dict(vars(home)), label, home.__file__, 0
    )
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    failed, tried = runner.run(example, out=written.write)
    assert tried
    return written.getvalue() if failed else ""
