"""How values are spelled inside identities: as tags and figures, and as version 1 did.

What version 1 wrote must never change, whatever classes are called now: stored answers are found by
digests of it (`ReleaseIdentity`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final

from voile.core.guarantee import Guarantee
from voile.models.outputs import Box, DeclaredOutputs, Simplex
from voile.release.contract import parameters
from voile.release.origin import Origin

_WORDS: Final = frozenset({"mechanism", "composition", "public_facts", "assumptions"})
"""What a guarantee says in sentences."""


def outputs_identity(outputs: DeclaredOutputs) -> dict[str, object]:
    """A declared output set: its tag and its bounds."""
    match outputs:
        case Box(lower, upper):
            return {"set": "box", "lower": lower, "upper": upper}
        case Simplex():
            return {"set": "simplex"}
    raise TypeError(f"{outputs!r} has no tag: name it in voile.release.identities")


def outputs_v1(outputs: DeclaredOutputs) -> str:
    """The same as version 1 spelled it."""
    match outputs:
        case Box(lower, upper):
            return f"Box(lower={lower!r}, upper={upper!r})"
        case Simplex():
            return "Simplex()"
    raise TypeError(f"{outputs!r} did not exist in version 1")


def origins_identity(origins: Iterable[Origin]) -> str:
    """A digest of what origins promise and leave open.

    Two releases that differ in what is known about their artefacts are two questions: the answer to
    the one must not be given again, with its guarantees, as an answer to the other. What a
    guarantee says in words (mechanism, assumptions) does not count: its figures do.
    """
    return _digest(origins, _promise)


def origins_v1(origins: Iterable[Origin]) -> str:
    """The same as version 1 spelled it: guarantees with all their words."""
    return _digest(origins, Guarantee.to_dict)


def _promise(guarantee: Guarantee) -> dict[str, Any]:
    return {name: each for name, each in guarantee.to_dict().items() if name not in _WORDS}


def _digest(origins: Iterable[Origin], stated: Callable[[Guarantee], dict[str, Any]]) -> str:
    said = sorted(
        parameters(
            {
                "guarantees": sorted(parameters(stated(each)) for each in origin.guarantees),
                "unprotected": sorted(origin.unprotected),
            }
        )
        for origin in origins
        if origin.datasets
    )
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]
