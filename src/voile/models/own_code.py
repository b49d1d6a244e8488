"""Which code is somebody's own, and what it refers to.

The standard library, installed distributions and voile are known by name. All other code may be
edited at any time under the same name: scripts, notebooks, modules in a folder, and packages that
are installed in place.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
import types
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any, Final

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_LIBRARY: Final = tuple(
    Path(sysconfig.get_path(name)).resolve()
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_MADE_BY_A_STATEMENT: Final = (0b11 << 8, 0b10 << 8)
"""Flags of a class: on the heap, and not immutable as those are that were written in C."""


class OwnCode:
    """What is somebody's own, asked once for each module."""

    def __init__(self) -> None:
        self._modules: dict[str, bool] = {}
        self._classes: dict[type, bool] = {}

    def has_module(self, name: object) -> bool:
        """Whether a module of this name is somebody's own; without a name it is."""
        if not isinstance(name, str) or not name:
            return True
        if name not in self._modules:
            self._modules[name] = not _is_known_by_name(name)
        return self._modules[name]

    def has_class(self, kind: type) -> bool:
        if kind not in self._classes:
            mask, made = _MADE_BY_A_STATEMENT
            is_statement = kind.__flags__ & mask == made
            self._classes[kind] = is_statement and self.has_module(kind.__module__)
        return self._classes[kind]

    def has_function(self, function: types.FunctionType) -> bool:
        return self.has_module(function.__globals__.get("__name__"))

    def is_compiled(self, value: Any) -> bool:
        """Whether it is of an extension module of one's own, which nobody can look into."""
        home = getattr(value, "__module__", None)
        if not isinstance(home, str) or not self.has_module(home):
            return False
        return _file_of(home).endswith(tuple(EXTENSION_SUFFIXES))

    def imported_in(self, function: types.FunctionType) -> Iterator[types.ModuleType]:
        """Modules of one's own that its code imports while it runs, as far as they are there."""
        package = function.__globals__.get("__package__") or ""
        for name, level, taken in _imports(function.__code__):
            full = resolve_name("." * level + name, package) if level else name
            for each in (full, *(f"{full}.{part}" for part in taken)):
                module = self._loaded(each)
                if module is not None:
                    yield module

    def _loaded(self, name: str) -> types.ModuleType | None:
        """The module, imported as its code would do it; None if it is a library's or not there."""
        top = name.partition(".")[0]
        if not (self.has_module(top) if top in sys.modules else _would_be_own(top)):
            return None
        try:
            module = import_module(name)
        except ImportError:  # the code may do without, or this is no module but an object in one
            return None
        return module if self.has_module(name) else None


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """It, and those of the functions, comprehensions and classes inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def names_in(code: types.CodeType) -> set[str]:
    """Whatever it names: globals, attributes, and texts that could name one (`getattr`)."""
    texts = {text for text in code.co_consts if isinstance(text, str) and text.isidentifier()}
    return texts.union(code.co_names)


def _imports(code: types.CodeType) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Name, level and what is taken from it, of each import statement."""
    for each in codes_in(code):
        if dis.opmap["IMPORT_NAME"] not in each.co_code[::2]:
            continue
        steps = [step for step in dis.get_instructions(each) if step.opname != "EXTENDED_ARG"]
        for number, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                level, taken = (steps[number - back].argval for back in (2, 1))
                yield step.argval, level, taken or ()


def _is_known_by_name(module: str) -> bool:
    top = module.partition(".")[0]
    if top in ("voile", "__main__"):
        return top == "voile"
    file = Path(_file_of(module))
    if file.is_absolute():
        return _is_library(file)
    above = module.rpartition(".")[0]  # made at run time, as libraries do with parts of theirs
    if above:
        return _is_known_by_name(above)
    return top in sys.stdlib_module_names or top.startswith("_cython_")


def _would_be_own(top: str) -> bool:
    spec = find_spec(top)
    if spec is None:
        return False
    place = spec.origin or next(iter(spec.submodule_search_locations or ()), "")
    return Path(place).is_absolute() and not _is_library(Path(place))


def _file_of(module: str) -> str:
    found = sys.modules.get(module)
    folders = list(getattr(found, "__path__", ()))  # of a package without a file of its own
    return str(getattr(found, "__file__", None) or next(iter(folders), ""))


def _is_library(file: Path) -> bool:
    place = file.resolve()
    return not _INSTALLED.isdisjoint(place.parts) or any(map(place.is_relative_to, _LIBRARY))
