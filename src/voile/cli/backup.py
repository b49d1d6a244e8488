"""`voile backup` and `voile restore`: copies of ledger, log and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from voile.app.commands.backup import Backup, Restore
from voile.cli.commands import command_line
from voile.cli.output import ExitCode, print_facts

if TYPE_CHECKING:
    from voile.app.backups import BackupResult

BACKUP_EPILOG = "Example: voile backup backup-2026-03 --workspace voile.toml"
RESTORE_EPILOG = "Example: voile restore backup-2026-03 --output clinic --checkpoint newest.txt"


def _show(done: BackupResult, *, as_json: bool) -> None:
    facts = {"folder": str(done.folder), "files": list(done.files)}
    print_facts(facts, as_json=as_json)


def _show_restored(done: BackupResult, *, as_json: bool) -> None:
    facts = {"folder": str(done.folder), "files": list(done.files), "missing": done.missing}
    print_facts(facts, as_json=as_json)
    if done.missing:
        typer.echo(
            f"voile: {done.missing} record(s) that others know of are missing: charges since the "
            "backup are among them. Find a newer copy of the database: this one is refused",
            err=True,
        )
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


backup = command_line(Backup, _show)
restore = command_line(Restore, _show_restored)
