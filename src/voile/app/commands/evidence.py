"""`CollectEvidence`: what somebody who answers for data or for a model asks for."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import Command, custodian_field


class CollectEvidence(Command):
    """Collect what a data-protection or model-risk officer asks for, as pages and JSON.

    Each item links to a record of the log, is missing, or is for you to state. Decision pages hold
    what was answered: hand each to the person it is about, and to nobody else.

    >>> CollectEvidence(folder="evidence").last
    100
    """

    folder: Path = custodian_field(
        "A new folder.", example="evidence", option="", metavar="OUTPUT_DIR"
    )
    workspace: Path = custodian_field(
        "The workspace, or a folder with the usual files (log.db, audit.key) and models.",
        default=Path(),
        option="--workspace",
        metavar="FILE|DIR",
    )
    statements: Path | None = custodian_field(
        "What you state, in TOML. Start from statements.toml of an earlier output.",
        default=None,
        metavar="FILE",
    )
    answers: tuple[Path, ...] = custodian_field(
        "A folder with saved explanations (.voile) and their receipts; repeatable. Needed for "
        "the main factors of explanations that cost nothing, which the ledger does not store.",
        default=(),
        option="--answers",
        metavar="DIR",
    )
    last: int = custodian_field(
        "Pages for the decisions among this many answers, newest first.", default=100, ge=0
    )
