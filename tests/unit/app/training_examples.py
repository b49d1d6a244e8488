"""A folder with people to train on: schema, protected rows, open rows, a log and an account."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.release.statistics.examples import SCHEMA, people

from voile.app.calls import handle
from voile.app.commands.audit import StartLog
from voile.app.commands.budget import OpenBudget
from voile.app.commands.train import Train

DELTA = 1e-5


def table(count: int, seed: int = 0) -> dict[str, Any]:
    """Features and label, as raw values."""
    rows, labels = people(count, seed)
    return {**SCHEMA.table(rows), "ill": ["yes" if label else "no" for label in labels]}


def write_csv(path: Path, columns: dict[str, Any]) -> None:
    lines = zip(*columns.values(), strict=True)
    text = "\n".join([",".join(columns), *(",".join(map(str, line)) for line in lines)])
    path.write_text(text + "\n")


def write_people(folder: Path, count: int = 1500, epsilon: float = 4.0, **account: Any) -> Path:
    """All that `voile train` needs."""
    (folder / "people.toml").write_text(SCHEMA.dumps())
    write_csv(folder / "rows.csv", table(count))
    write_csv(folder / "open.csv", table(400, seed=1))
    database = str(folder / "log.db")
    handle(StartLog(database=database, origin="example.org/people"))
    terms = {"account": "people", "dataset": "people 1", "epsilon": epsilon, "delta": DELTA}
    handle(OpenBudget.read({"database": database, **terms, **account}))
    return folder


def asked(home: Path, **changes: Any) -> Train:
    """A command about these people."""
    stated = {
        "rows": str(home / "rows.csv"),
        "schema": str(home / "people.toml"),
        "account": "people",
        "epsilon": 2.0,
        "delta": DELTA,
        "folder": home / "model",
        "database": str(home / "log.db"),
    }
    return Train.read(stated | changes)
