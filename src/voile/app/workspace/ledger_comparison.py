"""What the file says about log and accounts, beside what the database holds.

Nothing in the file is believed: a budget is what the ledger granted.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from voile.app.workspace.file import ENVIRONMENT, AccountTable, WorkspaceFile
from voile.core.guarantee import ProtectedUnit
from voile.records.ledger import Account, BudgetReport, Opening, policy_of
from voile.records.storage.opening import file_of
from voile.records.vault import WORKSPACE, Vault


def check_ledger(file: WorkspaceFile, vault: Vault) -> None:
    """Compare origin and accounts with what log and ledger hold: nothing here is believed."""
    origin = file.tables.origin
    if origin is not None and origin != vault.log.origin:
        raise file.toml.wrong(f"this is the log of {vault.log.origin!r}", "origin")
    for name, stated in file.tables.accounts.items():
        account = vault.find_account(name)
        if account is None:
            raise file.toml.wrong(
                f"this account is not open; open it with: {_opening(file, name, stated)}",
                *("accounts", name),
            )
        difference = difference_from(account, stated) or _other_rules(vault, name, stated)
        if difference:
            raise file.toml.wrong(difference, "accounts", name)


def _other_rules(vault: Vault, name: str, stated: AccountTable) -> str:
    """How the rules of an open account differ from those that are stated, if any are."""
    if stated.policy is None:
        return ""
    found = vault.storage.read_snapshot(lambda t: policy_of(t, name))
    if found == stated.policy:
        return ""
    return (
        f"the ledger knows these rules for it: {found.in_words}; and not: {stated.policy.in_words} "
        "(`voile budget policy` changes them)"
    )


def difference_from(account: Account | BudgetReport, stated: AccountTable | Opening) -> str:
    """In what an open account differs from what is stated about it; nothing if in nothing."""
    if account.protected != stated.protected:
        return f"the ledger knows it for {account.protected.difference(stated.protected)}"
    if (account.epsilon, account.delta) != (stated.epsilon, stated.delta):
        return (
            f"the ledger knows it with epsilon {account.epsilon:g} and delta {account.delta:g}, "
            f"not {stated.epsilon:g} and {stated.delta:g}"
        )
    return ""


def declared_beside(database: str, report: BudgetReport) -> int | None:
    """How many records a person has at most, as the workspace beside a database declares it.

    None where nothing is declared, and where the file speaks of another account of that name.
    """
    path = file_of(database)
    folder = Path() if path is None else path.absolute().parent
    if not (folder / WORKSPACE).is_file():
        return None
    stated = WorkspaceFile.read(folder).tables.accounts.get(report.account)
    if stated is None or difference_from(report, stated):
        return None
    return stated.records_per_person


def _opening(file: WorkspaceFile, name: str, stated: AccountTable) -> str:
    """The command that opens an account; an address from the environment is not repeated."""
    place, storage = file.place, file.tables.storage
    variable = storage.removeprefix(ENVIRONMENT) if storage.startswith(ENVIRONMENT) else None
    database = shlex.quote(place.database) if variable is None else f'"${variable}"'
    facts = [
        *(name, "--dataset", stated.dataset, "--unit", str(stated.unit)),
        *("--relation", stated.relation.word),
        *("--epsilon", repr(stated.epsilon), "--delta", repr(stated.delta)),
        *(word for column in stated.columns for word in ("--column", column)),
        *(["--parallel"] if stated.unit is ProtectedUnit.EXPLAINED_ROW else []),
    ]
    for option, path in (("--key", place.signing_key), ("--policy", place.policy)):
        facts += [option, str(path)] if path.exists() else []
    return f"voile budget open {database} {shlex.join(facts)}"
