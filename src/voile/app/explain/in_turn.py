"""Several releases, where the later ones depend on what the first ones said.

A `ReleaseChain` pays for all of them in one transaction: nobody pays for a part and is refused the
rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from voile.app.explain.charging import (
    AccountQuestions,
    NoisyAnswer,
    Refusal,
    settle,
)
from voile.app.explain.questions import ReleaseTerms
from voile.app.explain.service import ReleaseService
from voile.app.explain.walk import affordable, look, look_now, to_keep
from voile.privacy.events import Composed, PrivacyEvent
from voile.records.ledger import ChargedAnswer
from voile.records.storage import Reader, Transaction
from voile.records.vault import Vault
from voile.release import Release
from voile.release.one_time import OneTimeArtefact, paid_artefact

Made: TypeAlias = Sequence[OneTimeArtefact]
"""What the first releases of a chain made, in order."""


class _Overtaken(Exception):
    """Somebody else was charged in between: nothing of the transaction is kept."""


@dataclass(frozen=True, eq=False)
class ReleaseChain:
    """Releases of which each depends on what those before it made, and all of which are paid for.

    Guarantees
        1. All that is not paid for yet is charged in one transaction, or nothing is.
        2. Nothing is drawn that would not fit, and nothing leaves that is not charged.
        3. Asking again gives the same, at no cost; of two who ask at once, one pays.

    Args:
        service: what charges.
        following: the next release, after what was made.
        events: what each costs, in order.
        payer, caller: as in `ReleaseService.answer`.
        fresh: pay for all of them again.
    """

    service: ReleaseService
    following: Callable[[Made], Release[Any]]
    events: tuple[PrivacyEvent, ...]
    payer: str
    caller: str
    fresh: bool = False

    def paid_before(self) -> list[OneTimeArtefact]:
        """What need not be paid for any more. An earlier version paid for them one by one."""
        made: list[OneTimeArtefact] = []
        while not self.fresh and len(made) < len(self.events):
            release = self.following(made)
            found = look_now(self._vault, self._asked([release]))
            stored = None if isinstance(found, Exception) else found[1][0]
            if stored is None:
                break
            made.append(paid_artefact(release, stored.charge, self.service))
        return made

    def obtain(self) -> list[OneTimeArtefact]:
        """What all of them made, paid for; `BudgetExceeded` before anything is drawn."""
        while True:
            made = self.paid_before()
            if len(made) == len(self.events):
                return made
            self._check_fits(made)
            charges = self._charge(made)
            if charges is None:
                continue
            for charge in charges:
                made.append(paid_artefact(self.following(made), charge, self.service))
            return made

    def affordable(self) -> tuple[str, ...]:
        """What is to be said to somebody who asks beforehand."""
        made, of = self.paid_before(), len(self.events)
        rest = self._rest(made[: of - 1])
        said = affordable(self._vault, rest, self.payer, rest.requests[0].event)
        if not made or len(made) == of:
            return said
        return tuple(f"{len(made)} of {of} releases are paid for; the rest {each}" for each in said)

    # --- one transaction ------------------------------------------------------------------------

    def _check_fits(self, made: Made) -> None:
        (found,) = look(self._vault, lambda _: [self._rest(made)])
        if isinstance(found, Exception):
            raise found

    def _charge(self, made: Made) -> list[str] | None:
        """The charges of all that was not made; None if somebody else was first with some of it."""
        drawn: list[OneTimeArtefact] = []
        while True:
            names = self._next_charges(len(self.events) - len(made))
            releases = self._drawn(made, drawn, names)
            asked, kept = self._asked(releases), dict(enumerate(map(to_keep, releases, drawn)))
            settled: list[ChargedAnswer] | Refusal | None = None
            with suppress(_Overtaken):
                charge = partial(self._settle, asked, kept, names)
                settled = self._vault.storage.submit(charge)
            if isinstance(settled, Exception):
                raise settled
            if settled is not None:
                self.service.tell([a for each in settled if each.grant for a in each.grant.alerts])
                return names
            if self.paid_before()[len(made) :]:
                return None

    def _settle(
        self,
        asked: AccountQuestions,
        drawn: Mapping[int, NoisyAnswer],
        names: Sequence[str],
        t: Transaction,
    ) -> list[ChargedAnswer] | Refusal:
        """Step 3 of the walk, for all questions; a refusal is returned, so it stays on record."""
        if not self.fresh and self._vault.ledger.answered(t, asked.asked[0]) is not None:
            raise _Overtaken
        settled = settle(self._vault, t, asked, drawn)
        # Each question names the charges of those before it, so they must be as foreseen.
        if not isinstance(settled, Exception) and [each.charge for each in settled] != names:
            raise _Overtaken
        return settled

    def _next_charges(self, count: int) -> list[str]:
        ledger = self._vault.ledger
        return self._vault.storage.read_snapshot(
            lambda t: ledger.next_charges(t, self.payer, count)
        )

    def _drawn(
        self, made: Made, drawn: list[OneTimeArtefact], names: Sequence[str]
    ) -> list[Release[Any]]:
        """The releases, if these will be their charges; what they make is drawn once."""
        releases: list[Release[Any]] = []
        for place, name in enumerate(names):
            releases.append(self.following([*made, *drawn[:place]]))
            if place == len(drawn):
                drawn.append(releases[-1].draw(None))
            object.__setattr__(drawn[place], "charge", name)
        return releases

    # --- questions ------------------------------------------------------------------------------

    @property
    def _vault(self) -> Vault:
        return self.service.vault

    def _rest(self, made: Made) -> AccountQuestions:
        """All that is not made yet as one question, at the price of all of it."""
        asked = self._asked([self.following(made)])
        event = Composed(self.events[len(made) :])
        requests = (replace(asked.requests[0], event=event),)
        charges = (replace(asked.charges[0], event=event),)
        return replace(asked, requests=requests, charges=charges)

    def _asked(self, releases: Sequence[Release[Any]]) -> AccountQuestions:
        requests = [
            ReleaseTerms(each).artefact(self.payer, caller=self.caller, purpose=each.title)
            for each in releases
        ]
        account = self._vault.account(self.payer)
        return AccountQuestions.to_account(self._vault, account, requests, fresh=self.fresh)


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


def charged_at(service: ReleaseService, charge: str) -> float:
    """When something was paid for; seconds since 1970."""
    vault = service.vault
    return vault.storage.read_snapshot(lambda t: vault.ledger.paid(t, charge).kept.time)
