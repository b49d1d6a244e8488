"""Commands about rules: check what they led to, try others, end a measure, send what is waiting."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, custodian_field


class _Ruled(Command):
    workspace: Path = custodian_field(
        "The workspace.",
        default=Path("voile.toml"),
        option="--workspace",
        metavar="FILE|DIR",
    )


class CheckRules(_Ruled):
    """Recompute every alert, measure and lift from the log; exit code 4 if one differs.

    With --dry-run, show what the rules of voile.toml, or of another file, would have led to on the
    same history; nothing is changed.
    """

    dry_run: bool = custodian_field("Try rules on the history instead.", default=False)
    rules: Path | None = custodian_field(
        "TOML file with the [[rules]] to try. Default: those of the workspace.",
        default=None,
        metavar="FILE",
    )


class ShowRules(_Ruled):
    """Show the rules in force, the measures in force, and what waits to be sent."""


class PutRules(_Ruled):
    """Put the rules of voile.toml in force, on record. Opening the workspace does so, too."""


class LiftMeasure(_Ruled):
    """End a measure, on record."""

    rule: str = custodian_field(
        "Name of the rule, or its beginning; `voile compliance show` lists them.",
        example="9f8cc3ff",
        option="",
        metavar="RULE",
    )
    subject: str = custodian_field(
        "The account or release that it is in force for.",
        example="clinic 2026",
        option="",
        metavar="SUBJECT",
    )
    caller: str = custodian_field(
        "Of a measure for one caller, their name in the log.", default="", metavar="NAME"
    )
    reason: str = custodian_field("Reason; recorded in the audit log.", example="checked by hand")


class SendAlerts(_Ruled):
    """Send what waits in the outbox, once. A service that runs does so by itself."""
