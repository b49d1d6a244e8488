"""What the tests of rules share: accounts, a clock that can be set, a replay of the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.unit.app.budget_examples import House, drawn, guarantee, request
from tests.unit.records.ledger.examples import opening

from voile.app.budget import open_budget, renew_budget
from voile.app.compliance.enforcement import put_in_force
from voile.app.explain import Answer, ReleaseService
from voile.compliance import Replay, Rule, RuleSet
from voile.privacy.events import Gaussian, PrivacyEvent
from voile.records.audit_log import Record, decode_record
from voile.records.ledger import Ledger
from voile.records.vault import Vault

START = 1_772_323_200  # the first of March 2026, midnight
"""Seconds since 1970."""


def rule(**stated: Any) -> Rule:
    """As a file states it."""
    return Rule.model_validate(stated)


@dataclass
class Clock:
    """Says what it was set to."""

    time: float = float(START)

    def __call__(self) -> float:
        return self.time


@dataclass
class Ruled:
    """A service under rules."""

    service: ReleaseService
    clock: Clock

    @classmethod
    def create(cls, folder: Path, *rules: Rule, place: str = "memory:", **account: Any) -> Ruled:
        """With the account `clinic`."""
        found = cls.over(House.create(place, folder), Clock())
        found.open("clinic", **account)
        if rules:
            found.put(*rules)
        return found

    @classmethod
    def over(cls, house: House, clock: Clock) -> Ruled:
        """Over a house that is there."""
        vault = replace(house.vault, ledger=Ledger(clock))
        return cls(ReleaseService(vault), clock)

    @property
    def vault(self) -> Vault:
        return self.service.vault

    def open(self, name: str, **changes: Any) -> None:
        """One more account."""
        vault = self.vault
        open_budget(vault.storage, vault.ledger, vault.log, opening(name, **changes), caller="x")

    def renew(self, name: str) -> None:
        """A new period."""
        vault = self.vault
        renew_budget(vault.storage, vault.ledger, vault.log, name, reason="new", caller="x")

    def put(self, *rules: Rule) -> None:
        put_in_force(self.vault, RuleSet(rules))

    def ask(
        self,
        content: str,
        *,
        caller: str = "ada",
        event: PrivacyEvent | None = None,
        epsilon: float = 0.2,
        account: str = "clinic",
    ) -> Answer:
        """One question."""
        asked = request(
            content,
            account=account,
            caller=caller,
            event=Gaussian(20.0) if event is None else event,
            guarantees=(guarantee(epsilon=epsilon),),
        )
        return self.service.answer_request(asked, drawn(content))

    def records(self, *kinds: type) -> list[Any]:
        """Of the log, all or those of some kinds."""
        contents = self.vault.storage.read_snapshot(
            lambda t: self.vault.log.records(t, limit=10**6)
        )
        found: list[Record] = [decode_record(content) for content in contents]
        return [each for each in found if not kinds or isinstance(each, kinds)]

    def replay(self, tried: RuleSet | None = None) -> Replay:
        """From the log alone."""
        replay = Replay(tried)
        for number, record in enumerate(self.records()):
            replay.take(number, record)
        replay.finish()
        return replay
