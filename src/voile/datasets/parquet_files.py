"""A table in Parquet files, read a stretch of rows at a time.

For tables that need not fit into memory and are not protected: whatever is wrong is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from voile.core.errors import InvalidInput, UnreadableFile, VoileError
from voile.core.optional import optional
from voile.core.schema import RawColumn
from voile.datasets.tables import arrow_columns, check_group, check_names, is_parquet

BATCH: Final = 2**14
"""Rows that are decoded at once."""


@dataclass(frozen=True)
class ParquetFiles:
    """Files with the same columns, one below the other in the order of their names.

    Args:
        files: their paths, whole: workers may run in another folder.
        names: of their columns.
        ends: after how many rows of the table each file ends.
    """

    files: tuple[str, ...]
    names: tuple[str, ...]
    ends: tuple[int, ...]

    @classmethod
    def find(cls, given: str) -> Self:
        """A file, all files of a folder, or those that a pattern (`big/*.parquet`) names."""
        path = Path(given)
        if path.is_dir():
            found = [each for each in path.iterdir() if is_parquet(each)]
        else:
            found = [path] if path.exists() else list(path.parent.glob(path.name))
        files = tuple(sorted(str(each.resolve()) for each in found))
        if not files or not all(map(is_parquet, files)):
            raise InvalidInput(
                f"{given}: expected a Parquet file, a folder of them, or a pattern in quotes such "
                "as 'big/*.parquet'"
            )
        shapes = [_shape(name) for name in files]
        names = shapes[0][0]
        for name, (columns, _) in zip(files, shapes, strict=True):
            if columns != names:
                raise InvalidInput(f"{name}: has other columns than {files[0]}")
        return cls(files, names, tuple(accumulate(rows for _, rows in shapes)))

    def __len__(self) -> int:
        return self.ends[-1]

    def read(self, first: int, count: int) -> dict[str, RawColumn]:
        """The columns of these rows."""
        parts = [arrow_columns(some, self.names) for some in self._slices(first, first + count)]
        return {name: _joined([part[name] for part in parts]) for name in self.names}

    def _slices(self, first: int, end: int) -> Iterator[Any]:
        for name, (start, stop) in zip(self.files, _stretches(self.ends), strict=True):
            if start < end and stop > first:
                yield from _slices(name, max(first - start, 0), min(end, stop) - start)


def _stretches(ends: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip((0, *ends), ends, strict=False))


def _slices(name: str, first: int, end: int) -> Iterator[Any]:
    """Rows of one file, by its groups of rows."""
    ends = tuple(accumulate(_group_sizes(name)))
    for place, (start, stop) in enumerate(_stretches(ends)):
        if start < end and stop > first:
            group = _group(name, Path(name).stat().st_mtime_ns, place)
            with _named(name):
                yield from group.rows(max(first - start, 0), min(end, stop) - start)


def _joined(parts: Sequence[RawColumn]) -> RawColumn:
    if len({part.dtype for part in parts}) > 1:  # integers, in some parts beside missing ones
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


class _Group:
    """One group of rows, read on from where the last stretch ended: it may be as large as a file.

    Args:
        file: stays open.
        place: of the group in it.
    """

    def __init__(self, file: Any, place: int) -> None:
        self._file, self._place = file, place
        self._batches: Iterator[Any]
        self._batch: Any
        self._restart()

    def rows(self, first: int, end: int) -> Iterator[Any]:
        """These rows of the group, as tables."""
        if first < self._start:
            self._restart()
        while first < end:
            while self._start + len(self._batch) <= first:
                self._start += len(self._batch)
                self._batch = self._table(next(self._batches))
            inside = first - self._start
            found = self._batch.slice(inside, end - first)
            first += len(found)
            yield found

    def _restart(self) -> None:
        self._batches = self._file.iter_batches(BATCH, row_groups=[self._place])
        self._start, self._batch = 0, self._table()

    def _table(self, *batches: Any) -> Any:
        return optional("pyarrow", extra="explain").Table.from_batches(
            batches, self._file.schema_arrow
        )


@lru_cache(maxsize=1)
def _group(name: str, _changed: int, place: int) -> _Group:
    """The group that was read last: the next stretch often goes on in it."""
    parquet = optional("pyarrow.parquet", extra="explain")
    with _named(name):
        file = parquet.ParquetFile(name)
        check_group(file.metadata, place, name)
        return _Group(file, place)


def _group_sizes(name: str) -> list[int]:
    with _opened(name) as file:
        places = range(file.metadata.num_row_groups)
        return [file.metadata.row_group(place).num_rows for place in places]


def _shape(name: str) -> tuple[tuple[str, ...], int]:
    with _opened(name) as file:
        columns = tuple(field.name for field in file.schema_arrow)
        check_names(list(columns), name)
        return columns, file.metadata.num_rows


@contextmanager
def _opened(name: str) -> Iterator[Any]:
    parquet = optional("pyarrow.parquet", extra="explain")
    with _named(name), parquet.ParquetFile(name) as file:
        yield file


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Arrow's errors have no common base, and all of them mean the file."""
    try:
        yield
    except VoileError:
        raise
    except Exception as error:
        raise UnreadableFile(f"{name}: not a Parquet file that can be read: {error}") from error
