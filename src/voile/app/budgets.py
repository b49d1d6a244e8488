"""Budgets, from the command to the result: accounts are opened, shown, renewed and verified."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from voile.app.budget import open_budget, renew_budget
from voile.app.budget.verification import Evidence, verify
from voile.app.calls import Context
from voile.app.commands.budget import (
    ApproveCharge,
    BudgetHistory,
    ForecastBudget,
    OpenBudget,
    RenewBudget,
    ReportBudget,
    RequestCharge,
    SetBudgetPolicy,
    ShowBudgets,
    VerifyBudgets,
)
from voile.app.output_check import check_outputs, files_of
from voile.app.workspace import declared_beside
from voile.app.workspace.ledger_comparison import difference_from
from voile.core.choices import member
from voile.core.errors import InvalidInput
from voile.core.guarantee import Protected, declared_maximum
from voile.core.input_file import read_file, read_json
from voile.core.rendering import write_page
from voile.privacy.accounting.measures import consumed
from voile.privacy.events import Gaussian, PrivacyEvent, from_dict
from voile.privacy.mechanisms.parameters import weaknesses
from voile.records.audit_log import (
    AuditLog,
    RefusalRecord,
    RemoteWitness,
    Report,
    SigningKey,
    decode_record,
)
from voile.records.audit_log.notes import LARGEST_NOTE
from voile.records.checkpoints import Kept, kept_checkpoint, read_policy
from voile.records.ledger import (
    Account,
    AccountNode,
    AccountPolicy,
    AdaptiveSpending,
    BudgetReport,
    Calendar,
    Children,
    Entry,
    Forecast,
    Ledger,
    Measure,
    Opening,
    PlannedSpending,
    ReplayKey,
    Risk,
    budget_report,
    charge_name,
    forecast,
    share_of,
)
from voile.records.ledger.event_text import unpacked
from voile.records.ledger.history import entries_of
from voile.records.storage import Reader, Storage
from voile.records.storage.opening import open_existing
from voile.records.vault import PARTS, Place, Vault, check_named, open_vault_at, usual_place

# --- What happened to an account and those below it, for people who answer for it ----------------
# The ledger's journal says who was granted what, and what for. Refusals are in the audit log alone,
# which is written to be shown and names nobody: of them the account, the time and the reason are
# known.


REFUSED: Final = "refused"
_PAGE: Final = 1000
_MARK: Final = RefusalRecord.kind.encode()


@dataclass(frozen=True)
class BudgetAct:
    """One line of the history.

    Args:
        time: seconds since 1970.
        act: opened, charged, renewed or refused.
        caller: who; empty for a refusal.
        purpose: what for, why, or the reason of a refusal.
        share: of its account's budget, for a charge that cost something; else None.
        charge: the ledger's name for it; empty for a refusal.
    """

    time: float
    act: str
    account: str
    caller: str
    purpose: str
    share: float | None
    charge: str


def budget_history(
    ledger: Ledger, log: AuditLog, t: Reader, name: str | None = None
) -> list[BudgetAct]:
    """In the order of time: of an account and those below it, or of all accounts.

    The log counts whole seconds: within one of them, refusals come last.

    Args:
        name: of the account; all of them if None.
    """
    nodes = ledger.nodes(t) if name is None else [ledger.node(t, name), *ledger.below(t, name)]
    # What is left of a plan are releases, not a sum.
    budgets = {
        node.account.name: () if node.account.is_plan else node.account.budgets for node in nodes
    }
    roots = dict.fromkeys(node.account.root for node in nodes)
    acts = [
        _act(entry, budgets[entry.account])
        for root in roots
        for entry in entries_of(t, root)
        if entry.account in budgets
    ]
    acts.sort(key=lambda act: act.time)  # each journal is in order already
    refused = (act for act in _refusals(log, t) if name is None or act.account in budgets)
    return list(heapq.merge(acts, refused, key=lambda act: int(act.time)))


def _act(entry: Entry, budgets: tuple[float, ...]) -> BudgetAct:
    share = consumed(unpacked(entry.cost, 1)[0], budgets) if entry.cost and budgets else None
    return BudgetAct(
        time=entry.time,
        act=entry.act,
        account=entry.account,
        caller=entry.caller,
        purpose=entry.purpose,
        share=share,
        charge=charge_name(entry),
    )


def _refusals(log: AuditLog, t: Reader) -> Iterator[BudgetAct]:
    first = 0
    while page := log.records(t, first=first, limit=_PAGE):
        for content in page:
            record = decode_record(content) if _MARK in content else None
            if isinstance(record, RefusalRecord):
                yield BudgetAct(record.time, REFUSED, record.account, "", record.reason, None, "")
        first += len(page)


# --------------------------------------------------------------------------------------------------


_Change: TypeAlias = OpenBudget | RenewBudget | SetBudgetPolicy | RequestCharge | ApproveCharge


@dataclass(frozen=True)
class BudgetResult:
    """What was done to an account, and the checkpoint after it.

    Args:
        facts: by name; plain values.
    """

    facts: dict[str, Any]
    kept: Kept


@dataclass(frozen=True)
class AccountUse:
    """An account: what it promises, and how much of that is used."""

    account: str
    parent: str | None
    protected: Protected
    epsilon: float
    delta: float
    composition: str
    children: str
    period: int
    consumed: float
    risk: Risk

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        facts: dict[str, Any] = {}
        for name, value in vars(self).items():
            facts |= value.texts if isinstance(value, Protected) else {name: value}
        return facts


@dataclass(frozen=True)
class BudgetPage:
    """A budget report with what its page needs besides.

    Args:
        records_per_person: of one person at most, where somebody has declared that.
    """

    view: ClassVar[str] = "budget page"

    report: BudgetReport
    records_per_person: int | None = None


@dataclass(frozen=True)
class HistoryResult:
    """What happened, oldest first.

    Args:
        left_out: how many earlier acts are not shown.
    """

    acts: tuple[BudgetAct, ...]
    left_out: int


@dataclass(frozen=True)
class ForecastResult:
    """How long a budget lasts.

    Args:
        hours: how far back the rate was taken from.
    """

    forecast: Forecast
    hours: float


def open_account(command: OpenBudget, context: Context) -> BudgetResult:
    """Open it, on record."""
    asked = opening_of(command)
    for weakness in weaknesses(command.epsilon, command.delta):
        context.say(f"voile: warning: {weakness}")
    with opened_records(command, context) as vault:
        done = open_budget(
            vault.storage,
            vault.ledger,
            vault.log,
            asked,
            caller=command.caller,
            again=command.again,
            policy=policy_from(command, None),
        )
        kept = vault.keep()
    facts = {"opened": command.account, "composition": done.account.composition}
    facts |= _affords(done.account)
    return BudgetResult({**facts, "entry": done.entry}, kept)


def _affords(account: Account) -> dict[str, Any]:
    """What Gaussian releases pay for the orders by which pure releases fit, and what these get."""
    if account.measure is None or not account.measure.is_mixed:
        return {}
    rho, *orders = account.budgets
    lost = 1 - rho / Measure().budgets(account.epsilon, account.delta)[0]
    pure = max(0.0, *orders)
    gaussian = f"all but {lost:.2%} of the budget"
    return {"gaussian_releases": gaussian, "pure_releases": f"ε = {pure:.3g}"}


def opening_of(command: OpenBudget) -> Opening:
    """What is to be opened; `InvalidInput` if it cannot be."""
    protected = Protected(
        command.unit,
        command.relation,
        command.dataset,
        command.columns,
    )
    return Opening(
        name=command.account,
        protected=protected,
        epsilon=command.epsilon,
        delta=command.delta,
        spending=_spending(command),
        parent=command.parent,
        children=Children.PARALLEL if command.parallel else Children.SEQUENTIAL,
        shares_rows_with=command.shares_rows_with,
    )


def _spending(command: OpenBudget) -> AdaptiveSpending | PlannedSpending:
    if command.plan is not None:
        return PlannedSpending(_events(command.plan))
    if command.rho_only:
        return AdaptiveSpending(command.orders)
    return AdaptiveSpending.for_all_kinds(command.orders)


def open_or_compare(command: OpenBudget, context: Context, vault: Vault) -> Account:
    """The account of this name: opened now, or on record with these very terms."""
    asked = opening_of(command)
    found = vault.find_account(asked.name)
    if found is None:
        try:
            open_account(command, context)
        except InvalidInput:
            if vault.find_account(asked.name) is None:
                raise  # else another process was first
        found = vault.account(asked.name)
    if difference := difference_from(found, asked):
        raise InvalidInput(
            f"the budget {asked.name!r} is on record with other terms: {difference}. Reopen it "
            "with the terms on record, or choose another name for another version of the data"
        )
    return found


def policy_from(stated: OpenBudget | SetBudgetPolicy, before: AccountPolicy | None) -> Any:
    """The rules before with what is stated changed; None if nothing is stated."""
    names = ("thresholds", "renew", "cool_down", "allowance", "window", "approval")
    said = {name: getattr(stated, name) for name in names}
    changed = {name: value for name, value in said.items() if value not in (None, ())}
    if not changed:
        return before
    if "renew" in changed:
        never = changed["renew"] == "never"
        changed["renew"] = None if never else member(Calendar, changed["renew"])
        changed |= {"cool_down": 0.0} if never else {}
    if "window" in changed:
        changed["window"] = member(Calendar, changed["window"])
    return replace(before or AccountPolicy(), **changed)


def renew_account(command: RenewBudget, context: Context) -> BudgetResult:
    """Start a new period, on record."""
    name = command.account
    with opened_records(command, context) as vault:
        done = renew_budget(
            vault.storage,
            vault.ledger,
            vault.log,
            name,
            reason=command.reason,
            caller=command.caller,
        )
        found = vault.storage.read_snapshot(lambda t: budget_report(vault.ledger, t, name))
        kept = vault.keep()
    facts = {"renewed": name, "period": done.period, "entry": done.entry}
    lifetime = found.lifetime
    facts |= {"lifetime_epsilon": lifetime.epsilon, "lifetime_promised": lifetime.promised_epsilon}
    return BudgetResult(facts, kept)


def show_accounts(command: ShowBudgets, _context: Context) -> tuple[AccountUse, ...]:
    """All accounts of a database, or one and those below; parents first."""
    ledger, name = Ledger(), command.account

    def find(t: Reader) -> list[AccountUse]:
        nodes = ledger.nodes(t) if name is None else [ledger.node(t, name), *ledger.below(t, name)]
        return [_use(node, share_of(t, node)) for node in nodes]

    with reading_ledger(command.database) as storage:
        return tuple(storage.read_snapshot(find))


def report_account(command: ReportBudget, context: Context) -> BudgetReport:
    """What is used and left; with `html`, written as a page too."""
    database, page = command.database, command.html
    if page is not None:
        check_outputs([page], files_of(_place(database)))
        context.check_overwriting([page], allowed=command.overwrite)
    with reading_ledger(database) as storage:
        found = storage.read_snapshot(
            lambda t: budget_report(Ledger(), t, command.account, custodian=command.custodian)
        )
    declared = command.records_per_person
    if declared is None:
        declared = declared_beside(database, found)
    if declared is not None:
        found = _declaring(found, declared)
    if page is not None:
        write_page(BudgetPage(found, declared), page)
    return found


def _declaring(report: BudgetReport, records_per_person: int) -> BudgetReport:
    """The same, where somebody declares how many records a person has at most."""
    declared = declared_maximum(report.protected, records_per_person)
    return replace(report, assumptions=(*report.assumptions, declared))


def forecast_account(command: ForecastBudget, _context: Context) -> ForecastResult:
    """How many more answers fit, and until when."""
    event = None if command.noise is None else Gaussian(command.noise)
    window = 3600 * command.hours
    with reading_ledger(command.database) as storage:
        found = storage.read_snapshot(
            lambda t: forecast(Ledger(), t, command.account, event, window=window)
        )
    return ForecastResult(found, command.hours)


def show_history(command: BudgetHistory, _context: Context) -> HistoryResult:
    """What happened to accounts, and what was refused."""
    with reading_ledger(command.database) as storage:
        found = storage.read_snapshot(
            lambda t: budget_history(Ledger(), AuditLog.open(t), t, command.account)
        )
    shown = found[-command.last :] if command.last else found
    return HistoryResult(tuple(shown), len(found) - len(shown))


def verify_accounts(command: VerifyBudgets, context: Context) -> Report:
    """Compare every account with the log, and the log with what is kept elsewhere."""
    place = _place(command.database, command.signing_key, command.policy)
    beside = kept_checkpoint(place.signing_key)
    copies = [*command.checkpoints, *([beside] if beside.exists() else [])]
    witnesses, key = command.witnesses, command.replay_key
    evidence = Evidence(
        policy=read_policy(place.policy) if place.policy.exists() else None,
        checkpoints=tuple((str(path), read_file(path, LARGEST_NOTE)) for path in copies),
        key=SigningKey.load(place.signing_key) if witnesses else None,
        witnesses=tuple(RemoteWitness(url) for url in witnesses),
        replay_key=None if key is None else ReplayKey.load(key),
    )
    with open_existing(command.database, PARTS) as storage:
        log = storage.submit(AuditLog.open)
        return verify(storage, Ledger(), log, evidence, progress=context.steps)


# --- what they share ------------------------------------------------------------------------------


def _place(database: str, key: Path | None = None, policy: Path | None = None) -> Place:
    """As usual; what is named has to be there."""
    check_named(key, policy)
    return usual_place(database=database, signing_key=key, policy=policy)


def opened_records(command: _Change, context: Context) -> AbstractContextManager[Vault]:
    """Those that the door has open, or opened for this call."""
    if context.service is not None:
        return nullcontext(context.service.vault)
    place = _place(command.database, command.signing_key, command.policy)
    return open_vault_at(place, signing=None)


@contextmanager
def reading_ledger(database: str) -> Iterator[Storage]:
    """To look into; refused if it was set back behind the copy of the last checkpoint.

    What is beside the database decides: without its policy nobody knows whose signature counts.
    """
    place = _place(database)
    if not place.policy.exists():
        with open_existing(database, PARTS) as storage:
            yield storage
        return
    with open_vault_at(place, signing=None) as vault:
        yield vault.storage


def _use(node: AccountNode, share: float) -> AccountUse:
    account = node.account
    return AccountUse(
        account.name,
        account.parent,
        account.protected,
        account.epsilon,
        account.delta,
        account.composition,
        account.children.value,
        node.balance.period,
        share,
        Risk.from_spending(share, account.epsilon, account.delta),
    )


def _events(path: Path) -> tuple[PrivacyEvent, ...]:
    stored = read_json(path)
    if not isinstance(stored, list):
        raise InvalidInput(f"{path}: expected a JSON list of events")
    return tuple(from_dict(each) for each in stored)
