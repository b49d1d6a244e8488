"""Which records there are: kind, account and time of each, in memory, so that a search is quick.

The log itself keeps records in their order and nothing else. Whoever looks for the refusals of one
account among a million records would read them all. So what a search needs is read once, when a
service starts, and then only what is new: 13 bytes for each record.

Accounts of single people are folded into the account above: nobody looks for one person.
"""

from __future__ import annotations

import calendar
import json
import re
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.app.explain.per_record import parent_of_record
from voile.core.errors import InvalidInput
from voile.records.storage import Reader
from voile.records.vault import Vault

CHUNK: Final = 2000
"""Records that are read before others get a turn."""
_ROOM: Final = 1024
_WORD: Final = re.compile(r'(\w+):(?:"([^"]*)"|(\S+))|(\S+)')
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
Rows: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class RecordQuery:
    """What is searched for; empty fields are not.

    >>> RecordQuery.parse('kind:refusal account:"people v1"').account
    'people v1'
    """

    kind: str = ""
    account: str = ""
    since: int | None = None
    until: int | None = None

    @classmethod
    def parse(cls, text: str) -> RecordQuery:
        """`kind:refusal account:"people v1" since:2026-01-31 until:2026-02-28`; in any order."""
        found: dict[str, Any] = {}
        for word, quoted, plain, other in _WORD.findall(text):
            if other or word not in ("kind", "account", "since", "until") or word in found:
                raise InvalidInput(
                    f"{other or word!r} cannot be searched for. Use kind:, account:, since: and "
                    'until:, each once; put words with spaces in quotes: kind:"budget opened"'
                )
            found[word] = quoted or plain
        for name in ("since", "until"):
            if name in found:
                found[name] = _seconds(found[name]) + (86_399 if name == "until" else 0)
        return cls(**found)


def _seconds(date: str) -> int:
    try:
        if not _DATE.fullmatch(date):
            raise ValueError
        return calendar.timegm(time.strptime(date, "%Y-%m-%d"))
    except ValueError:
        raise InvalidInput(f"{date!r} is no date. Write the year first: 2026-01-31") from None


class _Names:
    """Texts by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}
        self.texts = [""]

    def number(self, text: str) -> int:
        found = self.numbers.get(text)
        if found is None:
            found = self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return found


class RecordIndex:
    """Kind, account and time of each record of a log."""

    def __init__(self, vault: Vault) -> None:
        self._vault, self._lock = vault, threading.Lock()
        self._kinds, self._accounts = _Names(), _Names()
        self._rows: tuple[Rows, Rows, Rows] = _empty(_ROOM)
        self.size = 0

    def follow(self, *, most: int) -> bool:
        """Read what is new, at most so many records; whether that was all."""
        with self._lock:
            read = self._vault.storage.read_snapshot(
                lambda t: self._vault.log.records(t, first=self.size, limit=most)
            )
            for content in read:
                self._take(content)
        return len(read) < most

    def _take(self, content: bytes) -> None:
        record = json.loads(content)
        account = str(record.get("account", ""))
        folded = parent_of_record(account) or account
        if self.size == len(self._rows[0]):
            self._rows = _grown(self._rows)
        kinds, accounts, times = self._rows
        kinds[self.size] = self._kinds.number(str(record.get("kind", "")))
        accounts[self.size] = self._accounts.number(folded)
        times[self.size] = record.get("time", 0)
        self.size += 1

    def head(self, t: Reader) -> int:
        """How many records there are."""
        return self._vault.log.head(t).size

    @property
    def kinds(self) -> list[str]:
        """Those that occur, by name."""
        return sorted(self._kinds.texts[1:])

    def count(self, kind: str, *, since: float = 0, accounts: Collection[str] | None = None) -> int:
        """How many records of a kind, of these accounts or of all."""
        return int(np.count_nonzero(self._matching(RecordQuery(kind), accounts, since)))

    def search(
        self,
        query: RecordQuery,
        *,
        before: int | None = None,
        most: int = 50,
        accounts: Collection[str] | None = None,
    ) -> tuple[list[int], int]:
        """Numbers of records, newest first, and how many there are in all.

        Args:
            before: only records below this number.
            accounts: only those of these accounts; None for all.
        """
        found = np.flatnonzero(self._matching(query, accounts, 0))
        shown = found if before is None else found[: np.searchsorted(found, before)]
        return [int(each) for each in shown[: -most - 1 : -1]], len(found)

    def _matching(
        self, query: RecordQuery, accounts: Collection[str] | None, since: float
    ) -> NDArray[np.bool_]:
        size = self.size
        kinds, named, times = (each[:size] for each in self._rows)
        found = np.ones(size, dtype=bool)
        if query.kind:
            found &= kinds == self._kinds.numbers.get(query.kind, -1)
        if query.account:
            found &= named == self._accounts.numbers.get(query.account, -1)
        if accounts is not None:
            numbers = [self._accounts.numbers.get(each, -1) for each in accounts]
            found &= np.isin(named, numbers)
        for bound in (since or None, query.since):
            if bound is not None:
                found &= times >= bound
        if query.until is not None:
            found &= times <= query.until
        return found


def _empty(room: int) -> tuple[Rows, Rows, Rows]:
    return np.zeros(room, np.int16), np.zeros(room, np.int32), np.zeros(room, np.int64)


def _grown(rows: tuple[Rows, Rows, Rows]) -> tuple[Rows, Rows, Rows]:
    first, second, third = (np.concatenate([each, np.zeros_like(each)]) for each in rows)
    return first, second, third
