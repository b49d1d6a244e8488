"""Check a ledger against the audit log, and the log against what is kept elsewhere."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from voile.cli.budget.opening import checked_place, open_database
from voile.cli.files import read_note
from voile.cli.options import DatabaseArgument, KeyOption, PolicyOption
from voile.cli.output import ExitCode, JsonOption, print_json, print_steps


def verify(
    database: DatabaseArgument,
    key: KeyOption = None,
    policy: PolicyOption = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Another copy of a checkpoint; repeatable."),
    ] = None,
    witness: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A witness to ask; repeatable.")
    ] = None,
    replay_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare stored answers with what the log commits to."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute every account from the audit log and compare; exit code 4 if a step fails.

    A database restored from an old backup is refused against the copy of the last checkpoint beside
    the signing key, other copies (--checkpoint) and witnesses. What is newer than the newest of
    them cannot be noticed; the last step says how much that is.
    """
    from voile.app.budget.verification import Evidence
    from voile.app.budget.verification import verify as check
    from voile.app.checkpoints import kept_checkpoint, read_policy
    from voile.audit_log import AuditLog, RemoteWitness, SigningKey
    from voile.ledger import Ledger, ReplayKey

    place = checked_place(database, key, policy)
    beside = kept_checkpoint(place.signing_key)
    copies = [*(checkpoint or []), *([beside] if beside.exists() else [])]
    evidence = Evidence(
        policy=read_policy(place.policy) if place.policy.exists() else None,
        checkpoints=tuple((str(path), read_note(path)) for path in copies),
        key=SigningKey.load(place.signing_key) if witness else None,
        witnesses=tuple(RemoteWitness(url) for url in witness or ()),
        replay_key=None if replay_key is None else ReplayKey.load(replay_key),
    )
    with open_database(database) as storage:
        log = storage.submit(AuditLog.open)
        found = check(storage, Ledger(), log, evidence, progress=_compared)
    if as_json:
        print_json({"verified": found.verified, "steps": [asdict(step) for step in found.steps]})
    else:
        print_steps(found)
    if not found.verified:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def _compared(done: int, size: int) -> None:
    """A line on a terminal; nothing where nobody looks."""
    if sys.stderr.isatty():
        text = "" if done >= size else f"compared {done:,} of {size:,} records"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
