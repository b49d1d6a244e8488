"""`Train`: a private model from one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from voile.app.commands.fields import RecordFiles, caller_field, custodian_field


class Train(RecordFiles):
    """Train a model on the protected rows of ROWS, with row-level privacy.

    By statistics: charges fine tables, centred moments and a calibration table. The model, its
    curves and its explanations are made from them at no further cost. By a network: charges all
    steps of DP-SGD and, for two classes, a table of its scores. All releases are charged together,
    or none; the same command again costs nothing.

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
        "Schema of the rows (TOML), with a label: classes or a number. Default: the file of that "
        "name beside ROWS, or schema.toml there.",
        default=None,
        example="clinic.toml",
        option="--schema",
        metavar="FILE",
        alias="schema",
    )
    label: str | None = custodian_field(
        "Column to predict: the label of the schema, or one of its columns if it has no label.",
        default=None,
        example="readmitted",
        metavar="COLUMN",
        formerly=("--target", "target"),
    )
    model: str = caller_field("Kind of model: statistics or network.", default="statistics")
    account: str | None = custodian_field(
        "Account that pays; it must be over rows. Default: the only one there is. On first use one "
        "of this size is opened.",
        default=None,
        example="patients",
    )
    epsilon: float = caller_field(
        "Of all releases together.", example=2.0, gt=0, allow_inf_nan=False
    )
    delta: float | None = caller_field(
        "Of all releases together. Default: the account's.",
        default=None,
        example=1e-6,
        gt=0,
        lt=1,
    )
    folder: Path = custodian_field(
        "Folder for the model.",
        default=Path("model"),
        example="model",
        option="--output",
        metavar="DIR",
    )
    held_out: Any = custodian_field(
        "Public rows with labels, to measure the model on.",
        default=None,
        example="public.csv",
        metavar="FILE",
    )
    sure: bool = custodian_field(
        "Train even if the rows are too few for a useful model.",
        default=False,
        option="--yes",
    )
    overwrite: bool = custodian_field(
        "Replace another model in this folder, and files of these names.",
        default=False,
        option="--overwrite",
    )
    plot: Path | None = custodian_field(
        "Draw the curve of each feature: .png, .svg or .pdf.",
        default=None,
        example="curves.png",
        metavar="FILE",
    )
    redraw: bool = caller_field("Pay for a new model, even if one exists.", default=False)
    preview: bool = caller_field("Show cost and accuracy without charging anything.", default=False)
    caller: str = custodian_field("Who asks; recorded in the log.", default="custodian")
