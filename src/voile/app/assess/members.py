"""Membership of training rows, for the custodian who holds them, and for nobody else.

What is found is about members: it goes to `evaluation-not-for-release/` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from voile.app.artefact import Artefact, load_artefact
from voile.app.explain.rows import read_records
from voile.attacks.findings import MembersFinding
from voile.attacks.membership import advantage_of, losses
from voile.core.errors import Refused
from voile.pipelines.tables import TableRecords
from voile.release.silence import silenced


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
            raise Refused(f"{members}: rows cannot be members and others at once")
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
