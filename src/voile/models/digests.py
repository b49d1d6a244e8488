"""A content digest of almost anything that predicts, without pickling it.

Walks the object and hashes types, settings, arrays, code and what the code refers to. Equal content
gives equal digests in every process; anything that cannot be walked is refused rather than guessed.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np

from voile.core.errors import InvalidInput

_FORM = b"voile model 1\n"


def digest_of(value: object) -> str:
    """SHA-256 (hex) of everything `value` consists of."""
    walk = _DigestWalk()
    walk.visit(value)
    return walk.hash.hexdigest()


class _DigestWalk:
    def __init__(self) -> None:
        self.hash = hashlib.sha256(_FORM)
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []  # ids stay unique only while the objects live

    def visit(self, value: Any) -> None:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            self._write(type(value).__name__, repr(value).encode())
        elif isinstance(value, np.generic):
            self.visit(np.asarray(value))
        elif isinstance(value, types.ModuleType):
            self._write("module", value.__name__.encode())
        elif isinstance(value, type | types.BuiltinFunctionType | np.ufunc):
            self._write("name", _name(value).encode())
        elif id(value) in self._seen:
            self._write("again", str(self._seen[id(value)]).encode())
        else:
            self._seen[id(value)] = len(self._seen)
            self._kept.append(value)
            self._visit_compound(value)

    def _visit_compound(self, value: Any) -> None:
        for kind, visit in self._kinds():
            if isinstance(value, kind):
                visit(value)
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
            (list | tuple, lambda v: self._sequence(type(v).__name__, v)),
            (types.FunctionType, self._function),
            (types.MethodType, lambda v: self._sequence("method", [v.__func__, v.__self__])),
            (functools.partial, lambda v: self._sequence("partial", [v.func, v.args, v.keywords])),
            (types.CodeType, self._code),
            (Enum, lambda v: self._write("enum", f"{_name(type(v))}.{v.name}".encode())),
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
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        self._sequence("closure", [*cells, value.__defaults__, value.__kwdefaults__])
        known = value.__globals__
        names = [name for name in value.__code__.co_names if name in known]
        self._mapping({name: known[name] for name in names})

    def _code(self, code: types.CodeType) -> None:
        self._write("code", code.co_code)
        self._sequence("constants", code.co_consts)
        self._sequence("names", code.co_names)

    def _object(self, value: Any) -> None:
        """As the parts from which `copy` would make it again; what cannot be copied is refused."""
        try:
            parts = value.__reduce_ex__(2)
        except Exception as error:
            raise InvalidInput(
                f"a {_name(type(value))} cannot be looked into, so the model has no digest of its "
                "own; pass `digest=` to `wrap` (for example the SHA-256 of the file it came from)"
            ) from error
        self._write("object", _name(type(value)).encode())
        if isinstance(parts, str):  # known by its name alone
            self.visit(parts)
            return
        for part in parts:
            self.visit(list(part) if isinstance(part, Iterator) else part)


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}"


def _is_tensor(value: object) -> bool:
    kind = type(value)
    return kind.__module__.startswith("torch") and hasattr(value, "detach")
