"""The public description of a table, and the forms its rows take.

Read or write one:
    `Schema.load`, `Schema.loads`, `Schema.dumps`; made in Python from `Feature`, `Label` and their
    domains `Numbers` and `Categories`. A `voile.core.errors.SchemaError` names line and field.

Bring data into shape:
    a *table* of raw values (`ColumnTable`, told by `is_table`) becomes `Rows` by `Schema.rows`, and
    those `Encoded` by `Schema.encode`; `Schema.decode` and `Schema.table` go back, `Schema.clamp`
    brings foreign rows inside, `Schema.labels` reads the label.

See what is wrong with data before using them:
    `Schema.check` gives a `SchemaReport` (for the custodian only).

How raw values are read:
    missing: None, NaN, pandas' NA and NaT, blank text, and words such as "nan", "NA", "n/a" and
    "null" in any case, unless they are listed as categories;
    numbers: any real number, and text as Python's `float` reads it ("3", " 3.0 ", "1e3"); true and
    false, as values or as text in any case, are 1 and 0; infinities are clamped like any number too
    large; times are not numbers;
    integer categories: by number ("3.0" is 3, true is 1);
    string categories: letter by letter, surrounding blanks aside; a number by its text, where 3 and
    3.0 are one number with the texts "3" and "3.0", True is 1 with the further texts "True" and
    "true", and False is 0 with "False" and "false". Text that is not listed letter by letter but
    says a whole number ("3.0", "3.", "-0") or true or false in any case is read as that value, so
    that a cell means the same in CSV and in Parquet. "01", "+1", "1e0" and "1.10" are codes and
    stand for themselves.
"""

from voile.core.schema.cells import (
    ColumnTable,
    Encoded,
    FeatureValues,
    RawColumn,
    Rows,
    is_table,
)
from voile.core.schema.domains import Categories, Domain, Numbers, Problem
from voile.core.schema.parsing import Feature, Label
from voile.core.schema.schema import ColumnFinding, ColumnReport, Example, Schema, SchemaReport

__all__ = [
    "Categories",
    "ColumnFinding",
    "ColumnReport",
    "ColumnTable",
    "Domain",
    "Encoded",
    "Example",
    "Feature",
    "FeatureValues",
    "Label",
    "Numbers",
    "Problem",
    "RawColumn",
    "Rows",
    "Schema",
    "SchemaReport",
    "is_table",
]
