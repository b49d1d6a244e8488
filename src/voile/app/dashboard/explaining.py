"""The form that asks for an explanation, what it will cost, and what came out."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from voile.app.dashboard.dashboard import Dashboard
from voile.app.explain.outputs import PersonPage
from voile.app.explain.released import ReleasedExplanation
from voile.app.explain.walk import BudgetUse, budget_use
from voile.app.serving import AskedExplanation, Caller, NotGranted, ServedRelease
from voile.core.description import Description
from voile.core.errors import VoileError
from voile.core.guarantee import RowPart
from voile.core.schema import Categories, Feature, Numbers
from voile.records.access import registered_accounts
from voile.records.storage import Reader
from voile.release import Preview

PEOPLE: Final = ("a", "b")
"""Prefixes of the fields of one person, and of another to compare with."""
_LONGEST: Final = 200
_MOST_ACCOUNTS: Final = 100


@dataclass(frozen=True)
class FormField:
    """One value of a person.

    Args:
        choices: value and label of each, for categories; none for numbers.
        hint: what may be typed.
    """

    name: str
    label: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()
    low: str = ""
    high: str = ""
    step: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Price:
    """What an answer will cost, said before it is asked for.

    Args:
        use: of the account that pays; None if it is free or no account is named.
        left: the share of that account that is left now.
    """

    preview: Preview
    rows: int
    use: BudgetUse | None

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing."""
        return self.preview.event is None


@dataclass(frozen=True)
class Difference:
    """What a feature adds for one person, and for another."""

    feature: str
    first: str
    second: str
    difference: str
    distinguishable: bool


@dataclass(frozen=True)
class GivenAnswer:
    """What came out.

    Args:
        described: of each person.
        differences: of two.
        again: fields of the form that give the same answer once more at no cost.
    """

    described: tuple[Description, ...]
    payment: str
    records: tuple[int, ...]
    replayed: bool
    free: bool
    differences: tuple[Difference, ...]
    again: Mapping[str, str]


@dataclass(frozen=True)
class ExplainForm:
    """The page of one release.

    Args:
        people: fields of the first person, and of one to compare with.
        identified: whether people have a name, which pays for itself.
        repeat: a random text: sent twice with the same one, a form is charged once.
        accounts: which may pay; empty if it is free.
        problem: why there is no answer.
    """

    release: str
    protects: str
    level: str
    free: bool
    people: tuple[tuple[FormField, ...], ...]
    comparing: bool
    purpose: str
    repeat: str
    accounts: tuple[str, ...]
    account: str
    price: Price | None
    answer: GivenAnswer | None = None
    problem: str = ""
    problems: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class AskableRelease:
    """A release that this caller may ask."""

    name: str
    protects: str
    level: str
    free: bool
    features: int


def askable(dashboard: Dashboard, caller: Caller) -> tuple[AskableRelease, ...]:
    """What this caller may ask."""
    found = []
    for served in dashboard.workspace.releases.values():
        try:
            dashboard.workspace.release(served.name, caller)
        except NotGranted:
            continue
        if served.job.spec.protect is not RowPart.POPULATION:
            found.append(_named(served))
    return tuple(found)


def _named(served: ServedRelease) -> AskableRelease:
    spec = served.job.spec
    count = len(served.inputs.schema.feature_names)
    return AskableRelease(served.name, spec.protect.value, spec.level.value, served.is_free, count)


def explain_form(
    dashboard: Dashboard, caller: Caller, name: str, fields: Mapping[str, str]
) -> ExplainForm:
    """The form, filled with what was typed so far, and the price."""
    served = dashboard.workspace.release(name, caller)
    spec, comparing = served.job.spec, bool(fields.get("compare"))
    accounts = _accounts(dashboard, served, caller)
    account = fields.get("account", accounts[0] if accounts else "")
    people = tuple(_person(served, prefix, fields) for prefix in PEOPLE)
    return ExplainForm(
        release=name,
        protects=spec.protect.value,
        level=spec.level.value,
        free=served.is_free,
        people=people,
        comparing=comparing,
        purpose=fields.get("purpose", ""),
        repeat=fields.get("repeat", "")[:_LONGEST] or new_repeat(),
        accounts=accounts,
        account=account,
        price=price_of(dashboard, caller, served, 2 if comparing else 1, account),
    )


def new_repeat() -> str:
    """What tells a form that is sent twice from two that are alike."""
    return secrets.token_hex(16)


def price_of(
    dashboard: Dashboard, caller: Caller, served: ServedRelease, rows: int, account: str
) -> Price:
    """From public facts; nothing is charged."""
    workspace = dashboard.workspace
    preview = workspace.service.preview(served.release(rows), rows)
    use = None
    if preview.event is not None and account:
        caller.check_account(account)
        named = served.job.spec.id_column is not None
        by_rows = served.job.spec.protect is RowPart.EXPLAINED
        unnamed = rows if by_rows and not named else 0
        use = budget_use(workspace.vault, account, preview.event, unnamed=unnamed, named=named)
    return Price(preview, rows, use)


