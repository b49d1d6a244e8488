"""What `voile init` writes from the header of a file, and nothing else: a schema to fill in.

Bounds and categories are promises about what is possible. Read off the data they would tell about
the data, so nothing below the header is looked at: people fill them in from what is known publicly.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from voile.core.atomic_file import disk_fault, locked
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.input_file import LARGEST_TEXT, damaged, open_regular, read_file
from voile.core.optional import optional
from voile.core.schema.locate import dotted, quoted
from voile.datasets.csv_files import check_form
from voile.datasets.tables import is_parquet

SCHEMA_FILE: Final = "schema.toml"
ARRAYS: Final = ".npz"
_LOCK: Final = ".voile-init.lock"
_PATIENCE: Final = 30.0
"""Seconds to wait for another start in the same folder."""

_SCHEMA: Final = """\
# What values are possible in each column, from what everybody knows: a form, a code book, physics.
# Never from the data: the smallest and largest value *found* tell about the people they belong to.
# Take out the columns that are not to be used. `voile schema show {file}` says what is missing.
name = {name}

[label]
name = {label}
categories = []  # all classes, such as ["no", "yes"]
"""
_FEATURE: Final = """
[{key}]
kind = ""  # "continuous", "integer" or "categorical"
bounds = []  # smallest and largest possible value; for "categorical" instead: categories = [...]
# default = 0  # stands for what is missing; the middle of the bounds, or the first category
# semantic = "demographics"  # features of one kind are explained together at the level "summary"
"""


def one_start_at_a_time(folder: Path) -> AbstractContextManager[None]:
    """Make this folder, and keep other starts out of it: each looks and writes as one step."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_fault(folder, error) from error
    return locked(
        folder / _LOCK, patience=_PATIENCE, busy="another start uses this folder; try again"
    )


def header(file: Path) -> tuple[str, ...]:
    """The names of the columns; not one value is read."""
    if file.suffix == ARRAYS:
        names = _array_names(file)
    else:
        names = _parquet_header(file) if is_parquet(file) else _csv_header(file)
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise InvalidInput(
            f"{file}: expected a header with two or more different names, found {len(names)} "
            f"columns, {len(set(names))} of them different"
        )
    return names


def _array_names(file: Path) -> tuple[str, ...]:
    """Of a file that `numpy.savez` wrote."""
    with damaged(file), ZipFile(file) as held:
        return tuple(name.removesuffix(".npy") for name in held.namelist())


def _csv_header(file: Path) -> tuple[str, ...]:
    try:
        with open_regular(file) as stream:
            line = stream.readline(LARGEST_TEXT)
        check_form(line, str(file))
        return tuple(next(csv.reader([line.decode("utf-8-sig")]), []))
    except OSError as error:
        raise UnreadableFile(f"{file}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableFile(f"{file}: its first line is no header in UTF-8: {error}") from error


def _parquet_header(file: Path) -> tuple[str, ...]:
    parquet = optional("pyarrow.parquet", extra="explain")
    content = read_file(file)
    with damaged(file):
        return tuple(parquet.read_schema(io.BytesIO(content)).names)


def schema_text(name: str, columns: Sequence[str], label: str) -> str:
    """A schema with these columns, for people to fill in."""
    head = _SCHEMA.format(name=quoted(name), label=quoted(label), file=SCHEMA_FILE)
    features = [_FEATURE.format(key=dotted("features", n)) for n in columns if n != label]
    return head + "".join(features)


def relative_name(file: Path, folder: Path) -> str:
    """As the config will look for it: beside itself where that is possible."""
    absolute, home = as_called(file), folder.resolve()
    return str(absolute.relative_to(home) if absolute.is_relative_to(home) else absolute)


def as_called(file: Path) -> Path:
    """Its absolute path under its own name: a link may point to something else tomorrow."""
    return file.resolve() if file.name in ("", "..") else file.parent.resolve() / file.name
