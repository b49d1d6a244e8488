"""Whether an account protects what a release speaks about."""

from __future__ import annotations

from voile.core.errors import Refused
from voile.core.guarantee import ProtectedUnit, Relation
from voile.ledger import Account


def check_account(
    account: Account, *, dataset: str, unit: ProtectedUnit, relation: Relation
) -> None:
    """Refuse an account for another data set, unit or relation."""
    for name, speaks in (("dataset", dataset), ("unit", unit), ("relation", relation)):
        protects = getattr(account, name)
        if protects != speaks:
            raise Refused(
                f"account {account.name!r} is for the {name} {str(protects)!r}, the release speaks "
                f"about {str(speaks)!r}; nothing was computed or charged"
            )
