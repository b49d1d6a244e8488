"""Commands about what a party keeps as a whole."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, custodian_field


class EraseAnswers(Command):
    """Erase stored answers from before a date, and what names the people they were about.

    Also erased: who got them, which requests were repeated, and names of holders of keys that had
    ended by then. Charges, budgets and the log stay: receipts in other hands can still be verified.
    An erased answer is never given again: who asks again is charged again. An SQLite file is
    rewritten, so that nothing is left in it; backups are not reached.

    >>> EraseAnswers(before="2026-01-01").preview
    False
    """

    before: str = custodian_field(
        "Date, or date and time, in UTC.", example="2026-01-01", metavar="DATE"
    )
    workspace: Path = custodian_field(
        "The workspace.", default=Path("voile.toml"), option="--workspace", metavar="FILE|DIR"
    )
    preview: bool = custodian_field("Count what would be erased, and erase nothing.", default=False)
    sure: bool = custodian_field("Erase without asking.", default=False, option="--yes")
