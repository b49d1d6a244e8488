"""What a release of some data says about other data that its artefacts were made from."""

from __future__ import annotations

from collections.abc import Sequence

from voile.core.guarantee import Guarantee
from voile.release.origin import Origin, joint_guarantees, trained_privately


def carried_forward(origins: Sequence[Origin]) -> tuple[Guarantee, ...]:
    """What training promised, as it is: a release of other rows takes nothing from it."""
    return joint_guarantees([trained_privately(*origin.guarantees) for origin in origins])


def not_promised(origins: Sequence[Origin]) -> tuple[str, ...]:
    """A note about each data set that an artefact was made from without a guarantee."""
    uncovered = frozenset[str]().union(*(origin.unprotected for origin in origins))
    return tuple(
        f"nothing is promised about {label!r}, on which an artefact was trained without "
        "differential privacy"
        for label in sorted(uncovered)
    )
