"""Artefacts that are made from protected records once, paid for, and then used for ever.

What is made (`OneTimeArtefact`) states what was promised and names its charge; nothing takes it
before. Nothing is paid for by say-so: only what a ledger keeps under a charge has one
(`paid_artefact`). How it is made is a release like any other (`ArtefactRelease`), which holds the
records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

from voile.core.errors import Refused
from voile.core.guarantee import Protected, Relation
from voile.core.schema import Schema
from voile.privacy.events import PrivacyEvent
from voile.release.charged import ChargedRelease
from voile.release.contract import Release
from voile.release.records import Records

STORED: Final = Path("stored answer")
"""What a damaged one is called in errors."""


@dataclass(frozen=True, kw_only=True)
class OneTimeArtefact:
    """Something that can be used for ever, once it is paid for.

    Args:
        event: what has to be charged before it is used; None if it is public.
        charge: the ledger's name for the charge that paid for it. A changed copy has none.
    """

    event: PrivacyEvent | None
    charge: str | None = field(default=None, init=False)
    what: ClassVar[str]
    paid_with: ClassVar[str]
    """What makes and charges it, in `voile`."""

    def check_paid(self) -> None:
        """Refuse what came from protected records and was not paid for."""
        if self.event is not None and not self.charge:
            raise Refused(
                f"these {self.what} were made from protected records and nobody was charged for "
                f"them: voile.{self.paid_with} makes and charges them"
            )


Artefact = TypeVar("Artefact", bound=OneTimeArtefact)


class PaidCharges(Protocol):
    """A ledger that can be asked what a charge paid for."""

    def paid_answer(self, charge: str, event: PrivacyEvent | None, protected: Protected) -> bytes:
        """The answer that is kept under this charge; `Refused` if there is none, or if another
        event or something else than `protected` was charged."""


def paid_artefact(release: Release[Artefact], charge: str, charges: PaidCharges) -> Artefact:
    """What a charge paid for, as the ledger keeps it and not as anybody holds it.

    So an artefact that was drawn and not charged never has an origin with an epsilon.
    """
    protected = release.guarantees(1)[0].protected
    made = release.codec.unpack(charges.paid_answer(charge, release.cost(1), protected))
    object.__setattr__(made, "charge", charge)
    return made


@dataclass(frozen=True, eq=False)
class ArtefactRelease(ChargedRelease):
    """Makes an artefact from protected records; `draw` takes no rows.

    Args (in addition to those of `ChargedRelease`):
        records: a table or an array.
        schema: what is public about them.
    """

    records: Any = field(repr=False)
    schema: Schema
    name: ClassVar[str]
    _read: Records = field(init=False, repr=False)

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.schema.digest, self.name, self.name

    @property
    def public_size(self) -> int | None:
        """How many records there are, or nothing where their number is protected as well."""
        private = self.protected.relation is Relation.ADD_OR_REMOVE_ONE
        return None if private else len(self._read)
