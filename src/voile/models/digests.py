"""A content digest of almost anything that predicts, without pickling it.

Walks the object and hashes types, settings, arrays, code and what the code refers to. Equal content
gives equal digests in every process; anything that cannot be walked is refused rather than guessed.

Classes, modules and compiled functions of libraries are known by name; voile's own classes by one
that never changes (`voile.core.digest_names`). Somebody's own classes and modules are looked into
(`OwnCode`): all of a class, and of a module what any code of one's own that was
walked names. This is written behind all the rest, and only where there is any, so a model that is
made of libraries' parts and plain functions has the digest it always had.

Not seen is what code finds out while it runs: files that it reads, modules that it imports and
attributes that it asks for by a text it puts together.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import random
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from voile.core.digest_names import frozen_name
from voile.core.errors import InvalidInput

_FORM: Final = b"voile model 1\n"
_SCALARS: Final = frozenset({type(None), bool, int, float, complex, str, bytes})
_SAYS_NOTHING: Final = (
    *(types.ModuleType, type, type(None)),
    *(np.random.RandomState, np.random.Generator, random.Random),
)
"""What compiled functions are bound to beside their contents: whence they come, or chance."""
_MACHINERY: Final = frozenset(
    {
        *("__dict__", "__weakref__", "__module__", "__doc__", "_abc_impl", "__abstractmethods__"),
        *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
        *("__firstlineno__", "__static_attributes__", "__signature__"),
        *("__pydantic_core_schema__", "__pydantic_validator__", "__pydantic_serializer__"),
    }
)
"""What Python and pydantic derive from a class; another line number makes no other model."""


def digest_of(value: object) -> str:
    """SHA-256 (hex) of everything `value` consists of."""
    walk = _DigestWalk()
    try:
        walk.visit(value)
        walk.visit_own_code()
    except RecursionError:
        _refuse(value, "refers to things that refer to others too many times over")
    return walk.hash.hexdigest()


class _DigestWalk:
    def __init__(self) -> None:
        self.hash = hashlib.sha256(_FORM)
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []  # ids stay unique only while the objects live
        self._own = OwnCode()
        self._waiting: deque[Any] = deque()
        self._awaited: set[int] = set()
        self._modules: dict[str, types.ModuleType] = {}
        self._names: set[str] = set()
        self._behind = False

    def visit(self, value: Any) -> None:
        kind = type(value)
        if kind in _SCALARS or isinstance(value, bool | int | float | complex | str | bytes):
            self._write(kind.__name__, repr(value).encode())
            if kind not in _SCALARS:
                self._look_into_later(value)
        elif isinstance(value, np.generic):
            self.visit(np.asarray(value))
        elif isinstance(value, types.ModuleType):
            self._write("module", value.__name__.encode())
            if self._own.has_module(value.__name__):
                self._modules.setdefault(value.__name__, value)
        elif isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
            self._named(value)
        elif id(value) in self._seen:
            self._write("again", str(self._seen[id(value)]).encode())
        else:
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            self._visit_compound(value)

    def _named(self, value: Any) -> None:
        """What a library calls by a name; of the rest, what is behind the name."""
        if self._own.is_compiled(value) or (
            isinstance(value, np.ufunc) and all(kinds.strip("O->") == "" for kinds in value.types)
        ):
            _refuse(value, "cannot be looked into")
        self._write("name", _name(value).encode())
        if isinstance(value, type):
            if self._own.has_class(value):
                self._wait(value)
        elif not isinstance(of := getattr(value, "__self__", None), _SAYS_NOTHING):
            self.visit(of)  # the table of `table.get`

    def _visit_compound(self, value: Any) -> None:
        for kind, visit in self._kinds():
            if isinstance(value, kind):
                visit(value)
                if kind is not types.FunctionType:
                    self._look_into_later(value)
                return
        if _is_tensor(value):
            self._array(value.detach().cpu().numpy())
            return
        self._object(value)

    def _kinds(self) -> list[tuple[Any, Callable[[Any], None]]]:
        return [
            (np.ndarray, self._array),
            (Mapping, self._mapping),
            (set | frozenset, lambda v: self._sequence("set", sorted(v, key=repr))),
            (list | tuple, lambda v: self._sequence(_short_name(type(v)), v)),
            (types.FunctionType, self._function),
            (types.MethodType, lambda v: self._sequence("method", [v.__func__, v.__self__])),
            (functools.partial, lambda v: self._sequence("partial", [v.func, v.args, v.keywords])),
            (types.CodeType, self._code),
            (Enum, lambda v: self._write("enum", f"{_name(type(v))}.{v.name}".encode())),
            (property, lambda v: self._sequence("property", [v.fget, v.fset, v.fdel])),
            (staticmethod | classmethod, lambda v: self._sequence("of class", [v.__func__])),
            (functools.cached_property, lambda v: self._sequence("cached", [v.func])),
            (np.random.RandomState | np.random.Generator, lambda _: self._write("random", b"")),
        ]

    def _write(self, kind: str, content: bytes) -> None:
        # Lengths in front: "ab" + "c" must not equal "a" + "bc".
        head = f"{kind}:{len(content)}:".encode()
        self.hash.update(head + content)

    def _sequence(self, kind: str, items: Any) -> None:
        self._write(kind, str(len(items)).encode())
        for item in items:
            self.visit(item)

    def _mapping(self, value: Mapping[Any, Any]) -> None:
        self._write("mapping", str(len(value)).encode())
        for key in sorted(value, key=repr):
            self.visit(key)
            self.visit(value[key])

    def _array(self, array: Any) -> None:
        if array.dtype.names:  # padding between fields holds whatever was in memory before
            self._write("record", repr(array.dtype.names).encode())
            for name in array.dtype.names:
                self._array(np.ascontiguousarray(array[name]))
        elif array.dtype.kind == "O":
            self._sequence("objects", array.ravel().tolist())
        else:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            self._write(f"array {little.dtype.str} {array.shape}", little.tobytes())

    def _function(self, value: types.FunctionType) -> None:
        self._write("function", _name(value).encode())
        self._code(value.__code__)
        cells = [_content(cell) for cell in value.__closure__ or ()]
        self._sequence("closure", [*cells, value.__defaults__, value.__kwdefaults__])
        own = self._own.has_function(value)
        if own or not self._behind:  # globals of libraries are caches, too
            known = value.__globals__
            names = [name for name in value.__code__.co_names if name in known]
            self._mapping({name: known[name] for name in names})
        if own:
            self._wait(value)

    def _code(self, code: types.CodeType) -> None:
        self._write("code", code.co_code)
        self._sequence("constants", code.co_consts)
        self._sequence("names", code.co_names)

    def _object(self, value: Any) -> None:
        """As the parts from which `copy` would make it again; what cannot be copied is refused."""
        kind = type(value)
        parts = _parts(value)
        self._write("object", _name(kind).encode())
        if self._own.has_class(kind):
            self._wait(kind)
        if isinstance(parts, str):  # known by its name alone
            self._alias(value, parts)
            return
        for part in parts:
            self.visit(list(part) if isinstance(part, Iterator) else part)

    def _alias(self, value: Any, name: str) -> None:
        if self._own.is_compiled(value):
            _refuse(value, "cannot be looked into")
        self.visit(name)
        wrapped = getattr(value, "__wrapped__", None)  # `functools.lru_cache`
        if isinstance(wrapped, types.FunctionType) and self._own.has_function(wrapped):
            self.visit(wrapped)
        if self._own.has_class(type(value)):
            self.visit(getattr(value, "__dict__", None))

    # --- code of one's own, behind all the rest ---------------------------------------------------

    def visit_own_code(self) -> None:
        """What is behind the names of own classes and modules, until nothing new is named."""
        self._behind = True
        done: set[tuple[str, str]] = set()
        while True:
            while self._waiting:
                value = self._waiting.popleft()
                if isinstance(value, type):
                    self._class(value)
                elif isinstance(value, types.FunctionType):
                    self._behind_function(value)
                else:
                    self._object(value)
            named = {
                (name, attribute)
                for name, module in self._modules.items()
                for attribute in self._names.intersection(vars(module))
            }
            if named == done:
                return
            for name, attribute in sorted(named - done):
                self._write("attribute", f"{name}.{attribute}".encode())
                self.visit(vars(self._modules[name])[attribute])
            done = named

    def _wait(self, value: Any) -> None:
        if id(value) not in self._awaited:
            self._awaited.add(id(value))
            self._kept.append(value)
            self._waiting.append(value)

    def _look_into_later(self, value: Any) -> None:
        """A number, text, list or table of an own class is more than its items."""
        if self._own.has_class(type(value)):
            self._wait(value)

    def _class(self, kind: type) -> None:
        self._write("class", _name(kind).encode())
        self._sequence("bases", [*kind.__bases__, type(kind)])
        own = {name: value for name, value in vars(kind).items() if name not in _MACHINERY}
        self._mapping(own)

    def _behind_function(self, function: types.FunctionType) -> None:
        """What its inner functions refer to, what hangs on it, what it imports while it runs."""
        inner: set[str] = set()
        for code in codes_in(function.__code__):
            self._names |= names_in(code)
            inner.update(code.co_names)
        known = function.__globals__
        more = {name: known[name] for name in inner.intersection(known)}
        for name in function.__code__.co_names:
            more.pop(name, None)
        hung = {name: v for name, v in vars(function).items() if name != "__wrapped__"}
        imported = {each.__name__: each for each in self._own.imported_in(function)}
        for found in (more, hung, imported):
            if found:
                self._write("behind", _name(function).encode())
                self._mapping(found)


def _parts(value: Any) -> Any:
    try:
        return value.__reduce_ex__(2)
    except Exception as error:
        reduce: Any = copyreg.dispatch_table.get(type(value))
        if reduce is None:
            _refuse(value, "cannot be looked into", error)
        made_by, *parts = reduce(value)
        return [_name(made_by), *parts]


def _refuse(value: object, why: str, error: Exception | None = None) -> NoReturn:
    raise InvalidInput(
        f"a {_name(type(value))} {why}, so the model has no digest of its own; pass `digest=` to "
        "`wrap` (for example the SHA-256 of the file it came from)"
    ) from error


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is in it yet
        return _name(types.CellType)


def _name(value: Any) -> str:
    """Of a class of voile the name it was given for good; of all else, where it lies."""
    frozen = frozen_name(value)
    if frozen is not None:
        return frozen
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}"


def _short_name(kind: type) -> str:
    frozen = frozen_name(kind)
    return kind.__name__ if frozen is None else frozen.rpartition(".")[2]


def _is_tensor(value: object) -> bool:
    kind = type(value)
    return kind.__module__.startswith("torch") and hasattr(value, "detach")


# --- Which code is somebody's own, and what it refers to ------------------------------------------
# The standard library, installed distributions and voile are known by name. All other code may be
# edited at any time under the same name: scripts, notebooks, modules in a folder, and packages
# that are installed in place.


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
