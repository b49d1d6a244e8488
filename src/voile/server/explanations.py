"""Routes for whoever wants explanations: `/api/v1`, this service's own protocol."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from fastapi import APIRouter, Request, Response

from voile.app.explain import ReleasedExplanation
from voile.app.serving import AskedExplanation, AskedRecommendation
from voile.app.serving.release import answer_facts
from voile.server.answering import (
    FOR_EXPLAINERS,
    Explaining,
    Given,
    OneService,
    SomeCaller,
    give,
    give_all,
    repeat_key,
)
from voile.server.bodies import (
    BatchBody,
    ExplanationBody,
    PreviewBody,
    RecommendationBody,
    RowsBody,
)
from voile.server.problems import problem_of

router = APIRouter(prefix="/api/v1", tags=["explanations"])


@router.get("/releases", dependencies=[FOR_EXPLAINERS])
async def list_releases(service: OneService) -> dict[str, Any]:
    """What can be asked, with the price of one row; and what recommends."""
    found = await asyncio.to_thread(
        lambda: [each.facts() for each in service.workspace.releases.values()]
    )
    recommenders = [each.facts() for each in service.workspace.recommenders.values()]
    return {"releases": found, "recommenders": recommenders}


@router.post("/explanations")
async def explain(
    request: Request,
    response: Response,
    body: ExplanationBody,
    service: OneService,
    caller: SomeCaller,
) -> dict[str, Any]:
    """Explain rows: charged, on record, and stored before the answer leaves."""
    served = service.workspace.release(body.release, caller)
    asked = _asked(body, repeat_key(request), "explanations")
    given = await give(service, served, asked, caller)
    given.tell(response)
    facts = _facts(given)
    return facts | {"entries": _entries(given.explained)} if body.saved else facts


@router.post("/explanations/batch")
async def explain_several(
    request: Request,
    response: Response,
    body: BatchBody,
    service: OneService,
    caller: SomeCaller,
) -> dict[str, Any]:
    """Several questions in one transaction; a refusal touches none of the others."""
    served = service.workspace.release(body.release, caller)
    key = repeat_key(request)
    asked = [_asked(each, key, "batch") for each in body.requests]
    found = await give_all(service, served, asked, caller)
    for each in found:
        if isinstance(each, Given):
            each.tell(response)
    return {"answers": [_outcome(each) for each in found]}


@router.post("/previews")
async def preview(body: PreviewBody, service: OneService, caller: Explaining) -> dict[str, Any]:
    """What an answer would cost and be like; nothing is charged."""
    served = service.workspace.release(body.release, caller)
    found = service.workspace.preview
    return await asyncio.to_thread(found, served, body.rows, body.account, caller)


@router.post("/recommendations")
async def recommend(
    body: RecommendationBody, service: OneService, caller: Explaining
) -> dict[str, Any]:
    """Recommend to a user from her own history, with reasons: free, and for her alone."""
    served = service.workspace.recommender(body.recommender, caller)
    asked = AskedRecommendation(body.history, body.group_by, body.count)
    found = await asyncio.to_thread(served.answer, asked, caller)
    facts = {"recommender": served.name, **answer_facts(found)}
    return facts | {"entries": _entries(found)} if body.saved else facts


def _asked(body: RowsBody, key: str | None, endpoint: str) -> AskedExplanation:
    return AskedExplanation(
        body.rows, body.account, body.purpose, body.redraw, body.coarser, key, endpoint
    )


def _facts(given: Given) -> dict[str, Any]:
    return {"release": given.served.name, **given.facts}


def _entries(explained: ReleasedExplanation) -> list[dict[str, Any]]:
    """Each entry bit for bit, as its record commits to it."""
    return [
        {
            "charge": entry.charge,
            "record": entry.record,
            "replayed": entry.replayed,
            "explanation": base64.b64encode(entry.explanation.to_bytes()).decode(),
        }
        for entry in explained.entries
    ]


def _outcome(found: Given | Exception) -> dict[str, Any]:
    if isinstance(found, Exception):
        return {"problem": problem_of(found).to_dict()}
    return _facts(found)
