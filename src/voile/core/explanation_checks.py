"""What an `Explanation` accepts: shapes, names and selections, each checked once, here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voile.core.errors import InvalidInput

Attributions: TypeAlias = NDArray[np.float64]
"""Shape (rows, features, outputs): what each feature contributed to each output of each row."""
BaseValues: TypeAlias = NDArray[np.float64]
"""Shape (rows, outputs): the output that attributions are measured from."""
RowData: TypeAlias = NDArray[np.float64] | NDArray[np.str_]
"""Shape (rows, features): the explained rows, as numbers or as text."""
Selection: TypeAlias = int | str | slice | Sequence[int] | Sequence[str] | NDArray[Any]
"""Some rows, features or outputs: by position, by name (not rows), by slice or by mask."""


def numbers(name: str, given: ArrayLike) -> NDArray[np.float64]:
    """Finite numbers; the very array if they are such already."""
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "fiub":
            raise TypeError
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be an array of numbers, found {_kind(given)}") from None
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} must be finite, found NaN or infinity")
    return array


def _kind(given: object) -> str:
    dtype = getattr(given, "dtype", None)
    return f"an array of {dtype}" if dtype is not None else type(given).__name__


def base_values_for(given: ArrayLike, rows: int, outputs: int) -> BaseValues:
    base = numbers("base_values", given)
    if base.shape in ((), (outputs,), (1, outputs)):
        return np.full((rows, outputs), base)
    if base.shape == (rows, outputs):
        return base
    raise InvalidInput(
        f"base_values must have shape (rows, outputs) = {(rows, outputs)}, or be one number or "
        f"one per output, found {base.shape}"
    )


def row_data_for(given: ArrayLike, shape: tuple[int, int]) -> RowData:
    try:
        data = np.asarray(given)
    except ValueError:
        raise InvalidInput("data must have as many entries in every row") from None
    if data.dtype.kind not in "fiubU":
        raise InvalidInput(f"data must be numbers or text, found {_kind(data)}")
    if data.shape != shape:
        raise InvalidInput(f"data must have shape (rows, features) = {shape}, found {data.shape}")
    if data.dtype.kind == "U":
        # As wide as these texts need: the width must not tell of longer ones that are not here.
        return np.array(data.tolist(), dtype=np.str_)
    return data.astype(np.float64)


def errors_for(field: str, given: ArrayLike, shape: tuple[int, ...]) -> Attributions:
    errors = numbers(field, given)
    if errors.ndim == 2 and shape[2] == 1:
        errors = errors[:, :, np.newaxis]
    if errors.shape != shape:
        raise InvalidInput(f"{field} must have shape {shape}, found {errors.shape}")
    if (errors < 0).any():
        raise InvalidInput(f"{field} must not be negative")
    return errors


def distinct_names(field: str, given: Sequence[str], count: int) -> tuple[str, ...]:
    names = all_of(str, field, given)
    if len(names) != count:
        raise InvalidInput(f"{field} must hold {count} names, found {len(names)}")
    _check_names(field, names)
    return names


@lru_cache(maxsize=256)
def _check_names(field: str, names: tuple[str, ...]) -> None:
    """A service explains the same few features again and again."""
    repeated = _repeated(names)
    if repeated:
        raise InvalidInput(f"{field} must all differ, found more than once: {repeated}")
    if not all(names):
        raise InvalidInput(f"{field} must not hold an empty name")


def _repeated(names: Iterable[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def all_of(kind: type[Any], field: str, given: Sequence[Any]) -> tuple[Any, ...]:
    items = tuple(given) if isinstance(given, Iterable) else (None,)
    alike = set(map(type, items)) <= {kind} and not isinstance(given, str)
    if not alike and (isinstance(given, str) or not all(isinstance(e, kind) for e in items)):
        raise InvalidInput(f"{field} must be a sequence of {kind.__name__}, found {given!r}")
    return items


def positions(
    axis: str, selection: Selection, size: int, names: tuple[str, ...]
) -> NDArray[np.intp]:
    """Turn any selection into positions along an axis."""
    index = selection if isinstance(selection, slice) else _numbered(axis, selection, names)
    try:
        chosen: NDArray[np.intp] = np.arange(size)[index]
    except (IndexError, TypeError, ValueError) as error:
        raise InvalidInput(f"no such {axis}: {error}") from None
    if chosen.ndim != 1 or chosen.size == 0:
        raise InvalidInput(f"at least one {axis} must be chosen, in a plain list, found {index}")
    return chosen


def _numbered(axis: str, selection: Any, names: tuple[str, ...]) -> list[Any]:
    items = selection.tolist() if isinstance(selection, np.ndarray) else selection
    if isinstance(items, str) or not isinstance(items, Iterable):
        items = [items]
    return [_named(axis, item, names) for item in items]


def _named(axis: str, item: Any, names: tuple[str, ...]) -> Any:
    if not isinstance(item, str):
        return item
    if item not in names:
        known = shortened(names) if names else f"a {axis} has no name"
        raise InvalidInput(f"no {axis} is called {item!r}; known: {known}")
    return names.index(item)


def group_members(
    groups: Mapping[str, Sequence[str]], features: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    members = {name: all_of(str, f"group {name!r}", group) for name, group in groups.items()}
    listed = [feature for group in members.values() for feature in group]
    unknown = sorted(set(listed) - set(features))
    repeated = _repeated(listed)
    if unknown:
        raise InvalidInput(f"groups must list features of the explanation, unknown: {unknown}")
    if repeated:
        raise InvalidInput(f"a feature belongs to one group at most, found twice: {repeated}")
    if not members or not all(members.values()):
        raise InvalidInput("each group must list at least one feature, and there must be a group")
    return members


def shap_arrays(explanation: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Values (rows, features, outputs), base values and data of a `shap.Explanation`.

    shap drops the axes of a single row and of a single output, so two axes may mean (rows,
    features) or (features, outputs): the data, or else the names, tell which.
    """
    values, base = np.asarray(explanation.values), np.asarray(explanation.base_values)
    data = None if explanation.data is None else np.asarray(explanation.data)
    if 1 <= values.ndim <= 2 and _is_one_row(values, data, explanation):
        values, base = values[np.newaxis], base[np.newaxis]
        data = None if data is None else data[np.newaxis]
    if values.ndim == 2:
        values = values[:, :, np.newaxis]
        base = base[:, np.newaxis] if base.ndim == 1 else base
    if values.ndim != 3:
        raise InvalidInput(f"values must have one to three axes, found {values.ndim}")
    return values, base, data


def _is_one_row(values: NDArray[Any], data: NDArray[Any] | None, explanation: Any) -> bool:
    if values.ndim == 1 or data is not None:
        return values.ndim == 1 or (data is not None and data.ndim == 1)
    features, outputs = values.shape
    if features == outputs:  # shap names a single output by a bare text, several by a list
        names = explanation.output_names
        return names is not None and not isinstance(names, str) and len(names) == outputs > 1
    return explanation.feature_names is not None and len(explanation.feature_names) == features


def or_numbered(names: Any, stem: str, count: int) -> tuple[str, ...]:
    """shap leaves names out, or gives one output's name as a bare text."""
    if names is None:
        return (stem,) if count == 1 else tuple(f"{stem} {i}" for i in range(count))
    return (names,) if isinstance(names, str) else tuple(str(name) for name in names)


def same_bits(mine: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Bit equality; two texts are equal whatever width their arrays were given."""
    if mine.dtype.kind == theirs.dtype.kind == "U":
        return bool(np.array_equal(mine, theirs))
    return mine.dtype == theirs.dtype and mine.tobytes() == theirs.tobytes()


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shortened(names: Sequence[str], limit: int = 6) -> str:
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
