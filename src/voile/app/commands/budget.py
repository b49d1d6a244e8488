"""Commands about privacy budgets: open accounts, look at them, renew and verify them."""

from __future__ import annotations

from pathlib import Path

from voile.app.commands.fields import (
    Command,
    LedgerDatabase,
    RelationKey,
    SigningFiles,
    caller_field,
    custodian_field,
)
from voile.core.guarantee import ProtectedUnit, Relation
from voile.privacy.allocation import QueryType


class _Account(LedgerDatabase):
    account: str = custodian_field(
        "Name of the account.", example="customers", option="", metavar="ACCOUNT"
    )


class _AnyAccount(LedgerDatabase):
    account: str | None = custodian_field(
        "Show only this account and those below it.", default=None, option="", metavar="ACCOUNT"
    )


class _Act(SigningFiles):
    caller: str = custodian_field(
        "Who does this; recorded in the log.", default="custodian", formerly=("--by",)
    )


class _Rules(Command):
    """Rules beyond the budget; what is not stated stays as it is."""

    thresholds: tuple[int, ...] = custodian_field(
        "Record an alert at this percentage; repeatable. Default: 50, 75 and 90.",
        default=(),
        option="--threshold",
    )
    renew: str | None = custodian_field(
        "End a period and renew the account: daily, weekly, monthly, quarterly, yearly or never.",
        default=None,
        example="monthly",
    )
    cool_down: float | None = custodian_field(
        "Hours between two periods in which nothing is granted.", default=None, ge=0
    )
    allowance: float | None = custodian_field(
        "The share of the budget that one caller may use in a window.", default=None, ge=0, le=1
    )
    window: str | None = custodian_field(
        "Window of the allowance: daily, weekly, monthly, quarterly or yearly.", default=None
    )
    approval: float | None = custodian_field(
        "A second person approves what takes more than this share of the budget.",
        default=None,
        ge=0,
        le=1,
    )


class OpenBudget(_Rules, _Act, _Account):
    """Open an account: the root of a data set, or one below another account."""

    dataset: str = custodian_field("Label of the data set's version.", example="clinic-v1")
    epsilon: float = custodian_field(
        "The largest epsilon that all releases together may reach.",
        example=3.0,
        gt=0,
        allow_inf_nan=False,
    )
    delta: float = custodian_field("The delta that belongs to it.", example=1e-6, ge=0, lt=1)
    unit: ProtectedUnit = custodian_field(
        "row, 'explained row', user, client, or 'declared columns of a row'.",
        default=ProtectedUnit.ROW,
    )
    columns: tuple[str, ...] = custodian_field(
        "A declared column, for that unit; repeatable.", default=(), option="--column"
    )
    relation: RelationKey = custodian_field(
        "'zero-out', 'replace one' or 'add or remove one'.", default=Relation.BLANK_ONE
    )
    parent: str | None = custodian_field("The account above. Default: none, a root.", default=None)
    parallel: bool = custodian_field("Accounts below it are about disjoint records.", default=False)
    orders: tuple[float, ...] = custodian_field(
        "Rényi order, for DP-SGD; repeatable.", default=(), option="--order"
    )
    rho_only: bool = custodian_field(
        "Add up rho alone: for an account that only Gaussian releases will use.", default=False
    )
    plan: Path | None = custodian_field(
        "JSON list of events: a fixed plan instead of an open budget.", default=None, metavar="FILE"
    )
    shares_rows_with: tuple[str, ...] = custodian_field(
        "Another version of the data that shares rows; repeatable.", default=()
    )
    again: bool = custodian_field(
        "Give new terms to an open account that was never charged.", default=False
    )


class ShowBudgets(_AnyAccount):
    """List accounts as a tree: promise, use and risk."""


class RenewBudget(_Act, _Account):
    """Renew an account and all below it. What was released before stays released."""

    reason: str = custodian_field("Reason; recorded in the audit log.", example="new cohort")


