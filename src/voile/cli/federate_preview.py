"""The first screen of `voile federate`, before a budget is touched."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from voile.cli.rounds import say

if TYPE_CHECKING:
    from voile.app.federate import FederationAgreement, ServerSide
    from voile.app.federate.preview import FederationPreview


def checked_first(agreement: FederationAgreement, server: ServerSide, *, yes: bool) -> ServerSide:
    """Say what it will be like; `Refused` if that means nothing and nobody insists.

    Not for a run that has begun: it was decided then. What was remarked about open rows is said
    here, and left out of what is returned.
    """
    from voile.app.artefact import check_place
    from voile.app.federate.preview import preview
    from voile.app.federate.run import ARTEFACT, has_begun
    from voile.core.errors import Refused

    check_place(server.folder / ARTEFACT)
    if has_begun(server):
        return server
    found = preview(agreement, server)
    say(str(found))
    if found.grave and not yes:
        raise Refused(
            "nothing was charged, because of what is marked with ! above: "
            + "; ".join(each.text for each in found.grave)
            + ". To go on all the same, add --yes"
        )
    return replace(server, remarks=())


def as_plain(found: FederationPreview) -> dict[str, object]:
    """For programs."""
    return {
        "guarantee": found.guarantee,
        "reserved": found.reserved,
        "expected": [asdict(each) for each in found.expected],
        "attainable": None if found.attainable is None else asdict(found.attainable),
        "seconds": found.seconds,
        "concerns": [asdict(each) for each in found.concerns],
        "asks_for_yes": bool(found.grave),
    }
