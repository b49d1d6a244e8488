"""Tables that belong together, their version, and how an older version becomes the newest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from voile.core.errors import InvalidInput
from voile.records.storage.session import Migrator
from voile.records.storage.tables import Table


@dataclass(frozen=True)
class Part:
    """The tables of one component, with their version.

    Args:
        name: the component, for example "ledger".
        tables: the tables of the newest version.
        version: goes up by one with each change of the tables.
        migrations: `migrations[n]` turns version n into n + 1, inside the opening transaction.
    """

    name: str
    tables: tuple[Table[Any], ...]
    version: int = 1
    migrations: Mapping[int, Callable[[Migrator], None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        missing = [n for n in range(1, self.version) if n not in self.migrations]
        if self.version < 1 or missing:
            raise InvalidInput(
                f"part {self.name!r} of version {self.version} lacks migrations from {missing}"
            )
