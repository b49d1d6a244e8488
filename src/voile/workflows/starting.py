"""`voile init`: a schema to fill in and a config, from the header of a file and nothing else.

Bounds and categories are promises about what is possible. Read off the data they would tell about
the data, so nothing below the header is looked at: people fill them in from what is known publicly.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.input_file import LARGEST_TEXT, damaged, open_regular, read_file
from voile.core.optional import optional
from voile.core.schema.locate import dotted, quoted
from voile.datasets.tables import PARQUET_SUFFIXES

SCHEMA_FILE: Final = "schema.toml"
CONFIG_FILE: Final = "federation.toml"

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
_CONFIG: Final = """\
# A federation: black box and surrogate are trained across parties whose rows stay where they are.
# Run it with: voile federate {file}
name = {name}  # label of the federation and of the version of its data
schema = {schema}
output = "output"  # folder of the run; what may be shown lies in output/artefact
# reference = "reference.csv"  # public rows to compare with; drawn from the schema if left out

[privacy]  # promised to each row of each client, for everything that leaves
epsilon = 2.0
delta = 1e-5  # well below one over the number of rows of a client
relation = "blank one"  # or "replace one", at about twice the cost

[training]
rounds = 10  # of each of the two stages
# participations = 10  # in how many of them a client takes part at most
# hidden = [64, 64]  # widths of the hidden layers
# distillation_steps = 3000  # of the fast explainer, which touches no data
{clients}
# Rows that are not protected, for the figures of the report: at least one file.
[[held_out]]
name = "held out"
data = "held-out.csv"
"""
_CLIENT: Final = """
[[clients]]
name = {name}
data = {data}
rows = 0  # how many rows it has; public
"""


@dataclass(frozen=True)
class Started:
    """What was written, and what the header holds."""

    schema: Path
    config: Path
    columns: tuple[str, ...]
    label: str


def start(files: Sequence[Path], folder: Path, *, label: str | None = None) -> Started:
    """Write schema and config for these files, one of each client; never over existing files.

    Args:
        files: CSV or Parquet files with equal columns.
        folder: where to write.
        label: the column to predict; the last one if not given.
    """
    if not files:
        raise InvalidInput("at least one data file is needed")
    columns = header(files[0])
    for file in files[1:]:
        if header(file) != columns:
            raise InvalidInput(f"{file}: its columns differ from those of {files[0]}")
    chosen = columns[-1] if label is None else label
    if chosen not in columns:
        raise InvalidInput(f"{files[0]} has no column {chosen!r}; it has {', '.join(columns)}")
    schema, config = folder / SCHEMA_FILE, folder / CONFIG_FILE
    for path in (schema, config):
        if path.exists():
            raise InvalidInput(f"{path}: exists already; move it away or choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{files[0].stem} v1"
    replace_file(schema, _schema_text(name, columns, chosen).encode())
    replace_file(config, _config_text(name, files, folder).encode())
    return Started(schema, config, columns, chosen)


def header(file: Path) -> tuple[str, ...]:
    """The names of the columns; not one value is read."""
    names = _parquet_header(file) if file.suffix.lower() in PARQUET_SUFFIXES else _csv_header(file)
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise InvalidInput(
            f"{file}: expected a header with two or more different names, found {len(names)} "
            f"columns, {len(set(names))} of them different"
        )
    return names


def _csv_header(file: Path) -> tuple[str, ...]:
    try:
        with open_regular(file) as stream:
            line = stream.readline(LARGEST_TEXT)
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


def _schema_text(name: str, columns: Sequence[str], label: str) -> str:
    head = _SCHEMA.format(name=quoted(name), label=quoted(label), file=SCHEMA_FILE)
    features = [_FEATURE.format(key=dotted("features", n)) for n in columns if n != label]
    return head + "".join(features)


def _config_text(name: str, files: Sequence[Path], folder: Path) -> str:
    clients = [
        _CLIENT.format(name=quoted(file.stem), data=quoted(relative_name(file, folder)))
        for file in files
    ]
    return _CONFIG.format(
        name=quoted(name),
        schema=quoted(SCHEMA_FILE),
        clients="".join(clients),
        file=CONFIG_FILE,
    )


def relative_name(file: Path, folder: Path) -> str:
    """As the config will look for it: beside itself where that is possible."""
    absolute, home = file.resolve(), folder.resolve()
    return str(absolute.relative_to(home) if absolute.is_relative_to(home) else absolute)
