"""Writes `ledger.zip` and `readings.json`: one database with every way of adding charges up.

    python -m tests.contract.stored.ledger.make

Run once, with the version whose databases must stay readable. Never run it again.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tests.unit.records.ledger.examples import CHEAP, Books
from voile.core.errors import BudgetExceeded
from voile.core.guarantee import Relation
from voile.privacy.events import Gaussian, Laplace, PoissonSampled, PureDp, Repeated
from voile.records.ledger import (
    PART,
    AdaptiveSpending,
    Children,
    PlannedSpending,
    how_many,
    remaining,
    would_cost,
)
from voile.records.storage import open_storage

FOLDER = Path(__file__).parent
SAMPLED = PoissonSampled(Gaussian(2.0), 0.01, Relation.BLANK_ONE)
EVENTS = (CHEAP, Laplace(30.0), PureDp(0.03), Repeated(Gaussian(40.0), 3))
FILTERS = ("clinic", "research", "wards", "north", "south", "one order", "three orders", "small")


def open_books(path: Path) -> Books:
    return Books.on(open_storage(f"sqlite:{path}", [PART]))


def write(books: Books) -> None:
    """Open and charge accounts of every kind; renew one; be refused."""
    books.open("clinic", epsilon=3.0)
    books.open("research", parent="clinic", epsilon=2.0)
    books.open("wards", parent="clinic", epsilon=2.0, children=Children.PARALLEL)
    books.open("north", parent="wards", epsilon=1.0)
    books.open("south", parent="wards", epsilon=1.5)
    books.open("listed", parent="clinic", spending=PlannedSpending((CHEAP, CHEAP)))
    books.open("one order", dataset="two", spending=AdaptiveSpending((16.0,)))
    books.open("three orders", dataset="three", spending=AdaptiveSpending((8.0, 16.0, 24.0)))
    books.open("small", dataset="four", epsilon=0.2)
    charge(books)
    books.renew("south")
    charge(books)


def charge(books: Books) -> None:
    """One round of charges, some of which may be refused."""
    for account in ("clinic", "research", "wards", "north", "south"):
        for event in EVENTS:
            books.charge(account, event)
    books.charge("listed")
    for _ in range(3):
        books.charge("one order", SAMPLED, dataset="two")
        books.charge("three orders", SAMPLED, dataset="three")
    for _ in range(6):
        try:
            books.charge("small", dataset="four")
        except BudgetExceeded:
            return


def further(books: Books) -> None:
    """Charges on the stored database."""
    for name in ("clinic", "south"):
        books.charge(name, Laplace(25.0))
    books.charge("three orders", SAMPLED, dataset="three")


def readings(books: Books) -> dict[str, Any]:
    """All sums bit for bit, and what would fit."""
    found = {name: _reading(books, name) for name in FILTERS}
    with_refusals = [books.ask(would_cost, name, Gaussian(1.0)) for name in FILTERS]
    return found | {"refusals": [each.refused_because for each in with_refusals]}


def _reading(books: Books, name: str) -> list[Any]:
    node = books.storage.submit(lambda t: books.ledger.node(t, name))
    left = books.ask(remaining, name)
    sums = [each.hex() for total in (*node.standing, node.account.budgets) for each in total]
    shares = [each.hex() for each in (left.share, left.available, left.epsilon_spent)]
    return [sums, shares, left.limited_by, books.ask(how_many, name, CHEAP)]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        books = open_books(path)
        write(books)
        found = {"stored": readings(books)}
        books.storage.close()
        with zipfile.ZipFile(FOLDER / "ledger.zip", "w", zipfile.ZIP_DEFLATED) as packed:
            packed.write(path, path.name)
        books = open_books(path)
        further(books)
        found["charged further"] = readings(books)
        books.storage.close()
    (FOLDER / "readings.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