def _accounts(dashboard: Dashboard, served: ServedRelease, caller: Caller) -> tuple[str, ...]:
    """The release's own, and accounts of tenants below it that this caller may use."""
    own = served.job.spec.account
    if served.is_free or own is None:
        return ()
    ledger = dashboard.vault.ledger

    def find(t: Reader) -> list[str]:
        rows = [row.account for row in registered_accounts(t)]
        open_ones = [name for name in rows if caller.grants.covers(name)][:_MOST_ACCOUNTS]
        parallel = ledger.node(t, own).account.is_parallel
        return [name for name in open_ones if _pays(ledger.path(t, name), own, parallel=parallel)]

    found = dashboard.vault.storage.read_snapshot(find)
    return tuple(sorted(found, key=lambda name: (name != own, name)))


def _pays(path: Any, own: str, *, parallel: bool) -> bool:
    names = {node.account.name for node in path}
    return own in names and path[0].account.is_parallel == parallel


# --- fields ---------------------------------------------------------------------------------------


def _person(served: ServedRelease, prefix: str, fields: Mapping[str, str]) -> tuple[FormField, ...]:
    schema, column = served.inputs.schema, served.job.spec.id_column
    found = [
        _field(feature, f"{prefix}.{number}", fields)
        for number, feature in enumerate(schema.features)
    ]
    if column is None:
        return tuple(found)
    name = f"{prefix}.id"
    hint = "whoever it is about; pays from an account of its own"
    return (FormField(name, column, fields.get(name, ""), hint=hint), *found)


def _field(feature: Feature, name: str, fields: Mapping[str, str]) -> FormField:
    domain, unit = feature.domain, f" ({feature.unit})" if feature.unit else ""
    typed = fields.get(name, _text(feature.default))
    label = f"{feature.name}{unit}"
    if isinstance(domain, Categories):
        choices = tuple((_text(each), _text(each)) for each in domain.values)
        return FormField(name, label, typed, choices)
    assert isinstance(domain, Numbers)
    low, high = _text(domain.lower), _text(domain.upper)
    step = "1" if domain.whole else "any"
    return FormField(name, label, typed, (), low, high, step, f"{low} to {high}")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def asked_explanation(
    dashboard: Dashboard, caller: Caller, name: str, fields: Mapping[str, str]
) -> AskedExplanation:
    """What a form asks for. Empty cells are missing values, and the schema says what they mean."""
    served = dashboard.workspace.release(name, caller)
    schema, column = served.inputs.schema, served.job.spec.id_column
    prefixes = PEOPLE if fields.get("compare") else PEOPLE[:1]
    rows: dict[str, list[Any]] = {
        feature.name: [_cell(feature, fields.get(f"{each}.{number}", "")) for each in prefixes]
        for number, feature in enumerate(schema.features)
    }
    if column is not None:
        rows[column] = [fields.get(f"{each}.id", "").strip() or None for each in prefixes]
    return AskedExplanation(
        rows=rows,
        account=None if served.is_free else fields.get("account") or None,
        purpose=fields.get("purpose", "").strip()[:_LONGEST] or "explanation",
        repeat=None if served.is_free else fields.get("repeat") or None,
        endpoint="dashboard",
    )


def _cell(feature: Feature, typed: str) -> Any:
    typed = typed.strip()
    if not typed:
        return None
    if isinstance(feature.domain, Categories):
        return next((each for each in feature.domain.values if _text(each) == typed), typed)
    try:
        number = float(typed)
    except ValueError:
        return typed
    return number if math.isfinite(number) else typed


# --- answers --------------------------------------------------------------------------------------


def given_answer(explained: ReleasedExplanation, fields: Mapping[str, str]) -> GivenAnswer:
    """What is shown of an answer."""
    count = len(explained.explanation)
    described = tuple(explained.describe(row) for row in range(count))
    return GivenAnswer(
        described=described,
        payment=explained.payment,
        records=explained.records,
        replayed=explained.replayed,
        free=not explained.charges,
        differences=_differences(*described) if count == len(PEOPLE) else (),
        again={name: value for name, value in fields.items() if name not in ("token", "act")},
    )


def _differences(first: Description, second: Description) -> tuple[Difference, ...]:
    """Of the first output. Errors of two rows are independent, so they add up in quadrature."""
    one, other = first.outputs[0], second.outputs[0]
    found = []
    for each in one.strongest_first:
        again = other.contribution(each.feature)
        amount = each.amount - again.amount
        reach = math.hypot(*(0.0 if c.high is None else c.high - c.amount for c in (each, again)))
        text = f"{amount:+.3g}" + (f" ± {reach:.2g}" if reach else "")
        found.append(Difference(each.feature, each.text, again.text, text, abs(amount) > reach))
    return tuple(found)


def person_page(explained: ReleasedExplanation) -> PersonPage:
    """The page for the one person whom it is about, as `voile explain --page` writes it."""
    number = explained.records[0]
    words = (
        f"voile audit verify receipt-{number}.tlog-proof --answer explanation-{number}.voile "
        "--policy audit-policy.toml"
    )
    return PersonPage(explained.of_row(0), f"receipt-{number}.tlog-proof", words)


def readable_problem(error: VoileError) -> tuple[Mapping[str, Any], ...]:
    """Of rows that do not fit, which columns and why; never a value."""
    found = getattr(error, "problems", ())
    return tuple(dict(each) for each in found)
