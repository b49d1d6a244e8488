"""Parts on Spark (`mapInPandas`); the only file that imports it."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from voile.core.optional import optional
from voile.engines import Work

TRIES: Final = 4
"""How often a part is run before the job fails; on one machine Spark would try it once."""
_COLUMNS: Final = "number long, content binary"


def run(work: Work, parts: Sequence[Any]) -> Iterator[Any]:
    """The results in the order of the parts; the session is left open if it was open before."""
    sql = optional("pyspark.sql", extra="spark")
    found = sql.SparkSession.getActiveSession()
    running = found or session(sql)
    try:
        content = [(number, bytearray(pickle.dumps(part))) for number, part in enumerate(parts)]
        spread = running.sparkContext.parallelize(content, max(1, len(content)))
        frame = running.createDataFrame(spread, _COLUMNS)
        rows = frame.mapInPandas(_applied(work), _COLUMNS).collect()
    finally:
        if found is None:
            running.stop()
    for row in sorted(rows, key=lambda row: row.number):
        yield pickle.loads(row.content)  # made by our own function, a moment ago


def session(sql: Any) -> Any:
    """A session on all cores of this machine, unless Spark is told otherwise by its settings."""
    builder = sql.SparkSession.builder.appName("voile")
    if "spark.master" not in builder._options:
        builder = builder.master(f"local[*,{TRIES}]")
    # Workers run this Python: another one may lack voile.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    return builder.config(map=quiet).getOrCreate()


def _applied(work: Work) -> Any:
    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        import pandas as pd

        for batch in batches:
            found = [pickle.dumps(work(pickle.loads(each))) for each in batch["content"]]
            yield pd.DataFrame({"number": batch["number"], "content": found})

    return apply
