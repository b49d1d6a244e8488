"""Routes of the log: records and tiles for auditors, receipts for whoever got the answer."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response

from voile.app.serving import ServedWorkspace, UnknownName
from voile.app.serving.served import charge_of_record
from voile.core.errors import InvalidInput
from voile.records.audit_log import Tile
from voile.records.audit_log.publishing import latest_checkpoint
from voile.records.storage import Reader
from voile.server.answering import FOR_AUDITORS, Explaining, OneService
from voile.server.problems import NotYetSigned

router = APIRouter(tags=["log"])
_TEXT: Final = "text/plain; charset=utf-8"
_BYTES: Final = "application/octet-stream"
_FOR_EVER: Final = {"Cache-Control": "private, max-age=31536000, immutable"}
_WAIT: Final = re.compile(r"(?:^|[,;\s])wait=([0-9]{1,3})(?:$|[,;\s])", re.ASCII)
_LONGEST_WAIT: Final = 30
_LOOK: Final = 0.1
_LARGEST: Final = 2**62
Number = Annotated[int, Path(ge=0, le=_LARGEST)]


@router.get("/api/v1/records", dependencies=[FOR_AUDITORS])
async def list_records(
    service: OneService,
    first: Annotated[int, Query(ge=0, le=_LARGEST)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> dict[str, Any]:
    """Records in order: public facts and commitments, no rows, names or answers."""
    log = service.workspace.vault.log
    found = await _read(service.workspace, lambda t: log.records(t, first=first, limit=limit))
    numbered = enumerate(map(json.loads, found), start=first)
    return {"records": [{"index": number, **record} for number, record in numbered]}


@router.get("/log/checkpoint", dependencies=[FOR_AUDITORS])
async def show_checkpoint(service: OneService) -> Response:
    """The latest signed checkpoint (c2sp.org/tlog-checkpoint)."""
    found = await asyncio.to_thread(latest_checkpoint, service.workspace.vault.storage)
    if found is None:
        raise UnknownName("no checkpoint was signed yet")
    return Response(found, media_type=_TEXT)


@router.get("/log/tile/{place:path}", dependencies=[FOR_AUDITORS])
async def show_tile(place: Annotated[str, Path(max_length=100)], service: OneService) -> Response:
    """A tile of hashes, or a bundle of records (c2sp.org/tlog-tiles), of what is signed."""

    def read(t: Reader) -> bytes:
        try:
            tile = Tile.parse(place)
        except InvalidInput:
            raise UnknownName("there is no such tile") from None
        if not tile.is_within(service.workspace.vault.log.signed_size(t)):
            raise UnknownName("there is no such tile")
        return tile.content(t)

    content = await _read(service.workspace, read)
    return Response(content, media_type=_BYTES, headers=_FOR_EVER)


@router.get("/api/v1/receipts/{record}")
async def show_receipt(
    record: Number, request: Request, service: OneService, caller: Explaining
) -> Response:
    """The receipt of an answer, for whoever got it. `Prefer: wait=10` waits for a checkpoint."""
    workspace = service.workspace
    if not await asyncio.to_thread(workspace.is_recipient, record, caller):
        raise UnknownName("you got no answer with this record")
    if not await _signed(workspace, record, _seconds(request)):
        raise NotYetSigned("no checkpoint covers this record yet")
    content = await asyncio.to_thread(_receipt, workspace, record)
    return Response(content, media_type=_TEXT)


def _receipt(workspace: ServedWorkspace, record: int) -> bytes:
    vault, service = workspace.vault, workspace.service
    charge = vault.storage.read_snapshot(lambda t: charge_of_record(vault, t, record))
    return bytes(service.receipt_of_call(record) if charge is None else service.receipt(charge))


def _seconds(request: Request) -> int:
    """What `Prefer` asks for (RFC 7240)."""
    found = _WAIT.search(request.headers.get("prefer", ""))
    return min(int(found[1]), _LONGEST_WAIT) if found else 0


async def _signed(workspace: ServedWorkspace, record: int, seconds: int) -> bool:
    until = time.monotonic() + seconds
    while not await asyncio.to_thread(workspace.vault.covers, record):
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(_LOOK)
    return True


async def _read(workspace: ServedWorkspace, question: Callable[[Reader], Any]) -> Any:
    return await asyncio.to_thread(workspace.vault.storage.read_snapshot, question)
