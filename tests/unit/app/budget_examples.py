"""What the tests of the budget jobs share: a service with ledger, log and keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.protecting import joined
from tests.unit.records.audit_log.examples import LOG_KEY, ORIGIN, policy
from tests.unit.records.ledger.examples import DATASET, KEY, opening

from voile.app.budget import open_budget, renew_budget
from voile.app.budget.verification import Evidence, verify
from voile.app.explain import Answer, NoisyAnswer, ReleaseService, Request
from voile.core.guarantee import Adversary, Guarantee, ProtectedUnit, Relation
from voile.privacy.events import Gaussian, PrivacyEvent
from voile.records.audit_log import AuditLog, Policy, Report
from voile.records.checkpoints import Keeper, kept_checkpoint
from voile.records.ledger import Alert, Ledger, PublicInput, Question
from voile.records.storage import Storage, open_storage
from voile.records.vault import PARTS, Place, Vault

RULES: Policy = policy(0)
EVENT = Gaussian(20.0)


def guarantee(**changes: Any) -> Guarantee:
    given: dict[str, Any] = {
        "epsilon": 0.2,
        "delta": 1e-6,
        "unit": ProtectedUnit.ROW,
        "relation": Relation.BLANK_ONE,
        "dataset": DATASET,
        "against": (Adversary.PUBLIC,),
        "computational": False,
        "mechanism": "Gaussian",
        "composition": "one release",
    }
    return Guarantee(**joined(given | changes))


def request(
    content: str = "row 1",
    *,
    account: str = "clinic",
    event: PrivacyEvent = EVENT,
    caller: str = "ada",
    **changes: Any,
) -> Request:
    asked = Question(
        account=account,
        model="model v3",
        explainer="interventional",
        level="detailed",
        parameters="{}",
        about=PublicInput(content.encode()),
    )
    given: dict[str, Any] = {
        "question": asked,
        "event": event,
        "guarantees": (guarantee(),),
        "subject": "readmission model v3",
        "purpose": "review",
        "caller": caller,
    }
    return Request(**(given | changes))


def drawn(content: str) -> Callable[[], NoisyAnswer]:
    return lambda: NoisyAnswer(content.encode())


@dataclass(frozen=True)
class House:
    """A service, and the folder with its keys."""

    service: ReleaseService
    folder: Path

    @property
    def vault(self) -> Vault:
        return self.service.vault

    @property
    def storage(self) -> Storage:
        return self.vault.storage

    @property
    def key(self) -> Path:
        return self.folder / "audit.key"

    @classmethod
    def create(
        cls, place: str, folder: Path, on_alert: Callable[[Alert], object] | None = None
    ) -> House:
        storage = open_storage(place, PARTS)
        log = storage.submit(lambda t: AuditLog.create(t, ORIGIN))
        where = Place.within(folder)
        house = cls(ReleaseService(Vault(where, storage, Ledger(), log), on_alert), folder)
        for key, path in ((LOG_KEY, where.signing_key), (KEY, where.replay_key)):
            if not path.exists():
                key.save(path)
        return house

    @classmethod
    def reopen(cls, place: str, folder: Path) -> House:
        storage = open_storage(place, PARTS)
        log = storage.submit(AuditLog.open)
        vault = Vault(Place.within(folder), storage, Ledger(), log)
        return cls(ReleaseService(vault), folder)

    def open(self, name: str = "clinic", **changes: Any) -> None:
        kept = self.vault
        open_budget(kept.storage, kept.ledger, kept.log, opening(name, **changes), caller="x")

    def renew(self, name: str) -> None:
        kept = self.vault
        renew_budget(kept.storage, kept.ledger, kept.log, name, reason="why", caller="x")

    def answer(self, content: str = "row 1", **changes: Any) -> Answer:
        fresh = changes.pop("fresh", False)
        asked, answer = request(content, **changes), drawn(f"noisy {content}")
        return self.service.answer_request(asked, answer, fresh=fresh)

    def keep(self) -> None:
        Keeper(RULES, kept_checkpoint(self.key), LOG_KEY).publish(self.storage, self.vault.log)

    def verify(self) -> Report:
        copy = kept_checkpoint(self.key)
        kept = ((copy.name, copy.read_bytes()),) if copy.exists() else ()
        own = self.vault
        evidence = Evidence(RULES, kept, replay_key=own.key)
        return verify(own.storage, own.ledger, own.log, evidence)
