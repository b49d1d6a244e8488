"""Digests and canonical bytes of the things records speak about: arrays, guarantees, explanations.

They fix every bit: two arrays have one digest exactly if type, shape and all bits are equal, on any
machine. A digest does not hide; of anything protected, only a commitment may be published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from voile.core.errors import InvalidInput
from voile.core.once_each import once_each
from voile.core.row_note import RowNote, note_to_plain
from voile.records.audit_log.canonical import Canonical, encode

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from voile.core.explanation import Explanation
    from voile.core.guarantee import Guarantee

_ARRAY: Final = b"voile array v1\n"
_PLAIN_KINDS: Final = "biuf"
_ROWS_AT_ONCE: Final = 8192
_IN_ROWS: Final = ("values", "base_values", "standard_errors", "half_widths", "data")
"""In the order in which the bytes of a row follow each other."""


def array_digest(array: NDArray[Any]) -> bytes:
    """SHA-256 of element type, shape and little-endian bytes in row order."""
    import numpy as np

    if array.dtype.kind not in _PLAIN_KINDS or array.dtype.itemsize > 8:
        raise InvalidInput(f"a digest is defined for plain numbers, found {array.dtype}")
    little = array
    if not (array.dtype.str[0] in "<|" and array.flags.c_contiguous):
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    # Single bytes have no order: numpy writes "|" for them.
    head = f"{little.dtype.str}\n{','.join(map(str, array.shape))}\n".encode()
    return hashlib.sha256(_ARRAY + head + little.tobytes()).digest()


def guarantees_digest(guarantees: Sequence[Guarantee]) -> bytes:
    """SHA-256 of the canonical bytes of guarantees; they are public: nothing has to be hidden."""
    return hashlib.sha256(encode([_guarantee(item) for item in guarantees])).digest()


def explanation_bytes(explanation: Explanation) -> bytes:
    """Canonical bytes of an explanation: what an answer's commitment is made to."""
    # Put together from what is written once for a service: the same as `encode` of all of it.
    parts = {
        "format": '"voile explanation v1"',
        "feature_names": _names_text(explanation.feature_names),
        "output_names": _names_text(explanation.output_names),
        "guarantees": f"[{','.join(map(_guarantee_text, explanation.guarantees))}]",
        "notes": encode([note_to_plain(note) for note in explanation.notes]).decode(),
    }
    for name, array in explanation.arrays.items():
        parts[name] = f'"{_cells_digest(array).hex()}"'
    items = [f'"{name}":{parts[name]}' for name in sorted(parts)]
    return f"{{{','.join(items)}}}".encode()


@once_each
def _names_text(names: tuple[str, ...]) -> str:
    return encode(list(names)).decode()


@once_each
def _guarantee_text(guarantee: Guarantee) -> str:
    return encode(_guarantee(guarantee)).decode()


def common_digest(explanation: Explanation) -> bytes:
    """SHA-256 of everything that the rows of an explanation have in common."""
    common: Canonical = {
        "format": "voile explanation row v1",
        "arrays": {name: array.dtype.kind for name, array in _in_rows(explanation).items()},
        "feature_names": list(explanation.feature_names),
        "output_names": list(explanation.output_names),
        "guarantees": [_guarantee(item) for item in explanation.guarantees],
        "notes": [str(note) for note in explanation.notes if isinstance(note, str)],
    }
    return hashlib.sha256(encode(common)).digest()


def explanation_rows(explanation: Explanation) -> Iterator[bytes]:
    """Canonical bytes of each row by itself: what the commitments of `row_receipt` are made to.

    A digest of everything the rows have in common, then the row's own bits and notes. So one row of
    a saved explanation is enough to give the same bytes again:
    `next(explanation_rows(explanation[3]))`.
    """
    import numpy as np

    parts, head, count = _in_rows(explanation), common_digest(explanation), len(explanation)
    numbers = [each.reshape(count, -1) for each in parts.values() if each.dtype.kind == "f"]
    has_texts = "data" in parts and parts["data"].dtype.kind == "U"
    texts = explanation.data if has_texts else None
    noted = _noted(explanation)
    width = 8 * sum(part.shape[1] for part in numbers)
    for start in range(0, count, _ROWS_AT_ONCE):
        some = slice(start, min(start + _ROWS_AT_ONCE, count))
        bits = np.hstack([part[some] for part in numbers]).astype("<f8", copy=False).tobytes()
        for row in range(some.stop - start):
            words = b"" if texts is None else encode([str(cell) for cell in texts[start + row]])
            own = noted.get(start + row, b"")
            yield head + bits[row * width : (row + 1) * width] + words + own


def _in_rows(explanation: Explanation) -> dict[str, NDArray[Any]]:
    arrays = explanation.arrays
    return {name: arrays[name] for name in _IN_ROWS if name in arrays}


def _noted(explanation: Explanation) -> dict[int, bytes]:
    """What is said about single rows, for those about which anything is."""
    texts: dict[int, list[Canonical]] = {}
    for note in (each for each in explanation.notes if isinstance(each, RowNote)):
        for row in note.rows:
            texts.setdefault(row, []).append(note.text)
    return {row: encode(said) for row, said in texts.items()}


def published_round_hash(
    weights: ArrayLike,
    attributions: ArrayLike,
    divergences: Mapping[str, float],
    trust: Mapping[str, float],
    previous: bytes = b"",
) -> bytes:
    """H_t = SHA-256(w || S || {NSDS_i} || {T_i} || H_{t-1}) of FedXChain, section III-F.

    The paper leaves the bytes open; here: little-endian float64, clients in order of their names.
    Plain concatenation is part of what was published; array bounds are therefore not committed to.
    """
    parts = [_doubles(weights), _doubles(attributions)]
    parts += [
        _doubles([scores[name] for name in sorted(scores)]) for scores in (divergences, trust)
    ]
    return hashlib.sha256(b"".join(parts) + previous).digest()


def _doubles(values: ArrayLike) -> bytes:
    import numpy as np

    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def _guarantee(guarantee: Guarantee) -> Canonical:
    return {name: _plain(value) for name, value in guarantee.to_dict().items()}


def _plain(value: Any) -> Canonical:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value)


def _cells_digest(data: NDArray[Any]) -> bytes:
    """Explained rows are numbers or text; of text, every cell is written out."""
    if data.dtype.kind in _PLAIN_KINDS:
        return array_digest(data)
    cells: list[Canonical] = [str(cell) for cell in data.ravel().tolist()]
    shape: list[Canonical] = [int(length) for length in data.shape]
    return hashlib.sha256(_ARRAY + encode([shape, cells])).digest()
