"""A workspace: one commented file, `voile.toml`, that the command line and Python share.

It holds what stays the same from one explanation to the next: where the ledger and the log are,
models with what they were made from, schemas, backgrounds, accounts, and named releases.

- begin one: `start_workspace` (`voile init`), with the promise of an account (`AccountTable`)
- write its text alone, as a federation does: `workspace_text`, `release_name`
- use it: `voile.app.notebook.open_workspace`, or `voile explain NAME rows.csv`
- read it without opening anything: `WorkspaceFile`
"""

from voile.app.workspace.file import AccountTable, WorkspaceFile
from voile.app.workspace.ledger_comparison import check_ledger, declared_beside
from voile.app.workspace.starting import (
    StartedWorkspace,
    release_name,
    start_workspace,
    workspace_text,
)

__all__ = [
    "AccountTable",
    "StartedWorkspace",
    "WorkspaceFile",
    "check_ledger",
    "declared_beside",
    "release_name",
    "start_workspace",
    "workspace_text",
]
