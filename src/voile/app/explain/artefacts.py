"""Artefacts: paid for once, then used for ever; several of them one after the other.

Each is a release like any other (`PrivateHistograms`, `PrivateClusters`), about what the account
protects, and is obtained from the service: asking again gives the same artefact, at no cost.

Where later ones depend on what the first ones said, each is one transaction: after an interruption
the first ones are stored, and only the rest is paid for. Nothing is charged where not all of them
would fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from voile.app.explain.charging import AccountQuestions, record_refusal
from voile.app.explain.questions import ReleaseTerms
from voile.app.explain.service import ReleaseService
from voile.app.explain.walk import look_now
from voile.core.errors import BudgetExceeded
from voile.core.schema import Schema
from voile.privacy.events import Composed, PrivacyEvent
from voile.records.ledger import check_fits
from voile.records.storage import Reader
from voile.records.vault import Vault
from voile.release import Clusters, PrivateClusters, PrivateHistograms, Release, SyntheticBackground
from voile.release.feature_clusters import CLUSTERS


def ask_artefact(
    vault: Vault,
    release: Release[Any],
    payer: str,
    *,
    caller: str,
    event: PrivacyEvent | None = None,
    fresh: bool = False,
) -> AccountQuestions:
    """The question for what a release makes once, charged as this event if that is another one."""
    request = ReleaseTerms(release).artefact(payer, caller=caller, purpose=release.title)
    request = request if event is None else replace(request, event=event)
    return AccountQuestions.to_account(vault, vault.account(payer), [request], fresh=fresh)


def is_answered(vault: Vault, asked: AccountQuestions) -> bool:
    """Whether all of it was paid for before."""
    looked = look_now(vault, asked)
    return not isinstance(looked, Exception) and None not in looked[1]


def check_rest_fits(vault: Vault, asked: AccountQuestions, rest: Sequence[PrivacyEvent]) -> None:
    """Refuse before a release is charged if those after it would not fit any more.

    If it was paid for already, those after it are looked at when they are asked for.

    Args:
        asked: the question for the release.
        rest: what those after it cost.
    """

    def look(t: Reader) -> BudgetExceeded | None:
        if not asked.fresh and vault.ledger.answered(t, asked.asked[0]) is not None:
            return None
        first = asked.charges[0]
        together = replace(first, event=Composed((first.event, *rest)))
        try:
            check_fits(vault.ledger, t, asked.account, [together])
        except BudgetExceeded as exceeded:
            return exceeded
        return None

    refused = vault.storage.read_snapshot(look)
    if refused is not None:
        vault.storage.submit(lambda t: record_refusal(vault, t, asked, refused))
        raise refused


@contextmanager
def partly_paid(paid: int, of: int) -> Iterator[None]:
    """Say with a refusal what was paid for: somebody else may spend between two releases."""
    try:
        yield
    except BudgetExceeded as error:
        if not paid:
            raise
        said = str(error).replace("nothing was charged", "this release was not charged")
        raise BudgetExceeded(
            f"{said} {paid} of {of} releases are paid for and stored: with enough budget, the same "
            "command pays only for the rest",
            remaining=error.remaining,
            requested=error.requested,
        ) from error


def records_so_far(service: ReleaseService) -> int:
    """How many there are in the log, for `charged_since`."""
    vault = service.vault
    return vault.storage.read_snapshot(lambda t: vault.log.head(t).size)


def charged_since(service: ReleaseService, charges: Sequence[str], records: int) -> tuple[str, ...]:
    """Which of these came after so many records; the others were answered before."""
    vault = service.vault

    def find(t: Reader) -> tuple[str, ...]:
        return tuple(each for each in charges if vault.ledger.paid(t, each).record >= records)

    return vault.storage.read_snapshot(find)


# --- Artefacts that are paid for once and then used for ever: a background, clusters --------------


CUSTODIAN = "custodian"


def paid_synthetic_background(
    service: ReleaseService,
    account: str,
    records: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    size: int = 1_000,
    caller: str = CUSTODIAN,
) -> SyntheticBackground:
    """Rows that anybody may see, made from protected records and charged to an account.

    Args:
        account: who pays; it names data set and relation.
        records: the protected records.
        epsilon, delta: of the publication, once.
        size: see `voile.release.PrivateHistograms`, which `ReleaseService.obtain` takes as well.
    """
    release = PrivateHistograms(
        records,
        schema,
        protected=service.vault.account(account).protected,
        epsilon=epsilon,
        delta=delta,
        size=size,
    )
    subject = f"{release.name} of {size} rows"
    return service.obtain(release, payer=account, caller=caller, subject=subject)


def paid_clusters(
    service: ReleaseService,
    account: str,
    records: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    count: int = CLUSTERS,
    caller: str = CUSTODIAN,
) -> Clusters:
    """Clusters of features for the aggregate level, found in protected records and charged.

    Args:
        account: who pays; it names data set and relation.
        records: the protected records.
        epsilon, delta: of the publication, once.
        count: see `voile.release.PrivateClusters`.
    """
    release = PrivateClusters(
        records,
        schema,
        protected=service.vault.account(account).protected,
        epsilon=epsilon,
        delta=delta,
        count=count,
    )
    subject = f"at most {count} {release.name}"
    return service.obtain(release, payer=account, caller=caller, subject=subject)
