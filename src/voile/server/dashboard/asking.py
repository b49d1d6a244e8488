"""Explanations for people: a form from the schema, the price first, the answer, files to keep."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import HTMLResponse, Response

from voile.app.dashboard.explaining import (
    ExplainForm,
    askable,
    asked_explanation,
    explain_form,
    given_answer,
    new_repeat,
    person_page,
    readable_problem,
)
from voile.app.dashboard.frame import EXPLAIN
from voile.app.explain import ReleasedExplanation
from voile.app.serving import NotGranted
from voile.core.errors import VoileError
from voile.core.rendering import draw_picture, render_html
from voile.server import log
from voile.server.answering import give
from voile.server.dashboard.door import (
    POLICY,
    PageRoute,
    Visitor,
    as_file,
    may_open,
    page,
    read_form,
    show,
)
from voile.server.problems import problem_of
from voile.views.dashboard import part_html

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Explaining = Annotated[Visitor, may_open(EXPLAIN)]
Number = Annotated[int, Path(ge=0, le=2**62)]


@router.get("/explain")
async def show_releases(visitor: Explaining) -> Response:
    """What can be explained."""
    found = lambda: askable(visitor.dashboard, visitor.caller)  # noqa: E731
    return await show("releases", "Explain and what-if", visitor.frame(EXPLAIN.path), found)


@router.get("/explain/receipts/{record}")
async def show_receipt(request: Request, visitor: Explaining, record: Number) -> Response:
    """The receipt of an answer, for whoever got it."""
    found = await log.show_receipt(record, request, visitor.service, visitor.caller)
    found.headers.update(as_file(f"receipt-{record}.tlog-proof"))
    return found


@router.get("/explain/{release}")
async def show_form(visitor: Explaining, release: str) -> Response:
    """The form, with the price of one person."""
    form = await asyncio.to_thread(_form, visitor, release, {})
    return _page(visitor, form)


@router.post("/explain/{release}")
async def explain(request: Request, visitor: Explaining, release: str) -> Response:
    """The price, or the answer: what the button says."""
    fields = await read_form(request)
    form = await asyncio.to_thread(_form, visitor, release, fields)
    if fields.get("act") == "price":
        return _page(visitor, form)
    return _page(visitor, *await _answered(visitor, form, fields))


@router.post("/explain/{release}/price")
async def show_price(request: Request, visitor: Explaining, release: str) -> Response:
    """The price alone, as a part of the page."""
    form = await asyncio.to_thread(_form, visitor, release, await read_form(request))
    return _part("price", visitor, price=form.price)


@router.post("/explain/{release}/answer")
async def answer_freely(request: Request, visitor: Explaining, release: str) -> Response:
    """The answer alone, as a part of the page; of a free release only: nothing is charged without
    its button."""
    fields = await read_form(request)
    form = await asyncio.to_thread(_form, visitor, release, fields)
    if not form.free:
        raise NotGranted("what costs something is asked by its button")
    form, _ = await _answered(visitor, form, fields)
    return _part("answer", visitor, page=form)


@router.post("/explain/{release}/file")
async def show_file(request: Request, visitor: Explaining, release: str) -> Response:
    """The answer again, as a file: the same request gets the same answer and is charged once."""
    fields = await read_form(request)
    explained = await _give(visitor, release, fields)
    return await asyncio.to_thread(_file, explained, fields.get("act", "page"))


def _form(visitor: Visitor, release: str, fields: Mapping[str, str]) -> ExplainForm:
    return explain_form(visitor.dashboard, visitor.caller, release, fields)


async def _give(visitor: Visitor, release: str, fields: Mapping[str, str]) -> ReleasedExplanation:
    asked = asked_explanation(visitor.dashboard, visitor.caller, release, fields)
    served = visitor.service.workspace.release(release, visitor.caller)
    given = await give(visitor.service, served, asked, visitor.caller)
    return given.explained


async def _answered(
    visitor: Visitor, form: ExplainForm, fields: Mapping[str, str]
) -> tuple[ExplainForm, int]:
    """The form with its answer, or with why there is none; and the status that belongs to it."""
    try:
        explained = await _give(visitor, form.release, fields)
    except VoileError as error:
        problem = problem_of(error)
        said = f"{problem.title}. {problem.detail}".strip()
        return replace(form, problem=said, problems=readable_problem(error)), problem.status
    fields = {**fields, "repeat": form.repeat}
    return replace(form, answer=given_answer(explained, fields), repeat=new_repeat()), 200


def _page(visitor: Visitor, form: ExplainForm, status: int = 200) -> Response:
    return page("explain", form.release, visitor.frame(EXPLAIN.path), form, status)


def _part(name: str, visitor: Visitor, **values: Any) -> Response:
    html = part_html(name, frame=visitor.frame(EXPLAIN.path), **values)
    return HTMLResponse(html, headers={"Content-Security-Policy": POLICY})


def _file(explained: ReleasedExplanation, act: str) -> Response:
    number = explained.records[0]
    if act == "picture":
        found, name, kind = draw_picture(explained.of_row(0), "svg"), "picture.svg", "image/svg+xml"
    elif act == "saved":
        found = explained.explanation.to_bytes()
        name, kind = f"explanation-{number}.voile", "application/octet-stream"
    else:
        found = render_html(person_page(explained)).encode()
        name, kind = "explanation.html", "text/html"
    return Response(found, media_type=kind, headers=as_file(name))
