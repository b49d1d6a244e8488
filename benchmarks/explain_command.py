"""`voile explain` of a million rows in a file, beside what explainer and log need for them.

The command reads and checks a Parquet file, shows how far it is on a terminal, and prints. The peer
is the part of the same run in which explainer, commitments and log work, on rows that were read
already. CPU of this process; the imports of the first command are not counted.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.harness import compare, write
from voile import cli
from voile.app.artefact import EXPLAINER, Artefact
from voile.app.explain import ReleaseService
from voile.app.federate import (
    SERVER,
    FederationAgreement,
    Job,
    Party,
    ServerSide,
    federate,
    origin_of,
    party_key,
)
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.optional import optional
from voile.datasets import clinic_federation
from voile.pipelines.tables import TableRecords
from voile.training import TrainingPlan

SEED = 0
MILLION, FEW, ROUNDS = 1_000_000, 10_000, 3
CLINIC = clinic_federation(100, seed=1)
NAME = "clinic v1"


class Terminal(io.StringIO):
    """Somebody watches."""

    def isatty(self) -> bool:
        return True


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = artefact(Path(folder))
        many, few = (parquet(Path(folder), count) for count in (MILLION, FEW))
        command(made, few)
        runs = sorted(
            (command(made, many) for _ in range(ROUNDS)), key=lambda each: each[0] / each[1]
        )
    whole, own = runs[ROUNDS // 2]
    what = "voile explain of a million rows, with progress: CPU"
    figures = [compare(what, "s", whole, own, at_most=1.2)]
    write("explain_command", "explainer, commitments and log in the same run", figures, seed=SEED)


def artefact(folder: Path) -> Artefact:
    """Briefly trained: speed does not depend on how well."""
    records = {name: TableRecords.from_dataset(data) for name, data in CLINIC.hospitals.items()}
    keys = {name: party_key(folder / name, origin_of(NAME, name)) for name in records}
    agreement = FederationAgreement(
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, NAME),
        schema=CLINIC.schema,
        sizes={name: len(rows) for name, rows in records.items()},
        epsilon=2.0,
        delta=1e-5,
        keys=keys,
        rounds=1,
        server_key=party_key(folder / "output", origin_of(NAME, SERVER)),
    )
    server = ServerSide(
        folder=folder / "output",
        held_out=records["city"],
        reference=CLINIC.reference,
        distillation=TrainingPlan(steps=20),
    )
    parties = tuple(Party(name, rows, folder / name) for name, rows in records.items())
    return federate(Job(agreement, server, parties)).artefact


def parquet(folder: Path, count: int) -> Path:
    known = CLINIC.together().rows
    rows = known[np.random.default_rng(SEED).integers(0, len(known), count)]
    columns = {name: np.asarray(each).tolist() for name, each in CLINIC.schema.table(rows).items()}
    path = folder / f"{count}.parquet"
    table = optional("pyarrow", extra="explain").table(columns)
    optional("pyarrow.parquet", extra="explain").write_table(table, path)
    return path


def command(made: Artefact, rows: Path) -> tuple[float, float]:
    """Seconds of all of it, and of explainer and log in it."""
    learned, watched, own = str(made.folder / EXPLAINER), Terminal(), list[float]()
    answer = ReleaseService.answer

    def clocked(*given: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return answer(*given, **named)
        finally:
            own.append(time.process_time() - start)

    start = time.process_time()
    with (
        redirect_stdout(io.StringIO()),
        patch.object(sys, "stderr", watched),
        patch.object(ReleaseService, "answer", clocked),
    ):
        try:
            cli.main(["explain", str(made.folder), str(rows), "--explainer", learned])
        except SystemExit as left:
            if left.code != 0:
                raise RuntimeError(watched.getvalue()) from left
    return time.process_time() - start, own[0]
