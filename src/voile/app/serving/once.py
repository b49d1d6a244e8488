"""A request that is sent again is answered once: the same answer, and no second charge.

What is kept is written in the transaction that charges. So a crash leaves either nothing, and the
request is new, or the charge together with what it takes to give the same answer again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from voile.core.errors import Refused
from voile.records.access import REPEATS, RepeatRow, add_recipient
from voile.records.ledger import ReplayKey
from voile.records.storage import Reader, Table, Transaction
from voile.records.storage.tables import Key

Entry = tuple[str | None, int, bool]
"""Of an answer the charge, the number of its record, and whether it was given again."""


class AnsweredMeanwhile(Refused):
    """Another request with this key was answered first."""


class OtherPayload(Refused):
    """This key was used for another request."""


@dataclass(frozen=True)
class Once:
    """A request with a key against repetition.

    Args:
        scope: keyed digest of caller, account, endpoint and key.
        payload: keyed digest of what is asked.
        seconds: for which it is recognised.
    """

    scope: bytes
    payload: bytes
    seconds: float

    @classmethod
    def of_request(
        cls, key: ReplayKey, scope: Sequence[str | None], payload: Any, seconds: float
    ) -> Once:
        """Nothing of either can be read from what is stored.

        Args:
            scope: caller, account, endpoint and key.
            payload: plain values.
        """
        return cls(
            key.nonce(json.dumps(list(scope)), "scope of a repeated request"),
            key.nonce(json.dumps(payload, sort_keys=True), "payload of a repeated request"),
            seconds,
        )

    def part(self, number: int) -> Once:
        """Of one of several requests that were sent together."""
        if number == 0:
            return self
        scope = bytes(a ^ b for a, b in zip(self.scope, number.to_bytes(32, "big"), strict=True))
        return replace(self, scope=scope)

    @property
    def rows(self) -> list[tuple[Table[Any], Key]]:
        """Which records `find` reads."""
        return [(REPEATS, (self.scope,))]

    def find(self, t: Reader) -> list[Entry] | None:
        """What was answered; `OtherPayload` if something else was asked."""
        row = self._row(t)
        if row is None:
            return None
        if row.payload != self.payload:
            raise OtherPayload("this Idempotency-Key was used for another request")
        return [(charge, record, again) for charge, record, again in json.loads(row.answers)]

    def refuse(self, t: Reader) -> Refused | None:
        """See `voile.app.explain.charging.Settlement`."""
        try:
            found = self.find(t)
        except OtherPayload as other:
            return other
        return None if found is None else AnsweredMeanwhile("answered meanwhile")

    def keep(self, t: Transaction, entries: Sequence[Entry]) -> None:
        """See `voile.app.explain.charging.Settlement`."""
        row = RepeatRow(self.scope, self.payload, json.dumps(list(entries)), time.time())
        # An expired row gives way; one that counts was refused before.
        write = t.insert if t.get(REPEATS, self.scope) is None else t.replace
        write(REPEATS, row)

    def _row(self, t: Reader) -> RepeatRow | None:
        row = t.get(REPEATS, self.scope)
        return None if row is None or row.time + self.seconds <= time.time() else row


@dataclass(frozen=True)
class Receiving:
    """Notes who gets an answer that costs nothing: the ledger does not know them."""

    caller: str

    def refuse(self, _: Reader) -> Refused | None:
        """See `voile.app.explain.charging.Settlement`."""
        return None

    def keep(self, t: Transaction, entries: Sequence[Entry]) -> None:
        """See `voile.app.explain.charging.Settlement`."""
        for _, record, _ in entries:
            add_recipient(t, record, self.caller)
