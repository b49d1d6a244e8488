"""`voile budget`: open accounts, look at them, renew them, check them against the audit log."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voile.cli.output import ExitCode, JsonOption, console, exit_code, print_json

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from voile.audit_log import Report
    from voile.core.storage import Reader, Storage
    from voile.ledger import AccountNode
    from voile.privacy.events import PrivacyEvent
    from voile.workflows.checkpoints import Kept
    from voile.workflows.custody import Custody, Place

app = typer.Typer(
    help="Open privacy budgets, look at them, renew them, check them against the audit log.",
    no_args_is_help=True,
)

DatabaseArgument = Annotated[
    str, typer.Argument(metavar="DATABASE", help="A file, or postgresql://... of a server.")
]
AccountArgument = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Name of the account.")]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="The log's signing key, the copy lies beside it; audit.key beside DATABASE if not "
        "given.",
    ),
]
PolicyOption = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Origin, keys and witnesses to trust; audit-policy.toml beside DATABASE if not given.",
    ),
]
CallerOption = Annotated[str, typer.Option("--by", help="Who does this; written down.")]


@app.command(
    "open",
    epilog="Example: voile budget open log.db clinic --dataset clinic-v1 --epsilon 3 --delta 1e-6",
)
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
    by: CallerOption = "custodian",
    key: KeyOption = None,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open an account: the root of a data set, or one below another account."""
    from voile.core.guarantee import Protected, ProtectedUnit, Relation
    from voile.ledger import Adaptive, Children, Opening, Planned
    from voile.workflows.budget import open_budget

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
    with _books(database, key, policy) as custody:
        done = open_budget(custody.storage, custody.ledger, custody.log, asked, caller=by)
        kept = custody.keep()
    said = {"opened": account, "composition": done.account.composition, "entry": done.entry}
    _say_kept(said, kept, as_json=as_json)


@app.command(epilog="Example: voile budget show log.db")
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

    with _open(database) as storage:
        found = storage.read_snapshot(lambda t: [(each, share_of(t, each)) for each in nodes(t)])
    lines = [
        _facts(node) | {"consumed": share, "risk": Risk.of(share).value} for node, share in found
    ]
    if as_json:
        print_json({"accounts": lines})
        return
    _print_tree(lines)


