"""Open accounts, show them, renew them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voile.cli.budget.opening import AccountArgument, open_books, open_to_read
from voile.cli.options import CallerOption, DatabaseArgument, KeyOption, PolicyOption
from voile.cli.output import JsonOption, console, exit_code, print_facts, print_json
from voile.cli.rounds import say_if_weak

if TYPE_CHECKING:
    from voile.app.checkpoints import Kept
    from voile.core.storage import Reader
    from voile.ledger import AccountNode
    from voile.privacy.events import PrivacyEvent


def open_(
    database: DatabaseArgument,
    account: AccountArgument,
    dataset: Annotated[str, typer.Option(help="Label of the data set's version.")],
    epsilon: Annotated[float, typer.Option(help="The promise.")],
    delta: Annotated[float, typer.Option(help="The promise.")],
    unit: Annotated[
        str,
        typer.Option(help="row, 'explained row', user, client, or 'declared columns of a row'."),
    ] = "row",
    column: Annotated[
        list[str] | None, typer.Option(help="A declared column, for that unit; repeatable.")
    ] = None,
    relation: Annotated[
        str, typer.Option(help="'blank one', 'replace one' or 'add or remove one'.")
    ] = "blank one",
    parent: Annotated[str | None, typer.Option(help="The account above; none for a root.")] = None,
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Accounts below it concern disjoint records.")
    ] = False,
    order: Annotated[
        list[float] | None, typer.Option(help="Rényi order, for DP-SGD; repeatable.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON list of events: a plan, no filter.")
    ] = None,
    shares_rows_with: Annotated[
        list[str] | None, typer.Option(help="Another version with common rows; repeatable.")
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="It is open and was never charged: give it other terms."),
    ] = False,
    by: CallerOption = "custodian",
    key: KeyOption = None,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open an account: the root of a data set, or one below another account."""
    from voile.app.budget import open_budget
    from voile.core.guarantee import Protected, ProtectedUnit, Relation
    from voile.ledger import Adaptive, Children, Opening, Planned

    protected = Protected(
        _member(ProtectedUnit, unit), _member(Relation, relation), dataset, tuple(column or ())
    )
    spending = Adaptive(tuple(order or ())) if plan is None else Planned(_events(plan))
    asked = Opening(
        name=account,
        protected=protected,
        epsilon=epsilon,
        delta=delta,
        spending=spending,
        parent=parent,
        children=Children.PARALLEL if parallel else Children.SEQUENTIAL,
        shares_rows_with=tuple(shares_rows_with or ()),
    )
    say_if_weak(epsilon, delta)
    with open_books(database, key, policy) as custody:
        done = open_budget(
            custody.storage, custody.ledger, custody.log, asked, caller=by, again=again
        )
        kept = custody.keep()
    said = {"opened": account, "composition": done.account.composition, "entry": done.entry}
    _say_kept(said, kept, as_json=as_json)


def show(
    database: DatabaseArgument,
    account: Annotated[
        str | None, typer.Argument(metavar="ACCOUNT", help="Only this one and those below.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List accounts as a tree: what they promise, what is used, how risky that is."""
    from voile.ledger import Ledger, Risk, share_of

    ledger = Ledger()

    def nodes(t: Reader) -> list[AccountNode]:
        if account is None:
            return ledger.nodes(t)
        return [ledger.node(t, account), *ledger.below(t, account)]

    with open_to_read(database) as storage:
        found = storage.read_snapshot(lambda t: [(each, share_of(t, each)) for each in nodes(t)])
    lines = [
        _facts(node)
        | {"consumed": share, "risk": Risk.of(share, node.account.epsilon, node.account.delta)}
        for node, share in found
    ]
    if as_json:
        print_json({"accounts": lines})
        return
    _print_tree(lines)


def renew(
    database: DatabaseArgument,
    account: AccountArgument,
    reason: Annotated[str, typer.Option(help="Why; written into the audit log.")],
    by: CallerOption = "custodian",
    key: KeyOption = None,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a new period for an account and all below it. What was released stays released."""
    from voile.app.budget import renew_budget
    from voile.ledger import budget_report

    with open_books(database, key, policy) as custody:
        done = renew_budget(
            custody.storage, custody.ledger, custody.log, account, reason=reason, caller=by
        )
        life = custody.storage.read_snapshot(
            lambda t: budget_report(custody.ledger, t, account)
        ).lifetime
        kept = custody.keep()
    said = {"renewed": account, "period": done.period, "entry": done.entry}
    said |= {"lifetime_epsilon": life.epsilon, "lifetime_promised": life.promised_epsilon}
    _say_kept(said, kept, as_json=as_json)


def _say_kept(said: dict[str, Any], kept: Kept, *, as_json: bool) -> None:
    """What was done is done, whatever became of the checkpoint after it."""
    more = {"checkpoint": str(kept), "missing_cosignatures": kept.missing}
    print_facts(said | more, as_json=as_json)
    if kept.error is not None:
        raise typer.Exit(exit_code(kept.error))


def _events(path: Path) -> tuple[PrivacyEvent, ...]:
    from voile.core.errors import InvalidInput
    from voile.core.input_file import read_json
    from voile.privacy.events import from_dict

    stored = read_json(path)
    if not isinstance(stored, list):
        raise InvalidInput(f"{path}: expected a JSON list of events")
    return tuple(from_dict(each) for each in stored)


def _member(kind: Any, value: str) -> Any:
    from voile.core.errors import InvalidInput

    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(repr(str(member)) for member in kind)
        raise InvalidInput(f"expected one of {choices}, found {value!r}") from None


def _facts(node: AccountNode) -> dict[str, Any]:
    account = node.account
    return {
        "account": account.name,
        "parent": account.parent,
        **account.protected.texts,
        "epsilon": account.epsilon,
        "delta": account.delta,
        "composition": account.composition,
        "children": account.children.value,
        "period": node.balance.period,
    }


def _print_tree(lines: list[dict[str, Any]]) -> None:
    from rich.table import Table

    depth: dict[str, int] = {}
    table = Table("account", "promise", "composition", "used", "risk", "period", title="Budgets")
    for line in lines:
        depth[line["account"]] = depth.get(line["parent"] or "", -1) + 1
        table.add_row(
            "  " * depth[line["account"]] + line["account"],
            f"ε = {line['epsilon']:g}, δ = {line['delta']:g}",
            line["composition"],
            f"{line['consumed']:.1%}",
            line["risk"],
            str(line["period"]),
        )
    console().print(table)
