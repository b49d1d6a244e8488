"""Artefacts that are made from protected records once, paid for, and then used for ever.

What is made (`MadeOnce`) states what was promised and names its charge; nothing takes it before.
How it is made is a release like any other (`ArtefactRelease`), which holds the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from voile.core.errors import Refused
from voile.core.guarantee import Relation
from voile.core.schema import Schema
from voile.privacy.events import PrivacyEvent
from voile.release.charged import ChargedRelease
from voile.release.contract import RowsAre
from voile.release.records import Records

STORED: Final = Path("stored answer")
"""What a damaged one is called in errors."""


@dataclass(frozen=True, kw_only=True)
class MadeOnce:
    """Something that can be used for ever, once it is paid for.

    Args:
        event: what has to be charged before it is used; None if it is public.
        charge: the ledger's name for the charge that paid for it.
    """

    event: PrivacyEvent | None
    charge: str | None = None
    what: ClassVar[str]
    paid_with: ClassVar[str]
    """What makes and charges it, in `voile`."""

    def check_paid(self) -> None:
        """Refuse what came from protected records while nobody has paid for it."""
        if self.event is not None and not self.charge:
            raise Refused(
                f"these {self.what} were made from protected records and nobody was charged for "
                f"them: voile.{self.paid_with} makes and charges them"
            )

    def paid_by(self, charge: str) -> Self:
        return replace(self, charge=charge)


@dataclass(frozen=True, eq=False)
class ArtefactRelease(ChargedRelease):
    """Makes an artefact from protected records; `draw` takes no rows.

    Args: besides those of `ChargedRelease`:
        records: a table or an array.
        schema: what is public about them.
    """

    records: Any = field(repr=False)
    schema: Schema
    name: ClassVar[str]
    _read: Records = field(init=False, repr=False)

    @property
    def rows_are(self) -> RowsAre:
        return RowsAre.NOTHING

    @property
    def asked(self) -> tuple[str, str, str]:
        return self.schema.digest, self.name, self.name

    @property
    def public_size(self) -> int | None:
        """How many records there are, or nothing where their number is protected as well."""
        private = self.protected.relation is Relation.ADD_OR_REMOVE_ONE
        return None if private else len(self._read)
