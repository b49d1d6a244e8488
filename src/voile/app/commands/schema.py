"""Commands about schemas: look at one, at how data fit it, and propose one from public rows."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, custodian_field


class ShowSchema(Command):
    """Show what the schema FILE (TOML) declares, defaults filled in."""

    file: Path = custodian_field(
        "The schema, TOML.", example="clinic.toml", option="", metavar="FILE"
    )


class CheckSchema(ShowSchema):
    """Say what in DATA falls outside the schema FILE; exit code 4 if something does.

    FILE is TOML; DATA is CSV with a header, Parquet, or - for CSV from standard input. Empty cells
    are counted, and fit: the schema's defaults stand for them.

    The output shows raw values and exact counts: for the custodian only, never for release.
    """

    data: str = custodian_field("The rows.", example="patients.csv", option="", metavar="DATA")


class ProposeSchema(Command):
    """Propose a schema from the rows of DATA, which have to be public.

    Bounds and categories that are read off rows tell about these rows: never do this with protected
    ones. `voile init` proposes nothing and reads the header alone.
    """

    data: str = custodian_field("The rows.", example="example.csv", option="", metavar="DATA")
    public: bool = custodian_field(
        "I say that DATA are public: nobody in it is protected.", default=False
    )
    label: str | None = custodian_field(
        "The column to predict; the last one if not given.", default=None
    )
    output: Path | None = custodian_field(
        "Write it there instead of printing it.", default=None, metavar="FILE"
    )
    overwrite: bool = custodian_field(
        "Overwrite files of these names without asking.", default=False, option="--yes"
    )
