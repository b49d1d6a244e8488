"""Records of the log: found, shown with their proof, exported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from voile.app.dashboard.dashboard import Dashboard
from voile.app.dashboard.record_index import CHUNK, RecordQuery
from voile.app.explain.per_record import parent_of_record
from voile.app.serving import UnknownName
from voile.core.errors import InvalidInput
from voile.records.audit_log.publishing import issue_receipt
from voile.records.storage import Reader

MOST: Final = 50
"""Records on one page."""
_PAGE: Final = 1000
_SAID: Final[Mapping[str, str]] = {
    "release": "{subject}: charged ({charge})",
    "post-processing": "{subject}: free, {rows} row(s)",
    "refusal": "refused: {reason}",
    "budget opened": "opened with ε = {epsilon}, δ = {delta}",
    "budget renewed": "renewed, period {period}: {reason}",
    "federation round": "round {round} of {federation}, {clients} parties",
    "participation": "took part in round {round} of {federation}",
    "absence": "{client} was absent from round {round}: {outcome}",
    "key issued": "key {key} for {duties}",
    "key revoked": "key {key} ended",
    "key rotation": "the log signs with another key: {reason}",
    "checkpoint accepted": "accepted at {size} records: {reason}",
    "rule": "a rule: {rule}",
    "alert": "{metric} of {subject} reached {value}; people are told from {threshold} on",
    "measure": "{action}, until {until}: {metric} of {subject} reached {value}",
    "lift": "a measure about {subject} ended: {cause}",
    "trust": "{client} in round {round}: trust {trust}",
    "assessment": "{subject}: an attack on our own claims",
}


@dataclass(frozen=True)
class RecordLine:
    """A record in a list.

    Args:
        account: as people see it; of an account of one person, the account above.
        said: what happened, in a few words.
    """

    number: int
    time: int
    kind: str
    account: str
    said: str


@dataclass(frozen=True)
class RecordSearch:
    """What was found.

    Args:
        asked: as it was typed.
        problem: why nothing was searched for; empty if something was.
        total: how many records there are of this kind.
        following: to go on below this record; None at the end.
        indexed: how many records were searched, of how many there are.
    """

    asked: str
    problem: str
    lines: tuple[RecordLine, ...]
    total: int
    following: int | None
    indexed: tuple[int, int]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class RecordPage:
    """One record with its proof.

    Args:
        fields: as people read them.
        content: canonical bytes, as they are hashed.
        path: hashes from the record up to the root, hexadecimal.
        size, root: of the checkpoint that covers it; None while none does.
    """

    line: RecordLine
    fields: tuple[tuple[str, str], ...]
    content: str
    leaf: str
    path: tuple[str, ...]
    size: int | None
    root: str


def search_records(dashboard: Dashboard, asked: str, before: int | None = None) -> RecordSearch:
    """Newest first."""
    index = dashboard.index
    index.follow(most=CHUNK)
    size = dashboard.vault.storage.read_snapshot(index.head)
    kinds = tuple(index.kinds)
    try:
        query = RecordQuery.parse(asked)
    except InvalidInput as wrong:
        return RecordSearch(asked, str(wrong), (), 0, None, (index.size, size), kinds)
    numbers, total = index.search(query, before=before, most=MOST + 1)
    lines = tuple(lines_of(dashboard, numbers[:MOST]))
    following = lines[-1].number if len(numbers) > MOST else None
    return RecordSearch(asked, "", lines, total, following, (index.size, size), kinds)


def lines_of(dashboard: Dashboard, numbers: Sequence[int]) -> list[RecordLine]:
    """Records of these numbers, in this order."""
    log = dashboard.vault.log

    def read(t: Reader) -> list[bytes]:
        return [log.record(t, number) for number in numbers]

    found = dashboard.vault.storage.read_snapshot(read)
    return [_line(number, json.loads(each)) for number, each in zip(numbers, found, strict=True)]


def _line(number: int, record: Mapping[str, Any]) -> RecordLine:
    kind, account = str(record.get("kind", "")), str(record.get("account", ""))
    above = parent_of_record(account)
    readable = {name: _readable(value) for name, value in record.items()}
    said = _SAID.get(kind, "").format_map(_Known(readable))
    shown = f"{above} (one person)" if above else account
    return RecordLine(number, int(record.get("time", 0)), kind, shown, said)


class _Known(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


def _readable(value: Any) -> str:
    """Numbers are kept in hexadecimal, so that all read the same; people read decimals."""
    if isinstance(value, str) and value.lstrip("-").startswith("0x"):
        try:
            return f"{float.fromhex(value):.6g}"
        except ValueError:
            return value
    return str(value)


def show_record(dashboard: Dashboard, number: int) -> RecordPage:
    """One record, with the proof that it is in the log as it was signed last."""
    log = dashboard.vault.log

    def read(t: Reader) -> tuple[bytes, int, Sequence[bytes], bytes]:
        if not 0 <= number < log.head(t).size:
            raise UnknownName("there is no record of this number")
        content, signed = log.record(t, number), log.signed_size(t)
        if signed <= number:
            return content, 0, (), b""
        return content, signed, log.inclusion_proof(t, number, signed), log.root_at(t, signed)

    content, signed, path, root = dashboard.vault.storage.read_snapshot(read)
    record = json.loads(content)
    return RecordPage(
        line=_line(number, record),
        fields=tuple((name, _readable(value)) for name, value in record.items()),
        content=content.decode(),
        leaf=hashlib.sha256(b"\x00" + content).hexdigest(),
        path=tuple(each.hex() for each in path),
        size=signed or None,
        root=root.hex(),
    )


def prove_record(dashboard: Dashboard, number: int) -> bytes:
    """A proof of one record that anybody can check offline; it opens nothing of it."""
    vault = dashboard.vault
    return bytes(issue_receipt(vault.storage, vault.log, number))


def export_records(dashboard: Dashboard) -> Iterator[bytes]:
    """All records that are signed, a line each, as `voile audit verify` reads them."""
    vault = dashboard.vault
    size = vault.storage.read_snapshot(vault.log.signed_size)
    first = 0
    while first < size:
        page = vault.storage.read_snapshot(
            partial(vault.log.records, first=first, limit=min(_PAGE, size - first))
        )
        yield b"".join(record + b"\n" for record in page)
        first += len(page)
