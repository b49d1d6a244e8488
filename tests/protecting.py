"""What is protected, put together from its parts, so that a test can change one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from voile.core.guarantee import Guarantee, Protected, ProtectedUnit, Relation

_PARTS = ("unit", "relation", "dataset", "columns")


def row_of(dataset: str, relation: Relation = Relation.BLANK_ONE) -> Protected:
    return Protected(ProtectedUnit.ROW, relation, dataset)


def explained_row_of(dataset: str) -> Protected:
    return Protected(ProtectedUnit.EXPLAINED_ROW, Relation.REPLACE_ONE, dataset)


def joined(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which the parts of what is protected have become one value; a row, if not said.

    A value that is given whole counts, and loose parts beside it do not.
    """
    parts = {name: given[name] for name in _PARTS if name in given}
    rest = {name: value for name, value in given.items() if name not in _PARTS}
    if "protected" in rest:
        return rest
    return {"protected": Protected(**({"unit": ProtectedUnit.ROW} | parts)), **rest}


def about(guarantee: Guarantee, **parts: Any) -> Guarantee:
    """The same figures about something else."""
    return replace(guarantee, protected=replace(guarantee.protected, **parts))
