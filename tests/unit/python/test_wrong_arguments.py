"""Whatever stands where something else belongs: an error of voile's, never of what is below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import voile
from tests.unit.python.people import SCHEMA, people, quick
from voile.app import open_records
from voile.core.errors import VoileError

JUNK: list[Any] = [
    *(0, -1, 1.5, float("nan"), True, "", "x", "a" * 500, "\ud800", b"x", 10**400, 1j, Decimal(1)),
    *([], [1], (), ("a", 1), {}, {"a": 1}, {1: 2}, {"a": {1: 2}}, {1}, range(0), object(), type),
    *(np.array(1), np.zeros((2, 3)), pd.DataFrame(), pd.DataFrame({"a": [1]}), pd.NA, iter([1])),
]
TERMS: dict[str, Any] = {"epsilon": 100, "delta": 1e-6}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    open_records.close_all()


def only_voiles(ask: Callable[[Any], object]) -> None:
    for junk in JUNK:
        with suppress(VoileError):
            ask(junk)


SCHEMAS: dict[str, Callable[[Any], object]] = {
    "columns": voile.Schema,
    "values": lambda junk: voile.Schema({"a": junk}),
    "label": lambda junk: voile.Schema({"a": (0, 1)}, label=junk),
    "label's values": lambda junk: voile.Schema({"a": (0, 1)}, label={"y": junk}),
    "name": lambda junk: voile.Schema({"a": (0, 1)}, name=junk),
    "cuts": lambda junk: voile.Schema({"a": (0, 1)}, cuts=junk),
    "cuts of one": lambda junk: voile.Schema({"a": (0, 1)}, cuts={"a": junk}),
    "rows": lambda junk: voile.Schema.from_frame(junk),
    "rows' label": lambda junk: voile.Schema.from_frame(people(5), label=junk),
    "rows' name": lambda junk: voile.Schema.from_frame(people(5), name=junk),
}


@pytest.mark.parametrize("argument", SCHEMAS)
def test_of_a_schema(argument: str) -> None:
    only_voiles(SCHEMAS[argument])


@pytest.mark.parametrize("argument", ["name", "epsilon", "delta", "database", "dataset"])
def test_of_a_budget(argument: str) -> None:
    def ask(junk: Any) -> None:
        given = {"name": "trial", **TERMS, "database": "memory:", argument: junk}
        voile.Budget(**given).close()

    only_voiles(ask)


@pytest.mark.parametrize(
    "argument",
    [
        *("background", "protect", "schema", "budget", "model_origin", "epsilon", "output"),
        *("background_rows", "progress", "output_range", "top", "id_column", "background_origin"),
    ],
)
def test_of_an_explainer(argument: str) -> None:
    budget = voile.Budget.in_memory("trial", **TERMS)
    usual = {"protect": "background", "schema": SCHEMA, "budget": budget, "model_origin": "public"}
    rows, make = people(20), voile.Explainer

    def ask(junk: Any) -> object:
        given: Any = {"background": rows, **usual, argument: junk}
        return make(quick(), given.pop("background"), **given)

    only_voiles(ask)
    assert budget.spent == 0


CALLS: dict[str, Callable[[Any, Any], object]] = {
    "rows": lambda explainer, junk: explainer.preview(junk, epsilon=0.1),
    "epsilon": lambda explainer, junk: explainer.preview(people(1), epsilon=junk),
    "noise": lambda explainer, junk: explainer.preview(people(1), noise=junk),
    "purpose": lambda explainer, junk: explainer(people(1), epsilon=1e-3, purpose=junk),
    "explanation": lambda _, junk: voile.verify(junk, "x.tlog-proof"),
    "receipt": lambda _, junk: voile.verify("x.voile", junk),
    "policy": lambda _, junk: voile.verify("x.voile", "x.tlog-proof", policy=junk),
}


@pytest.mark.parametrize("argument", CALLS)
def test_of_a_call(argument: str) -> None:
    budget = voile.Budget.in_memory("trial", **TERMS)
    make: Any = voile.Explainer
    explainer = make(
        quick(), people(20), protect="background", schema=SCHEMA, budget=budget,
        model_origin="public",
    )  # fmt: skip
    only_voiles(lambda junk: CALLS[argument](explainer, junk))
