"""What the tests of workspaces share: a folder with a schema, rows and a model by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.app.explain.examples import SCHEMA, TRAINED, model

from voile.app.explain import ExplanationSpec
from voile.app.workspace import StartedWorkspace, start_workspace

SCORE = model()
MODEL = "tests.unit.app.workspace.examples:SCORE"
PUBLIC_ROWS = "income,debt,employed\n2,1,yes\n5,4,no\n8,2,yes\n"
CUSTOMERS = "income,debt,employed\n" + "1,7,no\n6,2,yes\n9,3,yes\n4,4,no\n" * 40
APPLICANTS = "id,income,debt,employed\nada,3,6,no\nbob,9,1,yes\n"
PROMISE = {"dataset": "customers v1", "epsilon": 5.0, "delta": 1e-5}


def write_files(folder: Path) -> Path:
    """Everything that people bring."""
    folder.mkdir(exist_ok=True)
    (folder / "loans.toml").write_text(SCHEMA.dumps())
    (folder / "public.csv").write_text(PUBLIC_ROWS)
    (folder / "customers.csv").write_text(CUSTOMERS)
    (folder / "applicants.csv").write_text(APPLICANTS)
    (folder / "training.json").write_text(json.dumps([TRAINED.to_dict()]))
    return folder


def private_spec(folder: Path, **changes: Any) -> ExplanationSpec:
    said: dict[str, Any] = {
        "model": MODEL,
        "schema": folder / "loans.toml",
        "model_origin": "public",
        "protect": "background",
        "background": str(folder / "customers.csv"),
        "epsilon": 0.5,
    }
    return ExplanationSpec.read(said | changes)


def free_spec(folder: Path, **changes: Any) -> ExplanationSpec:
    said = {
        "protect": "training",
        "model_origin": str(folder / "training.json"),
        "background": str(folder / "public.csv"),
        "background_origin": "public",
        "epsilon": None,
    }
    return private_spec(folder, **(said | changes))


def started(folder: Path, **changes: Any) -> StartedWorkspace:
    """A workspace with a release over private customers, called `approval`."""
    said: dict[str, Any] = {"name": "approval", "folder": folder}
    return start_workspace(private_spec(write_files(folder)), PROMISE, **(said | changes))
