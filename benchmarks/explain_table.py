"""`voile explain` of a million rows into a folder, beside the explainer alone; and its memory.

Whole is CPU of a process of its own, less that of the same command for one row (start, imports,
opening, signing). The peer is the explainer on the same rows in the same blocks, which are read
already. What is left pays for reading, checking, writing and proofs.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.harness import Figure, compare, write
from voile.app.calls import handle
from voile.app.commands.train import Train
from voile.app.explain.table import BLOCK
from voile.app.trained_model import load_trained_model
from voile.core.optional import optional
from voile.core.schema import Schema
from voile.datasets import clinic_federation
from voile.datasets.parquet_files import ParquetFiles

SEED: Final = 0
ROWS: Final = 1_000_000
MOST_MICROSECONDS, MOST_MEGABYTES = 5.0, 500.0
CLINIC = clinic_federation(2000, seed=1)


def run(rows: int = ROWS) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(folder)
        for count in (1, rows):
            write_rows(folder / f"{count}.parquet", count)
        command(folder, 1)  # compiles
        start, _ = command(folder, 1)
        whole, memory = command(folder, rows)
        alone = explainer_alone(folder, rows)
    rest = (whole - start - alone) / rows * 1e6
    figures = [
        compare(f"{rows:,} rows into a folder: CPU", "s", whole - start, alone),
        Figure("reading, writing and proofs", "µs a row", rest, None, None,
               f"at most {MOST_MICROSECONDS:g}", rest <= MOST_MICROSECONDS),
        Figure("largest memory", "MB", memory, None, None,
               f"at most {MOST_MEGABYTES:g}", memory <= MOST_MEGABYTES),
    ]  # fmt: skip
    write("explain_table", "the explainer alone, on rows in memory", figures, seed=SEED)


def train(folder: Path) -> None:
    together = CLINIC.together()
    write_table(folder / "train.parquet", CLINIC.schema, together.rows, together.labels)
    (folder / "schema.toml").write_text(CLINIC.schema.dumps())
    os.chdir(folder)
    handle(Train.read({"rows": "train.parquet", "schema": "schema.toml", "epsilon": 2.0}))


def write_rows(path: Path, count: int) -> None:
    known = CLINIC.together().rows
    rows = known[np.random.default_rng(SEED).integers(0, len(known), count)]
    write_table(path, CLINIC.schema, rows)


def write_table(path: Path, schema: Schema, rows: Any, labels: Any = None) -> None:
    columns = {name: np.asarray(each).tolist() for name, each in schema.table(rows).items()}
    if labels is not None and schema.label is not None:
        values = schema.label.domain.values  # type: ignore[union-attr]
        columns[schema.label.name] = [values[int(each)] for each in labels]
    table = optional("pyarrow", extra="explain").table(columns)
    optional("pyarrow.parquet", extra="explain").write_table(table, path)


def command(folder: Path, rows: int) -> tuple[float, float]:
    """CPU seconds and megabytes of `voile explain` into a folder, in a process of its own."""
    typed = ["explain", "model", f"{rows}.parquet", "--output", f"out-{rows}", "--yes"]
    # Its own peak: what the system reports of a child counts the parent that it was forked from.
    code = (
        "import atexit, sys; from pathlib import Path; from voile.cli import main; "
        "atexit.register(lambda: sys.stderr.write(Path('/proc/self/status').read_text())); main()"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = subprocess.run(
        [sys.executable, "-c", code, *typed], cwd=folder, capture_output=True, text=True, check=True
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    (peak,) = [line.split()[1] for line in child.stderr.splitlines() if line.startswith("VmHWM")]
    return spent, int(peak) / 1024


def explainer_alone(folder: Path, rows: int) -> float:
    """CPU seconds of the closed formula for all blocks."""
    found: Any = load_trained_model(folder / "model")
    table = ParquetFiles.find(str(folder / f"{rows}.parquet"))
    spent = 0.0
    for first in range(0, rows, BLOCK):
        block = found.schema.rows(table.read(first, min(BLOCK, rows - first)))
        start = time.process_time()
        found.additive.explain(block)
        spent += time.process_time() - start
    return spent
