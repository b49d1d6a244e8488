"""What makes the result of a federation useless, in words for whoever reads no further."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from voile.pipelines.objectives import BLACK_BOX, SURROGATE

_UNSTABLE: Final = 0.5
"""Under it, explanations say more about the noise than about people."""


def alarms(figures: Mapping[str, Any], *, unused: Collection[str] = ()) -> list[str]:
    """From the figures of an artefact; none where they were not measured.

    Args:
        unused: what the reader is shown nothing of, such as the surrogate.
    """
    quality = figures.get("quality")
    said = [
        f"The {shown_name(what, quality or {})}: {line}."
        for what, found in (quality or {}).items()
        for line in found["alarms"]
        if what not in unused
    ]
    if quality is None:  # no open rows: what the charged numbers say counts
        charged = figures.get("charged_quality", {})
        said += [f"The model: {line}." for line in charged.get("alarms", ())]
    if quality is not None and not quality:
        said.append("No held-out row could be read, so nobody knows how good this is.")
    said += [f"{line}." for line in figures.get("trust", {}).get("alarms", ())]
    cosine = figures.get("stability", {}).get("cosine", 1.0)
    if cosine < _UNSTABLE:
        said.append(
            "Single explanations are mostly noise: with other noise, their cosine to these would "
            f"be about {cosine:.2f} (an estimate; 1 is the same, 0 has nothing in common). Use "
            "more rows, fewer features, a coarser level, or a larger epsilon."
        )
    return said


def shown_name(what: str, quality: Mapping[str, Any]) -> str:
    """The word for a judged model: it is a black box only where a surrogate imitates it.

    Figures keep the stored name.
    """
    return "model" if what == BLACK_BOX and SURROGATE not in quality else what
