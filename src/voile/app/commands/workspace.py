"""`Start`: begin with one's own files, and `Demo`: see the main job on invented ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from voile.app.commands.explain import ExplanationSpec, ModelTerms
from voile.app.commands.fields import Command, RelationKey, custodian_field
from voile.core.errors import InvalidInput

# --- Commands about schemas: look at one, at how data fit it, and propose one from public rows ---


class ShowSchema(Command):
    """Show what the schema FILE (TOML) declares, defaults filled in."""

    file: Path = custodian_field(
        "The schema, TOML.", example="clinic.toml", option="", metavar="FILE"
    )


class CheckSchema(ShowSchema):
    """Check DATA against the schema FILE; exit code 4 if something does not fit.

    FILE is TOML. DATA is CSV with a header, Parquet, or - for CSV from standard input. Empty cells
    are counted but allowed: the schema's defaults replace them.

    The output shows raw values and exact counts. It is for the custodian only: never release it.
    """

    data: str = custodian_field("The rows.", example="patients.csv", option="", metavar="DATA")


class ProposeSchema(Command):
    """Propose a schema from the rows of DATA, which must be public.

    Bounds and categories read from rows reveal facts about them: never do this with protected rows.
    `voile init` reads the header only.
    """

    data: str = custodian_field("The rows.", example="example.csv", option="", metavar="DATA")
    public: bool = custodian_field(
        "Confirm that DATA is public: nobody in it is protected.", default=False
    )
    label: str | None = custodian_field("Column to predict. Default: the last one.", default=None)
    output: Path | None = custodian_field(
        "Write to this file instead of printing.", default=None, metavar="FILE"
    )
    overwrite: bool = custodian_field(
        "Overwrite files of these names without asking.", default=False, option="--yes"
    )


# --------------------------------------------------------------------------------------------------


class Start(ModelTerms):
    """Start a federation from tables, or a workspace (voile.toml) from a model.

    Only the header of a table is read: you declare the possible values of each column. With a
    model, everything is checked first; then the log, its keys, the account and voile.toml are
    created.

    >>> start = Start(source=("risk.onnx",), protect="population", dataset="clinic 2026", epsilon=3)
    >>> start.spec.model, start.promise
    ('risk.onnx', {'dataset': 'clinic 2026', 'epsilon': 3.0})
    """

    source: tuple[str, ...] = custodian_field(
        "CSV or Parquet, one for each party of a federation; or one model: an artefact of voile, "
        "an ONNX file, or package.module:object. A federation.toml of an earlier version is split.",
        example=["risk.onnx"],
        option="",
        metavar="DATA...|MODEL",
        min_length=1,
    )
    label: str | None = custodian_field(
        "Column to predict in a federation. Default: the last one.", default=None
    )
    dataset: str | None = custodian_field(
        "Label of the version of the protected data; opens an account.", default=None
    )
    epsilon: float | None = custodian_field(
        "The largest epsilon that all releases from that account may reach.",
        default=None,
        example=3.0,
        gt=0,
        allow_inf_nan=False,
    )
    delta: float | None = custodian_field(
        "The delta that belongs to it.", default=None, example=1e-6, ge=0, lt=1
    )
    noise: float | None = custodian_field(
        "Noise of one answer, as a share of the output's width; more noise costs less.",
        default=None,
        example=0.05,
        gt=0,
        allow_inf_nan=False,
    )
    relation: RelationKey | None = custodian_field(
        "'zero-out', 'replace one' or 'add or remove one'.", default=None
    )
    records_per_person: int | None = custodian_field(
        "Declare that at most K records belong to one person.",
        default=None,
        metavar="K",
    )
    account: str | None = custodian_field("Name of that account. Default: the label.", default=None)
    name: str | None = custodian_field(
        "Name of the federation and of this version of its data, or of the release. Default: the "
        "folder's or the model's name; asked for on a terminal.",
        default=None,
    )
    origin: str | None = custodian_field(
        "The log's name, best a URL without https://.", default=None
    )
    storage: str = custodian_field(
        "Database: a file, postgresql://..., or env:VARIABLE.", default="log.db"
    )
    folder: Path = custodian_field(
        "Where to write.", default=Path(), option="--output", metavar="DIR"
    )

    @property
    def spec(self) -> ExplanationSpec:
        """What is to be explained, of a workspace; `InvalidInput` if it contradicts itself."""
        terms = self._stated(*ModelTerms.model_fields, "account", "noise")
        return ExplanationSpec.read({"model": self.source[0], **terms})

    @property
    def promise(self) -> dict[str, Any] | None:
        """What the account of a workspace promises; None if nothing is said about one."""
        figures = ("dataset", "epsilon", "delta", "relation", "records_per_person")
        return self._stated(*figures) or None

    def check_only(self, *allowed: str, why: str) -> None:
        """Refuse any other option."""
        for name, option in self.stated_options().items():
            if name not in allowed:
                raise InvalidInput(f"{option} {why}")

    def _stated(self, *names: str) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}


class RunDemo(Command):
    """Train across eight invented hospitals, explain a patient, write a report.

    Needs no file, no network and no account. A privacy guarantee covers everything in the report.
    The data are invented, so the results are compared with the truth. Running it again replaces
    its own files in the folder and keeps all others.

    >>> RunDemo(rows=200).folder.name
    'demo-output'
    """

    folder: Path = custodian_field(
        "Folder for the results.",
        default=Path("demo-output"),
        option="--output",
        metavar="DIR",
    )
    rows: int = custodian_field("Average number of patients of a hospital.", default=5_000, ge=50)
