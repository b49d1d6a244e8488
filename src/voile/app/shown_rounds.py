"""The chain of rounds as parties' logs tell it: was everybody shown the same?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from voile.core.errors import Refused
from voile.federation import AnnouncedRound
from voile.records.audit_log import RoundShownRecord, decode_record
from voile.records.audit_log.notes import VerifierKey

_Where: TypeAlias = tuple[str, str, int]


def contradictions(logs: Mapping[str, Iterable[bytes]], server: VerifierKey) -> tuple[str, ...]:
    """Rounds for which logs hold different links, or links that do not hang together.

    Each link counts as far as the server signed it, so two of one round prove that it showed two
    histories; what it did not sign is told as such, and proves something about the log that holds
    it.

    Args:
        logs: the records of each party.
        server: the key that was agreed on.
    """
    shown: dict[_Where, dict[bytes, str]] = {}
    found = []
    for party, records in logs.items():
        for record in map(decode_record, records):
            if not isinstance(record, RoundShownRecord):
                continue
            if not _is_signed(record, server):
                found.append(f"{party} holds a round that the server did not sign")
                continue
            agreement, stage, number = record.agreement, record.stage, record.round
            shown.setdefault((agreement, stage, number), {}).setdefault(record.link, party)
            # What a round is chained to is what the server calls the link of the round before.
            before = shown.setdefault((agreement, stage, number - 1), {})
            before.setdefault(record.previous, party)
    for (_, stage, number), links in sorted(shown.items()):
        if len(links) > 1:
            found.append(f"round {number} of {stage!r} ({', '.join(sorted(links.values()))})")
    return tuple(found)


def _is_signed(record: RoundShownRecord, server: VerifierKey) -> bool:
    try:
        announced = AnnouncedRound(
            record.agreement,
            record.stage,
            record.round,
            record.previous.hex(),
            record.link.hex(),
            record.begun.hex(),
            bytes.fromhex(record.signature),
        )
        announced.verify(server.public)
    except (Refused, ValueError):
        return False
    return True
