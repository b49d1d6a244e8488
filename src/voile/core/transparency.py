"""What can be chosen of an explanation: how much detail, who may ask for it, how it is computed.

The published table names degrees of user control and no roles; `Role` is a ladder of four, one for
each level. `voile.release.levels` says what each level releases, and at which price.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from voile.core.errors import Refused


class Level(StrEnum):
    """How much detail an explanation shows, from least to most.

    >>> check_role(Level.GRANULAR, Role.USER)
    Traceback (most recent call last):
    voile.core.errors.Refused: level granular needs the role auditor, found user; ...
    """

    SUMMARY = "summary"
    AGGREGATE = "aggregate"
    DETAILED = "detailed"
    GRANULAR = "granular"


class Role(StrEnum):
    """Who asks, from the one who may see least to the one who may see everything.

    >>> NEEDED[Level.DETAILED].value
    'analyst'
    """

    READER = "reader"
    """Anybody: summaries."""
    USER = "user"
    """Somebody the decision concerns, or who works with it: clusters of features."""
    ANALYST = "analyst"
    """Somebody who answers for the model: every feature."""
    AUDITOR = "auditor"
    """Somebody who examines it: interactions as well."""


NEEDED: Final = dict(zip(Level, Role, strict=True))
"""The lowest role that a level is for."""


def check_role(level: Level, role: Role) -> None:
    """Refuse a level to a role that is too low for it."""
    ladder = list(Role)
    if ladder.index(role) < ladder.index(NEEDED[level]):
        allowed = [str(one) for one in Level if ladder.index(NEEDED[one]) <= ladder.index(role)]
        raise Refused(
            f"level {level!s} needs the role {NEEDED[level]!s}, found {role!s}; "
            f"this role may ask for: {', '.join(allowed)}"
        )


# --- `Method`: how an explanation is computed, where somebody chooses it -------------------------


class Method(StrEnum):
    """How attributions are computed.

    >>> Method("lime").is_shapley, Method("kernel").is_shapley
    (False, True)
    """

    EXACT = "exact"
    """Shapley values from every coalition, up to 20 players."""
    KERNEL = "kernel"
    """Shapley values by regression on drawn coalitions."""
    PERMUTATION = "permutation"
    """Shapley values from random orders; unbiased."""
    TREES = "trees"
    """Shapley values from the trees of a forest themselves."""
    SURROGATE = "surrogate"
    """Shapley values of the surrogate in an artefact."""
    LIME = "lime"
    """Coefficients of a local linear model."""
    GRADIENTS = "gradients"
    """Integrated gradients, from the background rows."""
    SALIENCY = "saliency"
    """The gradient at the row itself."""

    @property
    def is_shapley(self) -> bool:
        """Whether it gives the Shapley values of the model over the background rows."""
        return self in (Method.EXACT, Method.KERNEL, Method.PERMUTATION, Method.TREES)