class SetBudgetPolicy(_Rules, _Act, _Account):
    """Set rules beyond the budget: alerts, calendar, allowances, approval. Changes are logged."""

    reason: str = custodian_field("Reason; recorded in the audit log.", example="new year")


class _Price(Command):
    event: str | None = caller_field(
        "The event as JSON, as a refusal shows it.", default=None, metavar="JSON"
    )
    noise: float | None = caller_field("Or a noise multiplier of Gaussian noise.", default=None)
    epsilon: float | None = caller_field("Or the epsilon of a pure release.", default=None)


class RequestCharge(_Price, _Act, _Account):
    """Ask that a second person approve a charge; price and account are checked at once."""

    purpose: str = caller_field("What it is for.", example="yearly review")


class ApproveCharge(_Act, _Account):
    """Approve what somebody else asked for. The charge itself checks the price again."""

    request: str = custodian_field("Number of the request.", option="", metavar="REQUEST")


class ListApprovals(_Account):
    """List requests for approval, approvals, and the charges that used them."""


class PlanBudget(_Account):
    """Compare ways to spend what is left on so many questions. Nothing is spent.

    Equal noise answers most questions at a given noise. Algorithm 2 is that of the recommender
    framework, as published.
    """

    questions: int = caller_field("How many questions.", example=20, ge=1, le=10_000)
    kind: QueryType = caller_field(
        "Kind of question, for Algorithm 2: individual, batch or aggregate.",
        default=QueryType.INDIVIDUAL,
    )
    features: int = caller_field("Features of a question, for Algorithm 2.", default=10, ge=1)
    hours: float = caller_field("Hours between questions, for Algorithm 2.", default=1.0, gt=0)
    policy: str = custodian_field("Which to save: 'equal' or 'algorithm-2'.", default="equal")
    save_as: Path | None = custodian_field(
        "Write the events of that policy, for `voile budget open --plan`.",
        default=None,
        option="--save",
        metavar="FILE",
    )
    overwrite: bool = custodian_field(
        "Overwrite a file of this name without asking.", default=False, option="--yes"
    )


class ReportBudget(_Account):
    """Report what is used and left, the risk, and what would lower it."""

    html: Path | None = custodian_field(
        "Also write a page with the curve.", default=None, metavar="FILE"
    )
    custodian: bool = custodian_field(
        "Add the reconstruction watch; not for analysts.", default=False
    )
    records_per_person: int | None = custodian_field(
        "Declare that at most K records belong to one person. Default: as declared in voile.toml "
        "next to DATABASE.",
        default=None,
        metavar="K",
    )
    overwrite: bool = custodian_field(
        "Overwrite files of these names without asking.", default=False, option="--yes"
    )


class ForecastBudget(_Account):
    """Estimate how many more answers fit, and when the account is used up."""

    noise: float | None = caller_field("Noise multiplier of future Gaussian answers.", default=None)
    hours: float = caller_field("Hours to look back.", default=24.0)


class BudgetHistory(_AnyAccount):
    """List openings, charges, renewals and refusals, with caller and purpose, by date.

    Who was refused is not on record: refusals are in the audit log, which names nobody.
    """

    last: int = caller_field("How many of the last lines to show; 0 for all.", default=50, ge=0)


class VerifyBudgets(SigningFiles, LedgerDatabase):
    """Verify every account against the audit log; exit code 4 if a step fails.

    A database restored from an old backup is detected by the checkpoint next to the signing key,
    other copies (--checkpoint) and witnesses. Records newer than all of these cannot be checked;
    the last step says how many there are.
    """

    checkpoints: tuple[Path, ...] = custodian_field(
        "Another copy of a checkpoint; repeatable.",
        default=(),
        option="--checkpoint",
        metavar="FILE",
    )
    witnesses: tuple[str, ...] = custodian_field(
        "A witness to ask; repeatable.", default=(), option="--witness", metavar="URL"
    )
    replay_key: Path | None = custodian_field(
        "Compare stored answers with what the log commits to.", default=None, metavar="FILE"
    )
