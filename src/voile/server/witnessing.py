"""The route of a witness for the logs of others (c2sp.org/tlog-witness).

Requests need no key: the signature in them is what counts, and nothing secret is in the answer.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, Request, Response

from voile.app.serving import UnknownName
from voile.core.errors import StorageFault
from voile.records.audit_log import Witness
from voile.records.audit_log.notes import LARGEST_NOTE
from voile.server.answering import OneService

router = APIRouter(prefix="/witness", tags=["witness"])
_LARGEST: Final = LARGEST_NOTE + 64 * 64
_TEXT: Final = "text/plain; charset=utf-8"


@router.post("/add-checkpoint")
async def add_checkpoint(request: Request, service: OneService) -> Response:
    """Cosign a checkpoint that extends the last one cosigned here."""
    witness = service.workspace.witness
    if witness is None:
        raise UnknownName("this service is no witness")
    body = await request.body()
    if len(body) > _LARGEST:
        return Response("the request is too large\n", 413, media_type=_TEXT)
    return await asyncio.to_thread(_answer, witness, body)


def _answer(witness: Witness, body: bytes) -> Response:
    try:
        reply = witness.add_checkpoint(body)
    except StorageFault:
        # Nothing was stored for certain, so nothing is cosigned.
        return Response("the witness cannot store its state now\n", 503, media_type=_TEXT)
    headers = {"Content-Type": reply.content_type}
    return Response(reply.body, reply.status, headers=headers)
