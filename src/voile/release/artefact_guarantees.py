"""What a release of some data says about other data that its artefacts were made from."""

from __future__ import annotations

from collections.abc import Sequence

from voile.core.guarantee import Guarantee
from voile.release.origin import Origin, joint_guarantees, together, trained_privately


def carried_forward(origins: Sequence[Origin]) -> tuple[Guarantee, ...]:
    """What training promised, as it is: a release of other rows takes nothing from it."""
    covered = [trained_privately(*origin.guarantees) for origin in origins if origin.guarantees]
    return joint_guarantees(covered)


def with_earlier(charged: Guarantee, earlier: Sequence[Guarantee]) -> tuple[Guarantee, ...]:
    """`charged`, with those of `earlier` that are about its records added; then the others.

    Artefacts that were made from the protected rows themselves have told something about them
    already: the first guarantee is about both together (basic composition). What is charged for the
    release stays what its own noise costs; the artefacts were paid for when they were made. Refused
    if the two speak of different units or relations.
    """
    return together([charged, *earlier])


def notes_on_unprotected_data(origins: Sequence[Origin]) -> tuple[str, ...]:
    """A note about each data set that an artefact was made from without a guarantee."""
    uncovered = frozenset[str]().union(*(origin.unprotected for origin in origins))
    return tuple(
        f"nothing is promised about {label!r}, on which an artefact was trained without "
        "differential privacy"
        for label in sorted(uncovered)
    )
