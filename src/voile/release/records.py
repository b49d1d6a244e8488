"""Protected records, read without ever raising about what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import Rows, Schema, is_table


@dataclass(frozen=True, eq=False)
class Records:
    """Rows inside the schema, and which of them are null records.

    A record in which nothing can be read is the null record of "zero-out": put it in the place of
    somebody who withdraws, and the number of records stays what it was.

    Args:
        rows: shape (n, d); the schema's defaults stand for null records.
        blank: shape (n,).
    """

    rows: Rows
    blank: NDArray[np.bool_]

    @classmethod
    def read(cls, given: Any, schema: Schema, what: str) -> Records:
        """Records whose number is public: there must be one at least. Those read before stay."""
        found = given if isinstance(given, cls) else cls.read_any(given, schema)
        if not len(found.rows):
            raise InvalidInput(f"{what} must have at least one record, found none")
        return found

    @classmethod
    def read_any(cls, given: Any, schema: Schema) -> Records:
        """From a table of raw values or an array of rows; only their public structure raises.

        None is a number like any other: where the number is protected, nothing may depend on it.
        """
        if is_table(given):
            return cls(schema.rows(given), schema.null_records(given))
        numbers = schema.numbers(given)
        return cls(schema.clamp(numbers), schema.null_records(numbers))

    def __len__(self) -> int:
        return len(self.rows)

    def distinct(self) -> tuple[Records, NDArray[np.float64]]:
        """Every record once, and how often it occurs."""
        marked = np.column_stack([self.rows, self.blank])
        once, counts = np.unique(marked, axis=0, return_counts=True)
        few = Records(np.ascontiguousarray(once[:, :-1]), once[:, -1] > 0)
        return few, counts.astype(np.float64)
