"""`Budget`: what may be spent on one version of a data set, on record in a database."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from voile.app.budget.status import BudgetStatus
from voile.app.budgets import open_or_compare, opening_of
from voile.app.calls import Context
from voile.app.commands.budget import OpenBudget
from voile.app.explain import ReleaseService
from voile.app.open_records import (
    IN_MEMORY,
    OpenRecords,
    made_up_origin,
    open_passing_records,
    open_records,
)
from voile.app.workspace.file import KeyFiles, place_of
from voile.core.errors import InvalidInput
from voile.core.guarantee import Protected, ProtectedUnit, Relation
from voile.core.rendering import render_html
from voile.python.file_names import file_named
from voile.python.saying import say
from voile.records.checkpoints import relative_path
from voile.records.ledger import Account, BudgetReport, budget_report
from voile.records.storage.opening import file_of
from voile.records.vault import PYTHON_DATABASE, Place


class Budget:
    """What all releases about one version of a data set may spend together.

    Opens the account, or reopens it: a notebook cell may run again. Other terms than those on
    record are refused. On first use the database is made, with its keys and a signing policy beside
    it, and a line says where.

    Assumes that everything about these rows is charged here, and that nobody sets the database
    back. Promises that the figures are never exceeded, by whatever process, and that what was
    charged is on record before it is shown.

    Args:
        name: of the account; best the version of the data.
        epsilon, delta: the promise about all releases together. Not needed to reopen it.
        database: a file, `postgresql://...`, or `env:VARIABLE` for an address with a password.
        dataset: label of the version of the data; the name, if not stated.
        unit: `row`, or `explained row` to explain records one by one, each with this budget.
        relation: `zero-out`, `replace one` or `add or remove one`. Default: zero-out, and for
            explained rows, where that would say too little, replace one.
        origin: name of the log, if it is made; best a URL without its scheme.

    >>> with Budget.in_memory("try-out", epsilon=3, delta=1e-6) as budget:
    ...     budget.account, budget.spent, budget.remaining
    ('try-out', 0.0, 1.0)
    """

    def __init__(
        self,
        name: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        database: str | Path = PYTHON_DATABASE,
        dataset: str | None = None,
        unit: ProtectedUnit | str = ProtectedUnit.ROW,
        relation: Relation | str | None = None,
        origin: str | None = None,
    ) -> None:
        _check_texts(name=name, dataset=dataset, unit=unit, relation=relation, origin=origin)
        if not isinstance(database, str | Path):
            raise InvalidInput(
                "Budget: database: expected a file or an address, found a "
                f"{type(database).__name__}"
            )
        self._given: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "database": str(database),
        }
        self._given |= {"unit": unit, "relation": relation, "dataset": dataset, "origin": origin}
        command = _command(name, self._given)
        place = _place(str(database))
        if command is None and not _is_there(place):
            raise InvalidInput(_unstated(name, place))
        said = origin or made_up_origin(name)
        self._records = (
            open_passing_records(said, say) if place is None else open_records(place, said, say)
        )
        try:
            self._account = _account(name, command, self._records)
        except BaseException:
            self._records.release()
            raise
        self._is_open = True
        if self._records.is_new:
            self._records.is_new = False
            say(_made(self._account, self._records))

    @classmethod
    def in_memory(cls, name: str, *, epsilon: float, delta: float, **terms: Any) -> Self:
        """A budget to try things with: nothing is kept when the process ends.

        What is spent here is forgotten with it, so it protects no real data.

        >>> budget = Budget.in_memory("try-out", epsilon=3, delta=1e-6)
        >>> budget.close()
        """
        return cls(name, epsilon=epsilon, delta=delta, database=IN_MEMORY, **terms)

    @property
    def account(self) -> str:
        """Its name in the ledger."""
        return self._account.name

    @property
    def protected(self) -> Protected:
        """Whose record is protected, how neighbours differ, in which data set."""
        return self._account.protected

    @property
    def epsilon(self) -> float:
        """The promise."""
        return self._account.epsilon

    @property
    def delta(self) -> float:
        """The promise."""
        return self._account.delta

    @property
    def spent(self) -> float:
        """The share that is used, between 0 and 1; `epsilon_spent` reads it as an epsilon.

        Shares add up as charges do. Epsilons do not: two answers of 0.1 cost less than one of 0.2.
        """
        return self.status.used

    @property
    def remaining(self) -> float:
        """The share that is left, between 0 and 1."""
        return self.status.left

    @property
    def epsilon_spent(self) -> float:
        """All that was spent so far, read as an epsilon at the account's delta."""
        return self.status.epsilon_spent or 0.0

    @property
    def policy(self) -> Path:
        """The file that says whose signatures count; for whoever verifies."""
        return self._open.vault.place.policy

    @property
    def status(self) -> BudgetStatus:
        """All of this at one moment."""
        report = self.report()
        return BudgetStatus(
            account=self.account,
            protected=self.protected,
            epsilon=self.epsilon,
            delta=self.delta,
            used=report.consumed,
            left=report.remaining.available,
            epsilon_spent=report.epsilon_spent,
            where=_where(self._open),
        )

    def report(self) -> BudgetReport:
        """What is used and left, the risk, and what would lower it."""
        vault = self._open.vault
        return vault.storage.read_snapshot(lambda t: budget_report(vault.ledger, t, self.account))

    def service(self) -> ReleaseService:
        """What answers and charges, from the open records."""
        _ = self._open.vault
        return self._open.service

    def context(self, **more: Any) -> Context:
        """For handlers: these records, and a voice.

        Args:
            more: other fields of `Context`.
        """
        return Context(**{"service": self.service(), "say": say, **more})

    def close(self) -> None:
        """Sign what is on record and let go of the database, if no other budget uses it."""
        if self._is_open:
            self._is_open = False
            self._records.release()

    @property
    def _open(self) -> OpenRecords:
        if not self._is_open:
            raise InvalidInput(f"the budget {self.account!r} was closed: open it again")
        return self._records

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return str(self.status) if self._is_open else f"Budget {self.account!r}, closed"

    def _repr_html_(self) -> str:
        return render_html(self.status)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        """There is one account: a cloned estimator spends from it as well."""
        return self

    def __reduce__(self) -> Any:
        """In another process the account is opened again."""
        if self._given["database"] == IN_MEMORY:
            raise InvalidInput(
                f"the budget {self.account!r} is in memory, so no other process can spend from it: "
                "name a database, or work in one process (n_jobs=1)"
            )
        place = self._records.service.vault.place.database
        database = self._given["database"]
        is_address = file_of(place) is None or str(database).startswith("env:")
        stated = {**self._given, "database": database if is_address else place}
        return _reopened, (self.account, stated)


