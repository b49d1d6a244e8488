"""The chain of rounds as parties' logs tell it: was everybody shown the same?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from voile.audit_log import RoundShownRecord, decode_record


def contradictions(logs: Mapping[str, Iterable[bytes]]) -> tuple[str, ...]:
    """Rounds for which logs hold different links, or links that do not hang together.

    Each link was signed by the server, so two of one round prove that it showed two histories.

    Args:
        logs: the records of each party.
    """
    shown: dict[tuple[str, str, int], dict[bytes, str]] = {}
    before: dict[tuple[str, str, int], dict[bytes, str]] = {}
    for party, records in logs.items():
        for record in map(decode_record, records):
            if isinstance(record, RoundShownRecord):
                where = record.agreement, record.stage, record.round
                shown.setdefault(where, {}).setdefault(record.link, party)
                earlier = record.agreement, record.stage, record.round - 1
                before.setdefault(earlier, {}).setdefault(record.previous, party)
    found = []
    for where in sorted({*shown, *before}):
        parties = {**before.get(where, {}), **shown.get(where, {})}
        if len(parties) > 1:
            _, stage, number = where
            found.append(f"round {number} of {stage!r} ({', '.join(sorted(parties.values()))})")
    return tuple(found)
