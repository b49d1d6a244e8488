"""`voile assess`, from the command to what was found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from voile.app.artefact import Artefact, load_artefact
from voile.app.assess.members_count import MembersCounting
from voile.app.assess.run import Assessment, assess_subject
from voile.app.assess.subjects import find_subject
from voile.app.assessment_file import find_assessment
from voile.app.calls import Context
from voile.app.commands.assess import Assess
from voile.app.explain.rows import read_records
from voile.assess.members_count import MembersCount, MembersFinding, advantage_of, losses
from voile.core.errors import Refused
from voile.core.one_thread import one_thread
from voile.pipelines.tables import TableRecords
from voile.release.silence import silenced

# --- Membership of training rows, for the custodian who holds them, and for nobody else ----------
# What is found is about members: it goes to `evaluation-not-for-release/` and nowhere else.


@dataclass(frozen=True, eq=False, repr=False)
class MembersAttack:
    """Rows that a model was trained on and rows that it was not, to be told apart by its losses.

    Whatever stands in a row, an attack raises nothing, warns of nothing and returns nothing.
    """

    artefact: Artefact
    members: TableRecords
    others: TableRecords

    @classmethod
    def read(cls, artefact: Path, members: Path, others: Path) -> Self:
        """Read all of it; what is wrong with the files is told now, and not after the attack.

        Args:
            artefact: of a federation that trained the model.
            members: rows that it was trained on; protected.
            others: rows that it was not trained on, of the same kind.
        """
        opened = load_artefact(artefact)
        if members.resolve() == others.resolve():
            raise Refused(f"{members}: the same file cannot be both --members and --others")
        inside, outside = (
            read_records(opened.schema, path).readable() for path in (members, others)
        )
        MembersFinding.check_place(_place(opened))
        return cls(opened, inside, outside)

    def run(self) -> Path:
        """Says where it wrote what was found, and nothing about it."""
        with silenced():
            inside, outside = (
                losses(self.artefact.network, part) for part in (self.members, self.others)
            )
            figures: dict[str, float] = {"members": len(inside), "others": len(outside)}
            if len(inside) and len(outside):
                figures |= advantage_of(-inside, -outside)
        finding = MembersFinding("membership by outputs", self.artefact.name, figures)
        return finding.write(_place(self.artefact))


def _place(artefact: Artefact) -> Path:
    """The folder of the run."""
    return artefact.folder.absolute().parent


# --------------------------------------------------------------------------------------------------


_KEPT: Final = "findings that are on record are kept; an unfinished assessment is not"


@dataclass(frozen=True, eq=False)
class AssessResult:
    """What was tried, and what came of it.

    Args:
        findings: all that may be told, as it was written.
        counted: how many members an attacker would name, with noise; None if it was not asked.
        members: where findings on members were written, which are told nowhere.
    """

    assessment: Assessment
    findings: dict[str, Any]
    counted: MembersCount | None
    members: Path | None


def assess(command: Assess, context: Context) -> AssessResult:
    """Read everything, release the count of members, then attack for as long as was said.

    The count comes first: a party that cannot pay for it is told before the minutes of the attack.
    """
    subject, others = find_subject(command.subject), command.others
    attack = counting = None
    if command.members is not None and others is not None:
        attack = MembersAttack.read(command.subject, command.members, others)
    if command.count_members is not None and others is not None:
        counting = MembersCounting.read(command.subject, command.count_members, others)
    counted = None if counting is None else _count(counting, command, context)
    claims = len(subject.trials)
    context.say(f"{claims} claims, at most {command.minutes:g} minutes, on invented records")
    with one_thread(), context.interruptible(kept=_KEPT):
        found = assess_subject(subject, seconds=60 * command.minutes, seen=context.watch)
    findings = find_assessment(found.path.parent) or {}
    return AssessResult(found, findings, counted, None if attack is None else attack.run())


def _count(counting: MembersCounting, command: Assess, context: Context) -> MembersCount:
    with context.interruptible():
        context.say(
            "rows that --others shares with the party, not for release, to be read before the "
            f"count is published: {counting.write_copied_rows()}"
        )
        found = counting.release(caller=command.caller)
    context.say(f"count of members, with its receipt: {counting.path}, {counting.receipt.name}")
    return found
