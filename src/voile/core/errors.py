"""Everything that voile raises on purpose.

    VoileError
    ├── InvalidInput              what was handed in cannot be used (also a ValueError)
    │   ├── SchemaError           a schema file is wrong; knows file, line and field
    │   ├── UnreadableFile        a saved file is truncated, damaged, foreign or too new
    │   ├── DuplicateRecord       a record with this key is stored already
    │   └── MissingRecord         there is no record with this key to replace
    ├── Refused                   sound input, but answering would break a promise
    │   └── BudgetExceeded        the privacy budget does not cover it
    ├── VerificationFailed        a proof, signature or check did not hold
    ├── StorageFault              the database or the disk failed; nothing of the command was kept
    │   ├── StorageBusy           another program holds the database
    │   ├── StorageReadOnly       the place cannot be written to
    │   ├── StorageFull           no room left
    │   ├── ForeignDatabase       the database belongs to another program
    │   ├── NewerDatabase         the database was written by a newer voile
    │   └── OutcomeUnknown        the connection broke while committing: it may or may not be kept
    └── MissingDependency         an optional package is not installed (also an ImportError)

A message says what was expected, what was found, and what to do next. Messages about protected rows
never depend on their values: those are clamped to the schema and do not raise at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class VoileError(Exception):
    """Base of everything that voile raises on purpose. Any other exception is a bug.

    >>> issubclass(BudgetExceeded, VoileError), issubclass(InvalidInput, ValueError)
    (True, True)
    """

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Python would call a subclass with its message alone, and fail, in a pool of processes."""
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[VoileError], args: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


class InvalidInput(VoileError, ValueError):
    """What was handed in cannot be used."""


class SchemaError(InvalidInput):
    """A schema is wrong: says where (file and line, where they are known) and in which field.

    Args:
        more: what is wrong with other fields of it, each on a line of its own.
    """

    def __init__(
        self,
        problem: str,
        *,
        field: str,
        line: int | None = None,
        file: Path | None = None,
        more: tuple[SchemaError, ...] = (),
    ) -> None:
        self.problem = problem
        self.field = field
        self.line = line
        self.file = file
        self.more = more
        place = "" if file is None else f"{file}: "
        place += "" if line is None else f"line {line}: "
        super().__init__("\n".join([f"{place}{field}: {problem}", *map(str, more)]))


class UnreadableFile(InvalidInput):
    """A saved file is truncated, damaged, of another program, or of a newer voile."""


class DuplicateRecord(InvalidInput):
    """A record with this key is stored already."""

    def __init__(self, table: str, key: tuple[object, ...]) -> None:
        self.table, self.key = table, key
        super().__init__(f"table {table!r} holds a record with the key {key!r} already")


class MissingRecord(InvalidInput):
    """There is no record with this key to replace."""

    def __init__(self, table: str, key: tuple[object, ...]) -> None:
        self.table, self.key = table, key
        super().__init__(f"table {table!r} holds no record with the key {key!r}")


class Refused(VoileError):
    """The request is well formed, but answering it would break a promise.

    `to_others` is what somebody elsewhere who asked is told, where the message itself speaks of
    more than concerns them; the same if it is empty.
    """

    def __init__(self, message: str, *, to_others: str = "") -> None:
        self.to_others = to_others
        super().__init__(message)


class BudgetExceeded(Refused):
    """The privacy budget does not cover the request; nothing was charged.

    `remaining` and `requested` are in the measure of the account that refused.
    """

    def __init__(self, message: str, *, remaining: float, requested: float) -> None:
        self.remaining, self.requested = remaining, requested
        super().__init__(message)


class VerificationFailed(VoileError):
    """A proof, a signature or a check did not hold."""


class StorageFault(VoileError):
    """The database or the disk failed; nothing of the command was kept."""


class StorageBusy(StorageFault):
    """Another program holds the database."""


class StorageReadOnly(StorageFault):
    """The place cannot be written to."""


class StorageFull(StorageFault):
    """There is no room left."""


class ForeignDatabase(StorageFault):
    """The database belongs to another program; it was not touched."""


class NewerDatabase(StorageFault):
    """The database was written by a newer voile; it was not touched."""


class OutcomeUnknown(StorageFault):
    """The connection broke while committing: look before you repeat the command."""


class MissingDependency(VoileError, ImportError):
    """An optional package is not installed; the message holds the pip line that installs it."""

    __reduce__ = ImportError.__reduce__  # it keeps the package's name outside of `vars`
