"""What every page has in common: who is signed in, where one can go, and the page itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from voile.app.serving import Caller
from voile.records.access import Duty


@dataclass(frozen=True)
class Place:
    """A page that is in the menu.

    Args:
        duties: any one of these opens it.
    """

    path: str
    title: str
    duties: frozenset[Duty]


_READERS: Final = frozenset({Duty.OBSERVE, Duty.AUDIT})
OVERVIEW: Final = Place("/", "Overview", _READERS)
BUDGETS: Final = Place("/budgets", "Budgets", _READERS | {Duty.APPROVE})
RECORDS: Final = Place("/records", "Records", frozenset({Duty.AUDIT}))
EXPLAIN: Final = Place("/explain", "Explain", frozenset({Duty.EXPLAIN}))
MODEL: Final = Place("/model", "Model", frozenset({Duty.EXPLAIN}))
FEDERATION: Final = Place("/federation", "Federation", _READERS)
EVIDENCE: Final = Place("/evidence", "Rules and evidence", frozenset({Duty.AUDIT}))
KEYS: Final = Place("/keys", "Keys and people", frozenset({Duty.ADMINISTER}))
PLACES: Final = (OVERVIEW, BUDGETS, EXPLAIN, MODEL, FEDERATION, RECORDS, EVIDENCE, KEYS)
"""The menu, in its order."""


def places_of(caller: Caller) -> tuple[Place, ...]:
    """What this caller may open."""
    return tuple(place for place in PLACES if place.duties & caller.grants.duties)


@dataclass(frozen=True)
class Frame:
    """Around a page.

    Args:
        who: whoever is signed in; empty if nobody is.
        here: path of the page in the menu.
        places: what is in the menu.
        token: what forms of this session carry.
        exported: name of the file of each path, in an export; None where pages are served.
    """

    who: str = ""
    here: str = ""
    places: tuple[Place, ...] = ()
    token: str = field(default="", repr=False)
    exported: Mapping[str, str] | None = None

    @property
    def is_live(self) -> bool:
        """Whether pages are served, so that forms have somebody to go to."""
        return self.exported is None

    def link(self, path: str) -> str:
        """Where a page lies; empty if it is not in the export."""
        return path if self.exported is None else self.exported.get(path, "")

    def asset(self, name: str) -> str:
        """Where a file of the pages lies."""
        return f"/static/{name}" if self.exported is None else f"static/{name}"


@dataclass(frozen=True)
class DashboardPage:
    """A page: its template, and what it shows.

    Args:
        name: of the template.
        title: of the page.
        content: what the handler found; the template calls it `page`.
    """

    view: ClassVar[str] = "dashboard page"

    name: str
    title: str
    frame: Frame
    content: Any
