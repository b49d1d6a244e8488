"""Membership of training rows, for the custodian who holds them, and for nobody else.

What is found is about members: it goes to `evaluation-not-for-release/` and nowhere else.
"""

from __future__ import annotations

from pathlib import Path

from voile.attacks.findings import MembersFinding
from voile.attacks.membership import advantage_of, losses
from voile.core.errors import Refused
from voile.datasets.tables import read_protected_table
from voile.pipelines.tables import TableRecords
from voile.workflows.artefact import load_artefact


def assess_members(artefact: Path, members: Path, others: Path) -> Path:
    """Tell rows that the model was trained on from others by its losses; says where it wrote it.

    Nothing about what was found is returned.

    Args:
        artefact: of a federation that trained the model.
        members: rows that it was trained on; protected.
        others: rows that it was not trained on, of the same kind.
    """
    opened = load_artefact(artefact)
    if members.resolve() == others.resolve():
        raise Refused(f"{members}: rows cannot be members and others at once")
    parts = [
        TableRecords.read(opened.schema, read_protected_table(path)).readable()
        for path in (members, others)
    ]
    inside, outside = (losses(opened.network, part) for part in parts)
    figures = advantage_of(-inside, -outside)
    finding = MembersFinding("membership by outputs", opened.name, figures)
    return finding.write(opened.folder.absolute().parent)
