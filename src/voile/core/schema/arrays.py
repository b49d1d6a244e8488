"""The forms in which data of one table travel, named once with their shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.float64]
"""Shape (n, d), one column per feature: numbers as they are, categories as index into the list."""

Encoded: TypeAlias = NDArray[np.float64]
"""Shape (n, columns): numbers scaled to [0, 1] by the bounds, categories one-hot."""

FeatureValues: TypeAlias = NDArray[np.float64]
"""Shape (n,): one column of `Rows`."""

RawColumn: TypeAlias = NDArray[Any]
"""Shape (n,): the values of one column as somebody else wrote them, of any dtype."""

Mask: TypeAlias = NDArray[np.bool_]
"""Shape (n,): which rows a statement is about."""


class ColumnTable(Protocol):
    """Raw data by column name: a dict of lists or 1-D arrays, a pandas DataFrame, ..."""

    def keys(self) -> Iterable[Any]: ...

    def __getitem__(self, name: str, /) -> Any: ...


def is_table(given: Any) -> TypeGuard[ColumnTable]:
    """Whether data come by column name. A pandas column has keys as well, and is no table."""
    return hasattr(given, "keys") and hasattr(given, "__getitem__") and not hasattr(given, "dtype")
