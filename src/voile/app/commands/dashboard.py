"""Commands about the dashboard."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, custodian_field


class ExportDashboard(Command):
    """Write the pages of the dashboard as files; nothing is charged, and no service is needed.

    The pages are those of a reader with the duties you name. Whoever has the folder can read them:
    with observe, they say who was charged for what.

    >>> ExportDashboard(folder="pages").duties
    ('audit',)
    """

    folder: Path = custodian_field("A new folder.", example="pages", option="", metavar="DIR")
    workspace: Path = custodian_field(
        "The workspace.", default=Path("voile.toml"), option="--workspace", metavar="FILE|DIR"
    )
    duties: tuple[str, ...] = custodian_field(
        "Duty of whoever the pages are for; repeatable: observe, audit, explain or administer.",
        default=("audit",),
        option="--duty",
        metavar="DUTY",
    )
