"""What the steps of the walk read, all at once: a statement costs more than what it is about.

Questions are put together from what accounts promise. That never changes while an account keeps its
terms, so what was read before will do, if the terms turn out to be the same (`AccountsByName`).
Then the accounts, and what the log is known by, are read in one statement, and what was answered
before in another one, for questions to accounts that were ever charged.

Nothing is decided here: a step that needs anything else reads it itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeAlias

from voile.app.explain.charging import AccountQuestions, recognisable
from voile.records.ledger import Account
from voile.records.rule_book import book_rows
from voile.records.storage import Reader
from voile.records.storage.session import ReadOnce
from voile.records.vault import Vault

AccountOf: TypeAlias = Callable[[str], Account]
"""What an account of this name promises; `InvalidInput` if there is none."""


class NotRemembered(Exception):
    """Nothing was read about an account yet."""


class RememberedAccounts:
    """Accounts as they were last read in this process."""

    def __init__(self, vault: Vault) -> None:
        self._ledger = vault.ledger
        self._given: dict[str, Account] = {}

    def __call__(self, name: str) -> Account:
        found = self._ledger.remembered(name)
        if found is None:
            raise NotRemembered(name)
        self._given[name] = found
        return found

    def hold(self, t: Reader) -> bool:
        """Whether they have the same terms now."""
        ledger = self._ledger
        return all(
            ledger.is_open(t, name) and ledger.account(t, name) is account
            for name, account in self._given.items()
        )


def read_ahead(
    vault: Vault, t: ReadOnce, questions: Sequence[AccountQuestions], *, append: bool
) -> None:
    """Accounts, what the log is known by, and earlier answers.

    Args:
        append: records will be appended to the log.
    """
    names = chain.from_iterable([each.accounts for each in questions])
    t.get_all(vault.ledger.rows(names) + vault.log.rows(t, append=append) + book_rows(t))
    if len(questions) > 1:
        vault.ledger.answered_all(
            t, [a for each in questions for a in recognisable(vault, t, each)]
        )
