"""The exception tree: as drawn, and able to travel between processes."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

from voile.core import errors
from voile.core.errors import VoileError

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, VoileError) and kind.__module__ == errors.__name__
]
BARE = [kind for kind in KINDS if kind.__init__ is Exception.__init__]


def drawn_tree() -> dict[str, str | None]:
    """Each name in the docstring's drawing, and the name it hangs on."""
    found: dict[str, str | None] = {}
    path: list[str] = []
    drawing = re.findall(
        r"^ {4}((?:[│ ] {3})*)([├└]── )?(\w+)(?: {2,}.*)?$", errors.__doc__ or "", re.M
    )
    for bars, branch, name in drawing:
        depth = len(bars) // 4 + bool(branch)
        del path[depth:]
        assert len(path) == depth, name
        assert name not in found
        found[name] = path[-1] if path else None
        path.append(name)
    return found


def true_tree() -> dict[str, str | None]:
    def parent(kind: type[VoileError]) -> str | None:
        bases = [base.__name__ for base in kind.__bases__ if issubclass(base, VoileError)]
        assert len(bases) <= 1
        return bases[0] if bases else None

    return {kind.__name__: parent(kind) for kind in KINDS}


def test_the_docstring_draws_the_tree_that_exists() -> None:
    assert drawn_tree() == true_tree()


def test_what_is_drawn_as_also_another_error_is_one() -> None:
    stated = re.findall(r"(\w+) {2,}.*\(also an? (\w+)\)", errors.__doc__ or "")
    assert set(stated) == {("InvalidInput", "ValueError"), ("MissingDependency", "ImportError")}
    for name, other in stated:
        assert issubclass(getattr(errors, name), __builtins__[other])  # type: ignore[index]


def test_every_error_says_what_it_means() -> None:
    assert all("__doc__" in vars(kind) and kind.__doc__ for kind in KINDS)


def test_a_schema_error_says_where() -> None:
    error = errors.SchemaError("must be below 3", field="age.bounds", line=7, file=Path("c.toml"))
    assert str(error) == "c.toml: line 7: age.bounds: must be below 3"
    assert str(errors.SchemaError("x", field="age")) == "age: x"
    assert (error.problem, error.field, error.line, error.file) == (
        "must be below 3",
        "age.bounds",
        7,
        Path("c.toml"),
    )


@pytest.mark.parametrize(
    "error",
    [
        *(kind("a message") for kind in BARE),
        errors.SchemaError("x", field="age", line=3, file=Path("c.toml")),
        errors.DuplicateRecord("table", (1, "a")),
        errors.MissingRecord("table", (1, "a")),
        errors.MissingDependency("x", name="shap"),
        errors.BudgetExceeded("x", remaining=0.5, requested=1.0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_can_travel_between_processes(error: VoileError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
        assert getattr(twin, "name", None) == getattr(error, "name", None)
