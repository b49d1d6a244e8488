"""What a federation will be like, said before any budget is touched.

From what all parties have agreed on, which is public, and from the server's unprotected rows.
Nobody's protected rows are looked at: their number is declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from voile.app.federate.agreement import FederationAgreement
from voile.app.federate.base import ServerSide
from voile.app.federate.expectation import FederationPreview, PreviewWarning
from voile.app.federate.kinds import KINDS
from voile.app.federate.party import check_name
from voile.app.federate.results import reserved
from voile.core.one_thread import one_thread
from voile.privacy.mechanisms.parameters import weaknesses

_SMALL: Final = 100
_NAMED: Final = 8


def preview(agreement: FederationAgreement, server: ServerSide) -> FederationPreview:
    """Look at public facts and unprotected rows; nothing is charged, opened or written.

    `InvalidInput` for a federation that was renamed, which the run would refuse.
    """
    check_name(agreement.name, server.folder)
    with one_thread():
        found = KINDS[agreement.pipeline].preview(agreement, server)
        return replace(
            found,
            guarantee=str(agreement.plan.guarantee()),
            concerns=(
                *map(PreviewWarning, server.remarks),
                *_of_promise(agreement),
                *_of_sizes(agreement.sizes),
                *found.concerns,
            ),
            reserved="; ".join(f"reserved: {each}" for each in reserved(agreement)),
            charges=_charges(agreement),
        )


def _charges(agreement: FederationAgreement) -> str:
    """What the account of each party will pay, in words."""
    payers: dict[float, list[str]] = {}
    for name in agreement.sizes:
        payers.setdefault(agreement.epsilon_of(name), []).append(name)
    said = (
        f"ε = {epsilon:g} at δ = {agreement.delta:g} by {_listed(names)}"
        for epsilon, names in payers.items()
    )
    return f"each party pays from its own budget, at most: {'; '.join(said)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    shown = ", ".join(map(repr, names[:_NAMED]))
    return f"{shown} and {more} more" if more > 0 else shown


def _of_promise(agreement: FederationAgreement) -> Iterator[PreviewWarning]:
    for weakness in weaknesses(agreement.weakest_epsilon, agreement.delta):
        yield PreviewWarning(weakness, blocking=True)
    most = max(agreement.sizes, key=lambda name: agreement.sizes[name])
    rows = agreement.sizes[most]
    if agreement.delta * rows >= 1:
        yield PreviewWarning(
            f"delta = {agreement.delta:g} is not below one over the {rows} rows of {most!r}: "
            "publishing a whole row would keep this promise. Choose a smaller delta",
            blocking=True,
        )


def _of_sizes(sizes: Mapping[str, int]) -> Iterator[PreviewWarning]:
    small = [name for name, rows in sizes.items() if rows < _SMALL]
    if small:
        yield PreviewWarning(
            f"fewer than {_SMALL} rows at {', '.join(map(repr, small))}: updates of such a small "
            "party are mostly noise and have little weight"
        )
