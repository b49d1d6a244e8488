"""Global arrays, by name: parameters that a federation trains, in float32, or whole numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput

Array: TypeAlias = NDArray[np.float32] | NDArray[np.int64]
"""Parameters in float32, or whole numbers in int64, of which sums are exact."""
Arrays: TypeAlias = Mapping[str, Array]
"""Parameters by name; shapes and names stay the same from the first round to the last."""
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]


_KINDS: Final = (np.dtype(np.float32), np.dtype(np.int64))


def shapes_of(arrays: Arrays) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


def checked(arrays: Any, what: str) -> dict[str, Array]:
    """Read-only copies in the order of names, if these are global arrays at all."""
    if not isinstance(arrays, Mapping):
        raise InvalidInput(f"{what} must be a mapping of names to arrays, found {type(arrays)}")
    found: dict[str, Array] = {}
    for name in sorted(arrays, key=str):
        array = arrays[name]
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            raise InvalidInput(f"{what} must map names to numpy arrays, found {name!r:.60}")
        if array.dtype not in _KINDS:
            raise InvalidInput(f"{what}: {name!r} must be float32 or int64, found {array.dtype}")
        if not np.isfinite(array).all():
            raise InvalidInput(f"{what}: {name!r} holds values that are not finite")
        found[name] = array.copy()
        found[name].flags.writeable = False
    return found


def digest_of_arrays(arrays: Arrays) -> str:
    """SHA-256 (hex) over names, shapes and bits; digests are logged, so this form never changes."""
    sha = hashlib.sha256(b"voile arrays 1\n")
    for name in sorted(arrays):
        whole = arrays[name].dtype == np.int64
        array = np.ascontiguousarray(arrays[name], dtype="<i8" if whole else "<f4")
        shape = " ".join(map(str, array.shape))
        label = f"{len(name.encode())} {name} {shape}{' whole' * whole}\n"
        sha.update(label.encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
