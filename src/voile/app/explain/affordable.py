"""Whether an account can pay for a release, and which share of it that takes; only reads."""

from __future__ import annotations

from voile.app.explain.charging import AccountQuestions
from voile.app.explain.walk import look_now
from voile.privacy.accounting.measures import consumed
from voile.privacy.events import PrivacyEvent
from voile.records.ledger import would_cost
from voile.records.storage import Reader
from voile.records.vault import Vault


def affordable(
    vault: Vault, questions: AccountQuestions, payer: str, event: PrivacyEvent
) -> tuple[str, ...]:
    """What is to be said to somebody who asks beforehand."""
    looked = look_now(vault, questions)
    if isinstance(looked, Exception):
        return (f"as things stand, refused: {looked}",)
    if all(stored is not None for stored in looked[1]):
        return ("answered before: the same is given again at no cost, unless asked with --fresh",)
    below = any(each.question.account != payer for each in looked[0].requests)
    return (vault.storage.read_snapshot(lambda t: _share(vault, t, payer, event, below)),)


def _share(vault: Vault, t: Reader, payer: str, event: PrivacyEvent, below: bool) -> str:
    """In words; `below` says that records pay, each from its own account below the payer's."""
    account = vault.ledger.account(t, payer)
    if below and account.measure is not None:
        own = consumed(account.measure.cost(event), account.budgets)
        return f"fits: takes {own:.1%} of what each record has at {payer!r} for itself"
    found = would_cost(vault.ledger, t, payer, event)
    _, before, after = found.consumed[0]
    tight = max(found.consumed, key=lambda each: each[2])
    above = "" if tight[0] == payer else f"; {tight[0]!r} above it is then at {tight[2]:.1%}"
    return (
        f"fits: takes {after - before:.1%} of the account {payer!r}, of which {before:.1%} is used "
        f"and {1 - after:.1%} would be left{above}"
    )
