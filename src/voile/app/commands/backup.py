"""Commands that copy what a party keeps, and bring it back."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, custodian_field


class Backup(Command):
    """Copy ledger, log and keys of a workspace into a new folder, while others go on using them.

    The copy holds the keys: guard it as you guard them. For a PostgreSQL server, use its own
    backup; the files beside the workspace are copied here.

    >>> Backup(folder="backup").workspace.name
    'voile.toml'
    """

    folder: Path = custodian_field("A new folder.", example="backup", option="", metavar="FOLDER")
    workspace: Path = custodian_field(
        "The workspace.", default=Path("voile.toml"), option="--workspace", metavar="FILE|DIR"
    )


class Restore(Command):
    """Bring a backup back into a folder; compared with the newest known checkpoint.

    Charges after the backup are missing from it. So name the newest checkpoint that was published
    or pinned elsewhere: a database that lacks records is brought back, and is refused by every
    command until it is complete. Exit code 4 says so.

    >>> Restore(folder="backup", output="clinic", checkpoint="newest.txt").folder.name
    'backup'
    """

    folder: Path = custodian_field("The backup.", example="backup", option="", metavar="FOLDER")
    output: Path = custodian_field(
        "Folder that holds none of these files.", example="clinic", metavar="DIR"
    )
    checkpoint: Path = custodian_field(
        "The newest checkpoint that is known elsewhere.", example="newest.txt", metavar="FILE"
    )
