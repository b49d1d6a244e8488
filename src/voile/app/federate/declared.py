"""What parties declare in Python: schema and label, public and never read off protected rows."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Label, Numbers, Schema
from voile.core.schema.domains import Domain


def labelled(
    schema: Schema,
    label: str | None,
    *,
    classes: Any = None,
    target_range: tuple[float, float] | None = None,
) -> Schema:
    """The schema with this column as its label; its kind and values are declared, never read.

    Args:
        label: one that the schema declares, as label or among its columns, or any other name; the
            schema's label if None.
        classes, target_range: the values of a label that the schema does not declare.
    """
    own = schema.label
    name = label if own is None or label is not None else own.name
    if name is None:
        raise InvalidInput("say which column to predict (label=...): the schema declares no label")
    if own is not None and own.name != name:
        raise InvalidInput(
            f"the label of the schema {schema.name!r} is {own.name!r}, and {name!r} was asked for: "
            "leave label out, or declare another schema"
        )
    columns = {each.name: each.domain for each in schema.features}
    declared = columns.get(name) if own is None else own.domain
    domain = _label_domain(schema, name, declared, _stated(classes, target_range))
    if own is not None:
        return schema
    if isinstance(domain, Numbers):
        domain = Numbers(domain.lower, domain.upper)
    inputs = [each for each in schema.features if each.name != name]
    return Schema(schema.name, inputs, Label(name, domain))


def _label_domain(
    schema: Schema, name: str, declared: Domain | None, stated: Domain | None
) -> Domain:
    if declared is not None and stated not in (None, declared):
        raise InvalidInput(
            f"the schema {schema.name!r} declares the label {name!r} as {declared}, and {stated} "
            "was asked for: state it once"
        )
    found = declared or stated
    if found is None:
        raise InvalidInput(
            f"the schema {schema.name!r} declares no column {name!r}. Its values are public and "
            f"never read off protected rows: declare them, as in Schema({{..., {name!r}: ['no', "
            "'yes']}), or pass classes=['no', 'yes'], or target_range=(low, high) for a number"
        )
    return found


def _stated(classes: Any, target_range: tuple[float, float] | None) -> Domain | None:
    if classes is not None and target_range is not None:
        raise InvalidInput("a label has classes or a target_range, not both")
    if target_range is not None:
        return Numbers(*target_range)
    if classes is None:
        return None
    listed = classes.tolist() if hasattr(classes, "tolist") else classes
    if not isinstance(listed, list | tuple):
        raise InvalidInput(
            f"classes: expected all of them in their order, such as ['no', 'yes'], found "
            f"{type(classes).__name__}"
        )
    return Categories(tuple(listed))


def as_schema(given: Any) -> Schema:
    """A schema, a declaration or a file."""
    if isinstance(given, Mapping):
        given = Schema(given)
    if isinstance(given, str | PathLike):
        given = Schema.load(given)
    if not isinstance(given, Schema):
        raise InvalidInput(
            f"schema: expected a Schema, a declaration such as {{'age': (18, 100)}}, or a TOML "
            f"file, found {type(given).__name__}"
        )
    return given
