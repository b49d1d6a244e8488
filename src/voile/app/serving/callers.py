"""Who asks: what a key or a token grants, and what that allows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from voile.app.workspace.serve_table import IssuerTable
from voile.core.errors import Refused
from voile.core.transparency import Level, Role, check_role
from voile.records.access import Duty, Grants

_ANONYMOUS: Final = ":anonymous"
"""No key and no token is called so."""


class NotGranted(Refused):
    """Whoever asks may not do this."""


class NotAuthenticated(Refused):
    """Nobody has said who asks, or not in a way that is believed."""


@dataclass(frozen=True)
class Caller:
    """Somebody who asks.

    Args:
        name: of the key or token, for logs; never the caller's own name.
        grants: what they may do.
    """

    name: str
    grants: Grants

    @classmethod
    def anonymous(cls) -> Caller:
        """Anybody: free releases that say so, at the level of readers and analysts alike."""
        duties = frozenset({Duty.EXPLAIN})
        return cls(_ANONYMOUS, Grants(caller=_ANONYMOUS, duties=duties, level=Level.GRANULAR))

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody has said who it is."""
        return self.name == _ANONYMOUS

    def check_duty(self, duty: Duty) -> None:
        """Refuse what takes another duty."""
        if duty not in self.grants.duties:
            raise NotGranted(f"this needs the duty {duty.value}")

    def check_account(self, account: str) -> None:
        """Refuse an account that was not granted."""
        if not self.grants.covers(account):
            raise NotGranted("this key does not cover the account")

    def check_level(self, level: Level) -> None:
        """Refuse a level that is beyond the key's, or beyond its roles."""
        ladder = list(Level)
        if ladder.index(level) > ladder.index(self.grants.level):
            raise NotGranted(f"this key covers levels up to {self.grants.level}")
        roles = sorted(self.grants.roles, key=list(Role).index)
        try:
            check_role(level, roles[-1])
        except (Refused, IndexError):
            raise NotGranted(f"no role of this key covers the level {level}") from None


def issuer_caller(name: str, table: IssuerTable, subject: str, stated: Collection[str]) -> Caller:
    """Somebody for whom an issuer speaks; `NotGranted` without a duty that its table allows.

    Args:
        name: of the issuer, in the workspace.
        stated: duties that the issuer says.
    """
    duties = frozenset(duty for duty in table.duties if duty.value in stated)
    if not duties:
        raise NotGranted("the issuer grants nothing here")
    grants = Grants(
        caller=f"{name}:{subject}",
        duties=duties,
        roles=frozenset(table.roles),
        level=table.level,
        accounts=table.accounts,
        rate=table.rate,
    )
    return Caller(f"token of {name}", grants)
