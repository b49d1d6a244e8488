"""What `voile.toml` says about rules, put in force; and the channels that it names."""

from __future__ import annotations

from voile.app.compliance.delivery import Channel
from voile.app.compliance.enforcement import put_in_force
from voile.app.workspace.file import WorkspaceFile
from voile.compliance import RuleSet
from voile.records.vault import Vault


def apply_rules(file: WorkspaceFile, vault: Vault) -> bool:
    """Put the rules of the file in force, on record; true if others were before.

    A file that says nothing about rules changes nothing: `rules = []` ends all of them.
    """
    if "rules" not in file.tables.model_fields_set:
        return False
    return put_in_force(vault, RuleSet(file.tables.rules))


def channels_of(file: WorkspaceFile) -> list[Channel]:
    """Where alerts are sent."""
    return [each.channel(file.folder) for each in file.tables.notify]
