"""Rules, from the command to the result: checked, tried, put in force, and told of."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from voile.app.calls import Context
from voile.app.commands.compliance import (
    CheckRules,
    LiftMeasure,
    PutRules,
    SendAlerts,
    ShowRules,
)
from voile.app.compliance.delivery import Delivered, deliver, look_for_findings
from voile.app.compliance.enforcement import StoredStandings, lift, name_in_log, rules_in_force
from voile.app.serving.served import ServedWorkspace
from voile.app.toml_file import TomlFile
from voile.app.workspace.file import WorkspaceFile
from voile.app.workspace.rules import apply_rules, channels_of
from voile.compliance import Replay, Rule, RuleSet
from voile.compliance.evaluation import acting
from voile.core.errors import InvalidInput
from voile.records.audit_log import AuditLog, decode_record
from voile.records.checkpoints import Kept
from voile.records.ledger.history import entries_of
from voile.records.rule_book import channel, message_count
from voile.records.storage import Reader
from voile.records.vault import Vault, open_vault_at

_PAGE: Final = 1000


class _RulesFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class RuleCheck:
    """What follows from the log.

    Args:
        tried: whether rules were tried; else those on record were checked.
        records: how many records the log has.
        outcomes: alerts, measures and lifts: of each time, record and words.
        problems: where the log says something else.
        without_rules: charges that no rule has looked at although some were in force.
    """

    tried: bool
    records: int
    outcomes: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]
    without_rules: int

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "verified": not self.problems,
            "dry_run": self.tried,
            "records": self.records,
            "outcomes": list(self.outcomes),
            "problems": list(self.problems),
            "charges_without_rules": self.without_rules,
        }


@dataclass(frozen=True)
class RulesShown:
    """What is in force.

    Args:
        rules: of each its name and text.
        measures: of each rule, subject, caller and when it began; callers by their own names.
        waiting: of each channel how many messages it was not sent, and what went wrong last.
    """

    rules: tuple[dict[str, Any], ...]
    measures: tuple[dict[str, Any], ...]
    waiting: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class RulesChange:
    """What was changed, and the checkpoint after it."""

    facts: dict[str, Any]
    kept: Kept


def check(command: CheckRules, _context: Context) -> RuleCheck:
    """Follow the log from its first record."""
    file = WorkspaceFile.read(command.workspace)
    tried = _tried(command, file)
    with _vault(file) as vault:
        return vault.storage.read_snapshot(lambda t: _replayed(vault.log, t, tried))


def _tried(command: CheckRules, file: WorkspaceFile) -> RuleSet | None:
    if not command.dry_run:
        if command.rules is not None:
            raise InvalidInput("--rules: names rules to try; add --dry-run")
        return None
    if command.rules is None:
        return RuleSet(file.tables.rules)
    return RuleSet(TomlFile.read(command.rules).checked(_RulesFile).rules)


def _replayed(log: AuditLog, t: Reader, tried: RuleSet | None) -> RuleCheck:
    replay, number = Replay(tried), 0
    while page := log.records(t, first=number, limit=_PAGE):
        for content in page:
            replay.take(number, decode_record(content))
            number += 1
    replay.finish()
    found = tuple(
        {"time": each.outcome.time, "record": each.record, "what": str(each.outcome)}
        for each in replay.found
    )
    return RuleCheck(tried is not None, number, found, tuple(replay.problems), replay.without_rules)


def show(command: ShowRules, _context: Context) -> RulesShown:
    """What is in force now; only reads."""
    file = WorkspaceFile.read(command.workspace)
    with _vault(file) as vault:
        return vault.storage.read_snapshot(lambda t: _shown(file, vault, t))


def _shown(file: WorkspaceFile, vault: Vault, t: Reader) -> RulesShown:
    rules, last = rules_in_force(t), message_count(t)
    found = list(acting(rules, StoredStandings(t), int(vault.ledger.now())))
    names = _callers(vault, t) if any(subject[1] for _, subject, _ in found) else {}
    measures = tuple(
        {
            "rule": rule.name,
            "action": str(rule.action),
            "subject": subject,
            "caller": names.get(caller, caller),
            "since": state.since,
            "until": rule.until,
        }
        for rule, (subject, caller), state in found
    )
    channels = [channel(t, each.called) for each in file.tables.notify]
    waiting = tuple(
        {"channel": each.channel, "waiting": last - each.number, "problem": each.problem}
        for each in channels
    )
    texts = tuple({"rule": rule.name, "text": rule.text} for rule in rules.rules)
    return RulesShown(texts, measures, waiting)


def measures_and_waiting(workspace: ServedWorkspace) -> tuple[int, int]:
    """How many measures are in force, and how many alerts the slowest channel was not sent."""
    vault, named = workspace.vault, [each.called for each in workspace.file.tables.notify]

    def find(t: Reader) -> tuple[int, int]:
        now, last = int(vault.ledger.now()), message_count(t)
        found = sum(1 for _ in acting(rules_in_force(t), StoredStandings(t), now))
        return found, max((last - channel(t, name).number for name in named), default=0)

    return vault.storage.read_snapshot(find)


def _callers(vault: Vault, t: Reader) -> dict[str, str]:
    """Who is meant by the names in the log; only the journal and the key can tell."""
    roots = [node.account.name for node in vault.ledger.nodes(t) if node.account.parent is None]
    callers = {entry.caller for root in roots for entry in entries_of(t, root)}
    return {name_in_log(vault, caller): caller for caller in callers}


def put(command: PutRules, _context: Context) -> RulesChange:
    """Put the rules of the file in force."""
    file = WorkspaceFile.read(command.workspace)
    with _vault(file) as vault:
        changed = apply_rules(file, vault)
        count = len(vault.storage.read_snapshot(rules_in_force).rules)
        return RulesChange({"rules": count, "changed": changed}, vault.keep())


def lift_measure(command: LiftMeasure, _context: Context) -> RulesChange:
    """End a measure, with a reason."""
    file = WorkspaceFile.read(command.workspace)
    with _vault(file) as vault:
        rule = vault.storage.read_snapshot(rules_in_force).find(command.rule)
        if rule is None:
            raise InvalidInput(
                f"no rule in force is called {command.rule!r}; `voile compliance show` lists them"
            )
        done = lift(vault, rule.name, (command.subject, command.caller), command.reason)
        return RulesChange({"lifted": str(done)}, vault.keep())


def send(command: SendAlerts, _context: Context) -> tuple[Delivered, ...]:
    """Through all channels, once."""
    file, now = WorkspaceFile.read(command.workspace), time.time()
    with _vault(file) as vault:
        look_for_findings(vault, now=now)
        found = [deliver(vault, each, now=now, patient=False) for each in channels_of(file)]
        return tuple(found)


@contextmanager
def _vault(file: WorkspaceFile) -> Iterator[Vault]:
    with open_vault_at(file.place, signing=None) as vault:
        yield vault
