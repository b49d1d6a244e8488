"""Protected records: read, and taken through any explainer, without ever telling what they hold.

An explainer may raise, warn or give NaN because of what a row holds. Somebody who waits for the
release would learn it. So everything public about the explainer is found out beforehand from public
rows (which players and outputs there are, whether the base value is one constant), and a protected
row for which anything goes wrong is explained by zeros.

Guarantees
    1. Errors that depend on public facts are raised when `PerRow` is built. `vectors` raises only
       about the structure of a table: a missing column, a wrong width.
    2. What a row becomes depends on no other row: it is explained alone, so a model which mixes the
       rows of a batch has no other protected row to mix it with.
    3. Whatever the rows hold, `vectors` gives finite numbers of one shape, without a warning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_checks import Attributions, BaseValues, numbers
from voile.core.schema import Rows, Schema, is_table
from voile.release.origin import Explainer
from voile.release.silence import call_suppressed, silenced


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
        return cls(*schema.clamp_records(schema.numbers(given)))

    def __len__(self) -> int:
        return len(self.rows)

    def distinct(self) -> tuple[Records, NDArray[np.float64]]:
        """Every record once, and how often it occurs."""
        marked = np.column_stack([self.rows, self.blank])
        once, counts = np.unique(marked, axis=0, return_counts=True)
        few = Records(np.ascontiguousarray(once[:, :-1]), once[:, -1] > 0)
        return few, counts.astype(np.float64)


# --- Protected rows through any explainer: each by itself, without an error about any -------------


EXPLAINER_IS_STATELESS: Final = "the explainer remembers nothing from one explained row to the next"
NO_BASE = "the base value depends on the explained row and is left out (0)"


@dataclass(frozen=True, eq=False)
class PerRow:
    """An explainer for protected rows.

    Args:
        explainer: any of `voile.attribution`, or anything of that form.
        schema: what rows look like; they are clamped to it.
        known: the explanation of the schema's null row, which is public.
        base: the base value of public rows, shape (outputs,); zeros if they do not agree on it.
        notes: what the explainer says about its explanations, and what is missing from ours.
    """

    explainer: Explainer
    schema: Schema
    known: Explanation = field(init=False, repr=False)
    base: BaseValues = field(init=False, repr=False)
    notes: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise InvalidInput(
                "protected rows are clamped to a public schema, found "
                f"{type(self.schema).__name__}; see voile.core.schema"
            )
        known = self.explainer(self.schema.null_row[np.newaxis].copy())
        base = known.base_values[0]
        constant = self._is_base_elsewhere(base)
        object.__setattr__(self, "known", known)
        # Never that of a protected row: whatever the explainer does, it may be published.
        object.__setattr__(self, "base", base if constant else np.zeros_like(base))
        # What is noted about the null row is about nobody.
        said = tuple(note for note in known.notes if isinstance(note, str))
        object.__setattr__(self, "notes", said if constant else (*said, NO_BASE))

    def _is_base_elsewhere(self, base: BaseValues) -> bool:
        """Whether another public row has the same base value."""
        try:
            other = self.explainer(other_row(self.schema)[np.newaxis]).base_values[0]
        except InvalidInput:  # the model cannot answer for a row that nobody may ever have
            return False
        return np.array_equal(base, other)

    @property
    def players(self) -> int:
        return self.known.shape[1]

    @property
    def outputs(self) -> int:
        return self.known.shape[2]

    def vectors(self, given: Any) -> Attributions:
        """Attributions of shape (rows, players, outputs); zeros for null records."""
        records = Records.read(given, self.schema, "the rows to explain")
        found = np.zeros((len(records), *self.known.values.shape[1:]))
        with silenced():
            for place in np.flatnonzero(~records.blank):
                self._explain_into(found[place], records.rows[place])
        return found

    def _explain_into(self, found: Attributions, row: Rows) -> None:
        """Leaves zeros if anything goes wrong."""
        values = call_suppressed(lambda: self._explained(row))
        if values is not None and values.shape == (1, *found.shape):
            np.copyto(found, values[0], where=np.isfinite(values[0]))

    def _explained(self, row: Rows) -> Attributions:
        return self._alone(row[np.newaxis].copy())

    @cached_property
    def _alone(self) -> Callable[[Rows], Attributions]:
        """Attributions of one row inside the schema; raises where a call of the explainer would."""
        quick = getattr(self.explainer, "values_within", None)
        values: Callable[[Rows], Attributions] | None = quick and quick(self.schema)
        if values is not None:
            return lambda row: numbers("values", values(row))
        return lambda row: np.asarray(self.explainer(row).values, dtype=np.float64)


def other_row(schema: Schema) -> Rows:
    """A public row that differs from the null row in every feature that can."""
    null = schema.null_row[np.newaxis]
    above, below = schema.clamp(null + 1), schema.clamp(null - 1)
    other: Rows = np.where(above != null, above, below)[0]
    return other