@app.command(epilog="Example: voile budget report log.db clinic --html budget.html")
def report(
    database: DatabaseArgument,
    account: AccountArgument,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with the curve as well.")
    ] = None,
    custodian: Annotated[
        bool, typer.Option("--custodian", help="Add the reconstruction watch; not for analysts.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say what is used, what is left, how risky that is, and what would lower the risk."""
    from voile.core.atomic_file import replace_file
    from voile.ledger import Ledger, budget_report
    from voile.workflows.budget.page import budget_html, summary
    from voile.workflows.output_check import check_outputs, files_of

    if html is not None:
        check_outputs([html], files_of(_place(database)))
    with _open(database) as storage:
        found = storage.read_snapshot(
            lambda t: budget_report(Ledger(), t, account, custodian=custodian)
        )
    if html is not None:
        replace_file(html, budget_html(found).encode())
    if as_json:
        print_json(found.to_dict())
        return
    rows = [("risk", f"{found.risk.value}, {found.consumed:.1%} used"), *summary(found)]
    _print_table(f"Privacy budget of {account}", rows)
    out = console()
    for line in (*found.advice, *found.assumptions):
        out.print(f"- {line}", soft_wrap=True)
    for each in found.findings or ():
        out.print(f"! {each.rule} ({', '.join(each.callers)}): {each.detail}", soft_wrap=True)


@app.command(epilog="Example: voile budget forecast log.db clinic --noise 20")
def forecast(
    database: DatabaseArgument,
    account: AccountArgument,
    noise: Annotated[
        float | None, typer.Option(help="Noise multiplier of the Gaussian answers to come.")
    ] = None,
    hours: Annotated[float, typer.Option(help="How far to look back.")] = 24.0,
    as_json: JsonOption = False,
) -> None:
    """Say how many more answers fit, and when the account is used up at the recent rate."""
    from voile.ledger import Ledger
    from voile.ledger import forecast as look_ahead
    from voile.privacy.events import Gaussian

    event = None if noise is None else Gaussian(noise)
    with _open(database) as storage:
        found = storage.read_snapshot(
            lambda t: look_ahead(Ledger(), t, account, event, window=3600 * hours)
        )
    said = asdict(found)
    if not as_json and found.exhausted_at is not None:
        said["exhausted_at"] = (
            f"{datetime.fromtimestamp(found.exhausted_at, UTC):%Y-%m-%d %H:%M} UTC"
        )
    _say(said, as_json=as_json)


@app.command(epilog="Example: voile budget renew log.db clinic --reason 'new cohort, approved'")
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
    from voile.ledger import budget_report
    from voile.workflows.budget import renew_budget

    with _books(database, key, policy) as custody:
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


@app.command(epilog="Example: voile budget verify log.db --key audit.key")
def verify(
    database: DatabaseArgument,
    key: KeyOption = None,
    policy: PolicyOption = None,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Another copy of a checkpoint; repeatable."),
    ] = None,
    witness: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A witness to ask; repeatable.")
    ] = None,
    replay_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare stored answers with what the log commits to."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute every account from the audit log and compare; exit code 4 if a step fails.

    A database restored from an old backup is refused against the copy of the last checkpoint beside
    the signing key, other copies (--checkpoint) and witnesses. What is newer than the newest of
    them cannot be noticed; the last step says how much that is.
    """
    from voile.audit_log import AuditLog, RemoteWitness, SigningKey
    from voile.ledger import Ledger, ReplayKey
    from voile.workflows.budget.verification import Evidence
    from voile.workflows.budget.verification import verify as check
    from voile.workflows.checkpoints import kept_checkpoint, read_policy

    place = _place(database, key, policy)
    beside = kept_checkpoint(place.signing_key)
    copies = [*(checkpoint or []), *([beside] if beside.exists() else [])]
    evidence = Evidence(
        policy=read_policy(place.policy) if place.policy.exists() else None,
        checkpoints=tuple((str(path), _note(path)) for path in copies),
        key=SigningKey.load(place.signing_key) if witness else None,
        witnesses=tuple(RemoteWitness(url) for url in witness or ()),
        replay_key=None if replay_key is None else ReplayKey.load(replay_key),
    )
    with _open(database) as storage:
        log = storage.submit(AuditLog.open)
        found = check(storage, Ledger(), log, evidence, progress=_compared)
    if as_json:
        print_json({"verified": found.verified, "steps": [asdict(step) for step in found.steps]})
    else:
        _print_steps(found)
    if not found.verified:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def _compared(done: int, size: int) -> None:
    """A line on a terminal; nothing where nobody looks."""
    if sys.stderr.isatty():
        text = "" if done >= size else f"compared {done:,} of {size:,} records"
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


# --- what the commands share ---------------------------------------------------------------------


def _open(database: str) -> Storage:
    from voile.core.storage.opening import open_existing
    from voile.workflows.custody import PARTS

    return open_existing(database, PARTS)


def _place(database: str, key: Path | None = None, policy: Path | None = None) -> Place:
    from voile.workflows.custody import check_named, usual_place

    check_named(key, policy)
    return usual_place(database=database, signing_key=key, policy=policy)


def _books(database: str, key: Path | None, policy: Path | None) -> AbstractContextManager[Custody]:
    from voile.workflows.custody import open_custody_at

    return open_custody_at(_place(database, key, policy))


def _say_kept(said: dict[str, Any], kept: Kept, *, as_json: bool) -> None:
    """What was done is done, whatever became of the checkpoint after it."""
    more = {"checkpoint": str(kept), "missing_cosignatures": kept.missing}
    _say(said | more, as_json=as_json)
    if kept.error is not None:
        raise typer.Exit(exit_code(kept.error))


def _note(path: Path) -> bytes:
    from voile.audit_log.notes import LARGEST_NOTE
    from voile.core.input_file import read_file

    return read_file(path, LARGEST_NOTE)


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


def _print_table(title: str, rows: list[tuple[str, str]]) -> None:
    from rich.table import Table

    table = Table("", "", title=title, show_header=False)
    for row in rows:
        table.add_row(*row)
    console().print(table)


def _say(said: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(said)
        return
    for name, value in said.items():
        typer.echo(f"{name.replace('_', ' ') + ':':<19} {'none' if value is None else value}")


def _print_steps(report: Report) -> None:
    out = console()
    styles = {"checked": "green", "failed": "bold red", "not checkable": "yellow"}
    for step in report.steps:
        line = f"{step.number:>2}  {step.outcome:<13}  {step.name:<10}  {step.detail}"
        out.print(line, style=styles[step.outcome], soft_wrap=True)
    out.print("verified" if report.verified else "NOT VERIFIED")
