"""What every way to learn from one table shares: a chain of releases, paid for together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from voile.app.commands.train import Train
from voile.app.explain import ReleaseService
from voile.app.explain.artefacts import ReleaseChain
from voile.app.federate.quality import judged_rows
from voile.app.trained_folder import TrainedFolder
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Guarantee
from voile.core.schema import Rows, Schema
from voile.models import Outputs
from voile.pipelines.tables import TableRecords
from voile.privacy.accounting.conversion import zcdp_budget
from voile.privacy.events import Composed, PrivacyEvent, Zcdp
from voile.privacy.mechanisms.parameters import MARGIN, checked_target
from voile.records.ledger import Account
from voile.release import Preview
from voile.release.contract import Release


@dataclass(frozen=True, eq=False)
class Training(ABC):
    """A model that is about to be learned from one table.

    Args:
        service: what charges.
        records: protected, as `read` gives them.
        schema: public.
        command: who pays how much, and who asks.
        open_rows: public rows to measure on, if there are any.
        progress: told how many parts of the work are done, and of how many.
    """

    service: ReleaseService
    records: Any
    schema: Schema
    command: Train
    open_rows: TableRecords | None = None
    progress: Callable[[int, int], None] | None = field(default=None, repr=False)

    # --- what each way decides ------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def read(table: Any, schema: Schema) -> Any:
        """The protected records of a table; nothing that stands in one raises."""

    @property
    @abstractmethod
    def events(self) -> tuple[PrivacyEvent, ...]:
        """What the releases cost, in order."""

    @abstractmethod
    def following(self, made: Sequence[Any]) -> Release[Any]:
        """The release after those that were made."""

    @property
    @abstractmethod
    def promise(self) -> Guarantee:
        """What all releases promise together."""

    @property
    @abstractmethod
    def warning(self) -> str:
        """What to say before anything is spent, where the rows are too few; else nothing."""

    @property
    @abstractmethod
    def accuracy(self) -> str:
        """How much noise there will be, in words."""

    @property
    @abstractmethod
    def expectation(self) -> tuple[str, ...]:
        """What to expect of the model, from public facts and open rows."""

    @abstractmethod
    def learn(self) -> Any:
        """What all releases say, paid for; `BudgetExceeded` before anything is drawn."""

    @abstractmethod
    def save(self, learned: Any, folder: Path) -> TrainedFolder:
        """Write the model that follows, with how good it is."""

    # --- what follows ---------------------------------------------------------------------------

    @property
    def payer(self) -> str:
        """The name of the account."""
        assert self.command.account is not None, "completed before (train_defaults)"
        return self.command.account

    @property
    def delta(self) -> float:
        assert self.command.delta is not None, "completed before (train_defaults)"
        return self.command.delta

    @cached_property
    def account(self) -> Account:
        return self.service.vault.account(self.payer)

    @cached_property
    def rho(self) -> float:
        """What the account grants for the epsilon that was asked for."""
        return granted_rho(self.account, self.command.epsilon, self.delta)

    @property
    def terms(self) -> dict[str, Any]:
        """Of every release."""
        return {"protected": self.account.protected, "delta": self.delta}

    @cached_property
    def chain(self) -> ReleaseChain:
        """All releases, charged together."""
        asks = self.command
        return ReleaseChain(
            service=self.service,
            following=self.following,
            events=self.events,
            payer=self.payer,
            caller=asks.caller,
            fresh=asks.redraw,
        )

    @property
    def is_begun(self) -> bool:
        """Whether it was paid for before, and is asked for again."""
        return bool(self.chain.paid_before())

    @property
    def paid_before(self) -> tuple[str, tuple[str, ...]]:
        """The data set, and the charges that need not be made any more."""
        charges = (each.charge for each in self.chain.paid_before())
        return self.account.protected.dataset, tuple(filter(None, charges))

    def preview(self) -> Preview:
        """What training would cost and be like, all releases together; nothing is charged."""
        found = self.service.preview(self.following(()), payer=self.payer)
        remarks = (*self.expectation, self.warning, *self.chain.affordable())
        return replace(
            found,
            event=Composed(self.events) if len(self.events) > 1 else self.events[0],
            guarantees=(self.promise,),
            accuracy=self.accuracy,
            standard_error=None,
            half_width=None,
            remarks=tuple(filter(None, remarks)),
        )


def granted_rho(account: Account, epsilon: float, delta: float) -> float:
    """The largest cost that an account of this measure and of (epsilon, delta) grants.

    With Rényi orders it is enough that the cost fits at one of them.
    """
    if account.delta == 0:
        raise Refused(
            f"account {account.name!r} promises delta = 0, and training draws Gaussian noise: open "
            "an account with a delta above 0, such as 1e-6"
        )
    epsilon, delta = checked_target(epsilon, delta, pure=False)
    if account.measure is None:
        raise InvalidInput(
            f"account {account.name!r} is a plan of events that were fixed when it was opened; "
            "training needs an account without a plan"
        )
    if account.measure.is_mixed:
        most = account.most_rho(epsilon, delta)
        return min(zcdp_budget(epsilon, delta), most) * (1 - MARGIN)
    budgets, unit = account.measure.budgets(epsilon, delta), account.measure.cost(Zcdp(1.0))
    return max(each / cost for each, cost in zip(budgets, unit, strict=True)) * (1 - MARGIN)


def measured_quality(
    predict: Callable[[Rows], Outputs], rows: TableRecords | None
) -> dict[str, Any] | None:
    """How good a model is on public rows, beside a linear model of these rows alone."""
    if rows is None:
        return None
    said = predict(rows.rows)
    judged, places = judged_rows(said, rows), np.arange(len(rows))
    halves = [(places[n::2], rows.only(places[1 - n :: 2])) for n in (0, 1)]
    apart = [judged_rows(said[own], rows.only(own), other)["figures"] for own, other in halves]
    for name, figure in judged["figures"].items():
        linear = [each.get(name, {}).get("linear_model") for each in apart]
        if None not in linear:
            figure["linear_model"] = float(np.mean(linear))
    return judged
