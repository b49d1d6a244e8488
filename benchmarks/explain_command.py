"""`voile explain` of a million rows in a file, beside what explainer and log need for them.

The command reads and checks a Parquet file, shows how far it is on a terminal, and prints. The peer
is handed the rows as an array: the same explainer, commitments and record of the log alone. CPU of
this process, in turn; the imports of the first command are not counted.
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.harness import alternate, compare, write
from voile import cli
from voile.attribution import FastShap
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.optional import optional
from voile.core.schema import Rows
from voile.datasets import clinic_federation
from voile.pipelines.tables import TableRecords
from voile.release import PostProcessed
from voile.training import TrainingPlan
from voile.workflows.artefact import EXPLAINER, Artefact
from voile.workflows.custody import open_custody_at, usual_place
from voile.workflows.explain import ReleaseService
from voile.workflows.federate import (
    SERVER,
    FederationAgreement,
    Job,
    Party,
    ServerSide,
    federate,
    origin_of,
    party_key,
)

SEED = 0
MILLION, FEW = 1_000_000, 10_000
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
        command(made, few[0])
        with_file, alone = alternate(
            [
                clocked(lambda: command(made, many[0])),
                clocked(lambda: answered(made, made.explainer, many[1])),
            ],
            rounds=3,
            warm_up=0,
        )
    what = "voile explain of a million rows, with progress: CPU"
    figures = [compare(what, "s", with_file, alone, at_most=1.2)]
    write("explain_command", "explainer, commitments and record alone", figures, seed=SEED)


def artefact(folder: Path) -> Artefact:
    """Briefly trained: speed does not depend on how well."""
    records = {name: TableRecords.of(data) for name, data in CLINIC.hospitals.items()}
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


def parquet(folder: Path, count: int) -> tuple[Path, Rows]:
    known = CLINIC.together().rows
    rows = known[np.random.default_rng(SEED).integers(0, len(known), count)]
    columns = {name: np.asarray(each).tolist() for name, each in CLINIC.schema.table(rows).items()}
    path = folder / f"{count}.parquet"
    table = optional("pyarrow", extra="explain").table(columns)
    optional("pyarrow.parquet", extra="explain").write_table(table, path)
    return path, rows


def command(made: Artefact, rows: Path) -> None:
    learned = str(made.folder / EXPLAINER)
    watched = Terminal()
    with redirect_stdout(io.StringIO()), patch.object(sys, "stderr", watched):
        try:
            cli.main(["explain", str(made.folder), str(rows), "--explainer", learned])
        except SystemExit as left:
            if left.code != 0:
                raise RuntimeError(watched.getvalue()) from left


def answered(made: Artefact, learned: FastShap, rows: Rows) -> None:
    release = PostProcessed(learned, [made.origin], "0" * 64, "learned Shapley values")
    with open_custody_at(usual_place(made.folder), signing=None) as custody:
        ReleaseService(custody).answer(release, rows, caller="benchmark")


def clocked(work: Callable[[], None]) -> Callable[[], float]:
    def run_once() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return run_once