def _reopened(name: str, given: dict[str, Any]) -> Budget:
    return Budget(name, **given)


def _check_texts(**given: object) -> None:
    if isinstance(given["name"], str) and not given["name"]:
        raise InvalidInput("Budget: name: must not be empty; best the version of the data")
    for field, text in given.items():
        if not isinstance(text, str) and (text is not None or field == "name"):
            raise InvalidInput(f"Budget: {field}: expected a text, found a {type(text).__name__}")


def _command(name: str, given: dict[str, Any]) -> OpenBudget | None:
    """What is stated; None if the figures are not."""
    if given["epsilon"] is None and given["delta"] is None:
        return None
    for key in ("epsilon", "delta"):
        if given[key] is None or isinstance(given[key], str | bool):
            raise InvalidInput(
                f"Budget: {key}: expected a number, found {given[key]!r}; state both, epsilon=3, "
                "delta=1e-6, or neither to reopen a budget"
            )
    stated = {key: given[key] for key in ("epsilon", "delta", "unit")}
    stated |= {"database": IN_MEMORY, "account": name, "dataset": given["dataset"] or name}
    one_by_one = str(given["unit"]) == str(ProtectedUnit.EXPLAINED_ROW)
    usual = Relation.REPLACE_ONE if one_by_one else Relation.BLANK_ONE
    stated |= {"parallel": one_by_one, "relation": given["relation"] or usual}
    stated = {key: each for key, each in stated.items() if each is not None}
    command = OpenBudget.read(stated, "Budget")
    opening_of(command)  # refused before anything is made
    return command


def _place(database: str) -> Place | None:
    """Where it lies; None for what is kept nowhere."""
    if database == IN_MEMORY:
        return None
    place = place_of(database, KeyFiles(), Path.cwd())
    file = file_of(place.database)
    if file is not None:
        file_named(file, "Budget: database")
    return place


def _is_there(place: Place | None) -> bool:
    if place is None:
        return False
    path = file_of(place.database)
    return place.policy.exists() if path is None else path.exists()


def _account(name: str, command: OpenBudget | None, records: OpenRecords) -> Account:
    if command is not None:
        context = Context(service=records.service, say=say)
        return open_or_compare(command, context, records.vault)
    found = records.vault.find_account(name)
    if found is None:
        raise InvalidInput(_unstated(name, records.vault.place))
    return found


def _unstated(name: str, place: Place | None) -> str:
    where = "" if place is None else f" in {_database(place)}"
    return (
        f"there is no budget {name!r}{where} yet. State epsilon and delta to open it: "
        f"Budget({name!r}, epsilon=3, delta=1e-6)"
    )


def _where(records: OpenRecords) -> str:
    place = records.vault.place
    return "in memory, nothing is kept" if place.database == IN_MEMORY else f"in {_database(place)}"


def _database(place: Place) -> str:
    """Never the address of a server, which may hold a password."""
    path = file_of(place.database)
    return "a PostgreSQL database" if path is None else str(relative_path(path))


def _made(account: Account, records: OpenRecords) -> str:
    place = records.vault.place
    if place.database == IN_MEMORY:
        return (
            f"Budget {account.name!r} is in memory: nothing is kept, and what is spent is "
            "forgotten when this process ends"
        )
    folder = relative_path(place.policy.parent)
    return (
        f"Budget {account.name!r} opened in {_database(place)}. Beside it, in {folder}: "
        f"{place.signing_key.name} and {place.replay_key.name} (secret: back them up with the "
        f"database), {place.policy.name} (public: give it to whoever verifies)"
    )
