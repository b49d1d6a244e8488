"""What the commands of `voile budget` share: where a ledger lies, and opening it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voile.cli.files import place_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from voile.app.custody import Custody, Place
    from voile.core.storage import Storage

AccountArgument = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Name of the account.")]


def open_database(database: str) -> Storage:
    from voile.app.custody import PARTS
    from voile.core.storage.opening import open_existing

    return open_existing(database, PARTS)


@contextmanager
def open_to_read(database: str) -> Iterator[Storage]:
    """To look into; refused if it was set back behind the copy of the last checkpoint.

    What is beside the database decides: without its policy nobody knows whose signature counts.
    """
    place = place_of(database)
    if not place.policy.exists():
        with open_database(database) as storage:
            yield storage
        return
    with open_books(database, None, None) as custody:
        yield custody.storage


def checked_place(database: str, key: Path | None = None, policy: Path | None = None) -> Place:
    """As `place_of`; what is named has to be there."""
    from voile.app.custody import check_named

    check_named(key, policy)
    return place_of(database, key, policy)


def open_books(
    database: str, key: Path | None, policy: Path | None
) -> AbstractContextManager[Custody]:
    from voile.app.custody import open_custody_at

    return open_custody_at(checked_place(database, key, policy), signing=None)
