"""Rules and evidence: what the log and the models show for those who answer for them.

The documents are those of `voile evidence`, without the pages about single decisions: these are for
the person whom they are about. The whole log is read for them, so over a long log they are made in
the background, and the page says which record they go up to.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Final

from voile.app.dashboard.dashboard import Dashboard
from voile.app.dashboard.record_index import CHUNK, RecordQuery
from voile.app.dashboard.records import RecordLine, lines_of
from voile.app.evidence.documents import (
    EvidenceSource,
    audit_controls,
    impact_annex,
    technical_documentation,
)
from voile.app.evidence.facts import LogFacts
from voile.app.evidence.lines import EvidenceDocument, Statements
from voile.app.evidence.models import find_models
from voile.app.explain.per_record import parent_of_record
from voile.compliance.rules import Rule
from voile.core.errors import VoileError

AT_ONCE: Final = 2000
"""Records that are read while somebody waits."""
RULE_KINDS: Final = ("rule", "alert", "measure", "lift")
_MOST: Final = 20
_GROWN: Final = 1.1
"""A long log is read again when it has grown by a tenth."""
_ANSWERS: Final = 20
MOST_ACCOUNTS: Final = 200
"""The documents name all accounts: with more, they are no page."""


@dataclass(frozen=True)
class EvidencePage:
    """The documents.

    Args:
        records: how far the log was read for them.
        size: how far the log goes now.
        rules: as the workspace states them.
        accounts: how many there are; with too many, there are no documents.
        alerts: the latest records of rules, alerts and measures.
    """

    documents: tuple[EvidenceDocument, ...]
    records: int
    size: int
    accounts: int
    alerts: tuple[RecordLine, ...]
    rules: tuple[Rule, ...] = ()


def _without_people(facts: LogFacts) -> LogFacts:
    """Accounts of single people are counted, and never listed."""
    accounts = {n: each for n, each in facts.accounts.items() if parent_of_record(n) is None}
    return replace(facts, accounts=accounts)


class EvidenceMaker:
    """Makes the documents again when the log has grown."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard, self._lock = dashboard, threading.Lock()
        self._documents: tuple[EvidenceDocument, ...] = ()
        self._records = self._accounts = 0
        self._running = False

    def page(self) -> EvidencePage:
        """What is made; a long log is read in the background."""
        dashboard = self._dashboard
        dashboard.index.follow(most=CHUNK)
        size = dashboard.vault.storage.read_snapshot(dashboard.index.head)
        if size != self._records:
            if size <= AT_ONCE:
                self._make()
            elif size > self._records * _GROWN:
                self._start()
        numbers = [
            number
            for kind in dashboard.index.kinds
            if kind.startswith(RULE_KINDS)
            for number in dashboard.index.search(RecordQuery(kind), most=_MOST)[0]
        ]
        newest = sorted(numbers, reverse=True)[:_MOST]
        return EvidencePage(
            documents=self._documents,
            records=self._records,
            size=size,
            accounts=self._accounts,
            alerts=tuple(lines_of(dashboard, newest)),
            rules=dashboard.workspace.file.tables.rules,
        )

    def _start(self) -> None:
        with self._lock:
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._make_aside, name="voile evidence", daemon=True).start()

    def _make_aside(self) -> None:
        try:
            self._make()
        except VoileError:
            return  # the database is gone, or was closed; a page will say so
        finally:
            self._running = False

    def _make(self) -> None:
        workspace, vault = self._dashboard.workspace, self._dashboard.vault
        facts = _without_people(LogFacts.read(vault, _ANSWERS))
        self._records, self._accounts = facts.size, len(facts.accounts)
        if self._accounts > MOST_ACCOUNTS:
            self._documents = ()
            return
        models, _ = find_models(workspace.file, workspace.file.folder, vault, facts)
        witnesses = None if vault.keeper is None else vault.policy.threshold
        source = EvidenceSource(facts, Statements.read(None), models, witnesses=witnesses)
        makers = (technical_documentation, impact_annex, audit_controls)
        self._documents = tuple(make(source) for make in makers)
