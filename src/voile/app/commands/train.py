"""`Train`: a private model from one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from voile.app.commands.fields import RecordFiles, caller_field, custodian_field


class Train(RecordFiles):
    """Train a model on the protected rows of ROWS, with row-level privacy.

    Three releases are charged: fine tables, centred moments and a calibration table. The model, its
    curves and its explanations are computed from them at no further cost. A run that was broken off
    is continued by the same command, without --fresh, and pays for nothing twice.

    >>> Train.read({"rows": "patients.csv", "schema": "clinic.toml", "account": "patients",
    ...     "epsilon": 2.0, "delta": 1e-6, "folder": "model"}).model
    'statistics'
    """

    rows: Any = custodian_field(
        "Protected: a table with a label, as CSV or Parquet.",
        example="patients.csv",
        option="",
        metavar="ROWS",
    )
    schema_file: Any = custodian_field(
        "Schema of the rows (TOML), with a label of two classes.",
        example="clinic.toml",
        option="--schema",
        metavar="FILE",
        alias="schema",
    )
    target: str | None = custodian_field(
        "The column to predict: the label of the schema, which is the default.",
        default=None,
        example="readmitted",
        metavar="COLUMN",
    )
    model: str = caller_field("How to learn: statistics.", default="statistics")
    account: str = custodian_field("Which account pays: one over rows.", example="patients")
    epsilon: float = caller_field("Of all three releases together.", example=2.0)
    delta: float = caller_field("Of all three releases together.", example=1e-6)
    folder: Path = custodian_field(
        "Where the model goes.", example="model", option="--output", metavar="DIR"
    )
    held_out: Any = custodian_field(
        "Rows that are not protected, with labels, to measure the model on.",
        default=None,
        example="public.csv",
        metavar="FILE",
    )
    sure: bool = custodian_field(
        "Train although the rows are too few to expect a useful model.",
        default=False,
        option="--yes",
    )
    fresh: bool = caller_field("Pay for a new model, even if there is one.", default=False)
    preview: bool = caller_field(
        "Say what it would cost and be like; charge nothing.", default=False
    )
    caller: str = custodian_field("Who asks; written down.", default="custodian", option="--by")
