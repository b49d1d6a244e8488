"""From what somebody declares about a table to its schema, and to a table with its label.

Nothing here looks at a value to decide what is public: names, kinds and lengths are all that may
raise.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.schema import Categories, Label, Numbers, Schema
from voile.release.silence import call_suppressed

NAME: Final = "label"
"""What is predicted, where nobody gives it a name."""
Bounds: TypeAlias = Mapping[Any, Any] | Sequence[Any] | None
Column: TypeAlias = NDArray[Any]


# --- features -------------------------------------------------------------------------------------


def declared_schema(
    names: Sequence[str], schema: Any, bounds: Bounds, categories: Mapping[Any, Any] | None
) -> Schema:
    """The schema that was given, or the one that bounds and categories declare."""
    if schema is not None:
        if bounds is not None or categories is not None:
            raise InvalidInput("state a schema, or bounds= and categories=, not both")
        return read_schema(schema)
    if bounds is None and categories is None:
        raise InvalidInput(
            "no schema: what values the columns may take must be public, and is never read off "
            "protected rows. Pass schema=voile.Schema({...}), or bounds= and categories="
        )
    listed = _by_name(names, categories or {}, "categories")
    others = [name for name in names if name not in listed]
    known = {**listed, **(_bounded(others, names, bounds) if others else {})}
    return Schema({name: known[name] for name in names})


def read_schema(schema: Any) -> Schema:
    """A schema, its declaration, or the name of its file."""
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, Mapping):
        return Schema(schema)
    return Schema.load(schema)


def _bounded(
    wanted: Sequence[str], names: Sequence[str], bounds: Bounds
) -> dict[str, tuple[float, float]]:
    """Of each column that has no categories."""
    if isinstance(bounds, Mapping):
        found = {
            name: _pair(each, name) for name, each in _by_name(names, bounds, "bounds").items()
        }
        if missing := [name for name in wanted if name not in found]:
            raise InvalidInput(f"no bounds and no categories for {_shown(missing)}: state them")
        return {name: found[name] for name in wanted}
    if bounds is None:
        raise InvalidInput(f"no bounds and no categories for {_shown(wanted)}: state them")
    low, high = _pair(bounds, "bounds")
    lows, highs = (np.broadcast_to(_per_column(each, names), (len(names),)) for each in (low, high))
    every = dict(zip(names, zip(lows.tolist(), highs.tolist(), strict=True), strict=True))
    return {name: every[name] for name in wanted}


def _per_column(given: Any, names: Sequence[str]) -> NDArray[np.float64]:
    found = np.asarray(given, dtype=np.float64)
    if found.ndim > 1 or (found.ndim == 1 and len(found) != len(names)):
        raise InvalidInput(
            f"bounds must be one number or one for each of {len(names)} columns, found {found.size}"
        )
    return found


def _pair(given: Any, what: str) -> tuple[Any, Any]:
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or len(given) != 2:
        raise InvalidInput(f"{what}: expected a pair (lower, upper), found {given!r:.80}")
    return given[0], given[1]


def _by_name(names: Sequence[str], given: Mapping[Any, Any], what: str) -> dict[str, Any]:
    """Keys are names, or places counted from 0."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        is_place = isinstance(key, int | np.integer) and str(key) not in names
        if is_place and not 0 <= key < len(names):
            raise InvalidInput(f"{what}: there is no column {key} of {len(names)}")
        name = names[key] if is_place else str(key)
        if name not in names:
            raise InvalidInput(f"{what}: there is no column {name!r} in {_shown(names)}")
        found[name] = value
    return found


def _shown(names: Sequence[str]) -> str:
    more = ", …" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


# --- the label ------------------------------------------------------------------------------------


def with_classes(schema: Schema, classes: Any, name: str) -> tuple[Schema, Column]:
    """The schema with its label, and the classes in the order of the schema.

    Args:
        classes: public; never the labels of protected rows.
        name: of the label, where the schema has none.
    """
    if schema.label is not None:
        return schema, _classes_of(schema, classes)
    if classes is None:
        raise InvalidInput(
            "which classes there are must be public, and is never read off protected labels: pass "
            'classes=["no", "yes"], or a schema with a label'
        )
    given = _listed(classes)
    return Schema(schema.name, schema.features, Label(name, Categories(_names(given)))), given


def _classes_of(schema: Schema, classes: Any) -> Column:
    assert schema.label is not None
    domain = schema.label.domain
    if not isinstance(domain, Categories):
        raise InvalidInput(
            f"the label {schema.label.name!r} of the schema is a number: use PrivateRegressor"
        )
    found = np.asarray(domain.values)
    if classes is not None and _names(_listed(classes)) != domain.values:
        raise InvalidInput(
            f"classes= says {list(_listed(classes))}, the label of the schema "
            f"{list(domain.values)}: leave classes= out"
        )
    return found


def _listed(classes: Any) -> Column:
    found = np.asarray(list(classes)) if not isinstance(classes, str) else np.asarray([classes])
    if found.ndim != 1 or len(found) < 2 or len(np.unique(found)) < len(found):
        raise InvalidInput(f"expected at least two classes that differ, found {classes!r:.80}")
    return found


def _names(classes: Column) -> tuple[str, ...] | tuple[int, ...]:
    """As a schema lists them: whole numbers, or texts."""
    if classes.dtype.kind in "iu":
        return tuple(int(each) for each in classes)
    return tuple(str(each) for each in classes.tolist())


def class_labels(labels: Column, classes: Column) -> Column:
    """Labels as the schema lists their classes; None for what is no class."""
    keys = map(_key, classes.tolist())
    names: dict[Hashable, str | int] = dict(zip(keys, _names(classes), strict=True))
    found = np.empty(len(labels), dtype=object)
    # A label of somebody's own class may raise when it is looked at: it is no class then.
    ways = (partial(_class_of, each, names) for each in labels.tolist())
    found[:] = [call_suppressed(way) for way in ways]
    return found


def _class_of(label: Any, names: Mapping[Hashable, str | int]) -> str | int | None:
    return names.get(_key(label))


def _key(cell: Any) -> Hashable:
    """Equal for what means the same class: 1 and 1.0, but not True. NaN is no class."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, bool):
        return ("bool", cell)
    if isinstance(cell, int | float):
        return ("number", float(cell)) if abs(cell) <= 2**53 else ("number", cell)
    return cell if isinstance(cell, str) else ("other", repr(type(cell)))


def with_number(schema: Schema, target_range: Any, name: str) -> Schema:
    """The schema with its label, a number."""
    if schema.label is not None:
        return _with_declared_number(schema, target_range)
    if target_range is None:
        raise InvalidInput(
            "the range of the target must be public, and is never read off protected labels: pass "
            "target_range=(lower, upper), or a schema with a label"
        )
    low, high = _pair(target_range, "target_range")
    return Schema(schema.name, schema.features, Label(name, Numbers(float(low), float(high))))


def _with_declared_number(schema: Schema, target_range: Any) -> Schema:
    assert schema.label is not None
    domain = schema.label.domain
    if not isinstance(domain, Numbers):
        raise InvalidInput(
            f"the label {schema.label.name!r} of the schema has classes: use PrivateClassifier"
        )
    if target_range is not None and tuple(target_range) != (domain.lower, domain.upper):
        raise InvalidInput(
            f"target_range= says {tuple(target_range)}, the label of the schema "
            f"{(domain.lower, domain.upper)}: leave target_range= out"
        )
    return schema
