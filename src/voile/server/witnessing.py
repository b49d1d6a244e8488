"""The route of a witness for the logs of others (c2sp.org/tlog-witness).

Requests need no key: the signature in them is what counts, and nothing secret is in the answer.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response

from voile.app.serving import UnknownName
from voile.core.errors import StorageFault
from voile.records.audit_log import Witness
from voile.records.audit_log.witness import LARGEST_REQUEST, PATH

router = APIRouter(tags=["witness"])
_TEXT: Final = "text/plain; charset=utf-8"


async def _witness(request: Request) -> Witness:
    found: Witness | None = request.app.state.witness
    if found is None:
        raise UnknownName("this service is no witness")
    return found


@router.post(PATH)
async def add_checkpoint(
    request: Request, witness: Annotated[Witness, Depends(_witness)]
) -> Response:
    """Cosign a checkpoint that extends the last one cosigned here."""
    body = await request.body()
    if len(body) > LARGEST_REQUEST:
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
