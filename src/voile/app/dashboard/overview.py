"""The first page: is all well, what is near its end, what happened."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from voile.app.dashboard.dashboard import Dashboard
from voile.app.dashboard.forecast import Fan, fan_of
from voile.app.dashboard.record_index import CHUNK, RecordQuery
from voile.app.dashboard.records import RecordLine, lines_of
from voile.app.explain.per_record import parent_of_record
from voile.app.explain.released import LoggedAnswer, ReleasedExplanation
from voile.app.serving import Caller, ServedRelease
from voile.core.description import Description
from voile.core.errors import InvalidInput, VerificationFailed, VoileError
from voile.records.access import Duty
from voile.records.ledger import AccountShare, RecentUse, Subtree, latest_charges, recent_use
from voile.records.storage import Reader

NEAR_THE_END: Final = 0.75
"""A budget of which more is used is listed."""
_MOST_NEAR: Final = 8
_MOST_NEWS: Final = 10
_LOOKED_AT: Final = 1000
_DAY: Final = 86_400.0


@dataclass(frozen=True)
class Verdict:
    """What was compared, when, and what came out.

    Args:
        sound: whether everything agreed.
        said: in one sentence.
        unsigned: records that no checkpoint covers yet.
    """

    sound: bool
    said: str
    time: float
    unsigned: int


@dataclass(frozen=True)
class Counts:
    """Answers and refusals of all time, and of the last day."""

    charged: tuple[int, int]
    free: tuple[int, int]
    refused: tuple[int, int]


@dataclass(frozen=True)
class BurnDown:
    """How a budget went down, and how it may go on."""

    line: AccountShare
    public: str
    use: RecentUse
    fan: Fan | None


@dataclass(frozen=True)
class LastRelease:
    """The last answer that the reader got, as it was released.

    Args:
        record: of the log.
    """

    release: str
    record: int
    time: float
    described: Description


@dataclass(frozen=True)
class Overview:
    """All of it.

    Args:
        p95: how long 95 of 100 answers took at most, in seconds, of how many; None if unknown.
        indexed: how many records were read for counts, of how many.
        largest: of the budgets, how much of the one that is used most.
    """

    verdict: Verdict
    near: tuple[tuple[AccountShare, str], ...]
    accounts: int
    counts: Counts
    p95: tuple[float, int] | None
    burn_down: BurnDown | None
    last: LastRelease | None
    news: tuple[RecordLine, ...]
    indexed: tuple[int, int]


def overview(
    dashboard: Dashboard, caller: Caller, p95: tuple[float, int] | None = None
) -> Overview:
    """What this caller may see of it."""
    dashboard.index.follow(most=CHUNK)
    seen, burn_down, size = dashboard.vault.storage.read_snapshot(
        lambda t: _budgets(dashboard, t, caller)
    )
    audits = Duty.AUDIT in caller.grants.duties or caller.grants.is_unlimited
    accounts = None if audits else {line.account.name for line in seen}
    numbers, _ = dashboard.index.search(RecordQuery(), most=_MOST_NEWS, accounts=accounts)
    near = sorted(
        (line for line in seen if line.share >= NEAR_THE_END), key=lambda line: -line.share
    )
    public = dashboard.workspace.public_name
    return Overview(
        verdict=verdict_of(dashboard),
        near=tuple((line, public(line.account.name)) for line in near[:_MOST_NEAR]),
        accounts=len(seen),
        counts=_counts(dashboard, accounts),
        p95=p95,
        burn_down=burn_down,
        last=_last_release(dashboard, caller),
        news=tuple(lines_of(dashboard, numbers)),
        indexed=(dashboard.index.size, size),
    )


def verdict_of(dashboard: Dashboard) -> Verdict:
    """Compare the log with the checkpoint that is kept outside of the database."""
    vault, now = dashboard.vault, time.time()

    def check(t: Reader) -> tuple[int, int]:
        vault.log.check(t)
        return vault.log.head(t).size, vault.log.signed_size(t)

    try:
        size, signed = vault.storage.read_snapshot(check)
    except VerificationFailed as failed:
        return Verdict(False, str(failed), now, 0)
    if vault.log.kept is None:
        return Verdict(False, "There is no signing policy, so the log is not signed.", now, size)
    said = f"The log of {size:,} records extends the checkpoint that is kept outside the database."
    return Verdict(True, said, now, size - signed)


def _budgets(
    dashboard: Dashboard, t: Reader, caller: Caller
) -> tuple[list[AccountShare], BurnDown | None, int]:
    shares = dashboard.shares(t)
    seen = dashboard.seen_by(caller, shares)
    used = max(seen, key=lambda line: line.share, default=None)
    found = None if used is None or used.share == 0 else burn_down_of(dashboard, t, used, shares)
    return seen, found, dashboard.index.head(t)


def burn_down_of(
    dashboard: Dashboard, t: Reader, line: AccountShare, lines: Sequence[AccountShare]
) -> BurnDown:
    """Of one account.

    Args:
        lines: all accounts that are listed.
    """
    name = line.account.name
    tree = Subtree(name, lines, parent_of_record)
    use = recent_use(dashboard.vault.ledger, t, tree, most=_LOOKED_AT)
    return BurnDown(line, dashboard.workspace.public_name(name), use, fan_of(use))


def _counts(dashboard: Dashboard, accounts: Collection[str] | None) -> Counts:
    index, since = dashboard.index, time.time() - _DAY

    def both(kind: str, within: Collection[str] | None) -> tuple[int, int]:
        return index.count(kind, accounts=within), index.count(kind, since=since, accounts=within)

    return Counts(
        both("release", accounts), both("post-processing", None), both("refusal", accounts)
    )


def _last_release(dashboard: Dashboard, caller: Caller) -> LastRelease | None:
    """Released answers are for those who got them, and for nobody else."""
    if Duty.EXPLAIN not in caller.grants.duties:
        return None
    found = [
        each
        for served in dashboard.workspace.releases.values()
        if (each := _last_of(dashboard, served, caller)) is not None
    ]
    return max(found, key=lambda each: each.time, default=None)


def _last_of(dashboard: Dashboard, served: ServedRelease, caller: Caller) -> LastRelease | None:
    vault, account = dashboard.vault, served.job.spec.account
    if account is None or served.is_free or not caller.grants.covers(account):
        return None

    def find(t: Reader) -> Any:
        root = vault.ledger.node(t, account).account.root
        for entry in latest_charges(t, root, most=200):
            if entry.caller == caller.grants.caller and entry.account == account:
                return entry.time, vault.ledger.paid(t, f"{entry.root}#{entry.number}")
        return None

    try:
        found = vault.storage.read_snapshot(find)
        if found is None:
            return None
        moment, paid = found
        explanation = served.release().codec.unpack(paid.answer)
    except (InvalidInput, VoileError, ValueError):
        return None  # of another release, or erased
    answer = LoggedAnswer(explanation, b"", paid.record, paid.charge, True, {})
    told = served.inputs.add_context(ReleasedExplanation(explanation, (answer,)))
    return LastRelease(served.name, paid.record, moment, told.describe(most=8))
