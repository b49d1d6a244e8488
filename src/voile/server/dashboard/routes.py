"""Pages of the dashboard, in the order of its menu."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from voile.app.dashboard.frame import OVERVIEW, places_of
from voile.app.dashboard.overview import overview
from voile.app.dashboard.sessions import LONGEST
from voile.app.serving import NotAuthenticated, UnknownName
from voile.server.dashboard.door import (
    PageRoute,
    SomeVisitor,
    Visitor,
    cookie_name,
    dashboard_of,
    frame_of,
    go,
    is_secure,
    may_open,
    own_path,
    page,
    read_fields,
    read_form,
    show,
)
from voile.views.assets import find_asset

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_EXPLANATIONS: Final = "/api/v1/explanations"


@router.get("/static/{name}")
async def show_asset(name: str) -> Response:
    """The stylesheet, scripts and the icon; all the same for everybody."""
    found = find_asset(name)
    if found is None:
        raise UnknownName("there is no such file")
    headers = {"Cache-Control": "public, max-age=300"}
    return Response(found.content, media_type=found.media_type, headers=headers)


# --- signing in -----------------------------------------------------------------------------------


@router.get("/signin")
async def show_sign_in(next: str = "/") -> Response:
    """The form for a key."""
    return page("signin", "Sign in", frame_of(None), _asked(next))


@router.post("/signin")
async def sign_in(request: Request) -> Response:
    """With an API key; the answer is a cookie that no script can read."""
    fields = await read_fields(request)
    following = own_path(fields.get("next", "/"))
    sessions = dashboard_of(request).sessions
    try:
        session = await asyncio.to_thread(sessions.begin, fields.get("key", "").strip())
    except NotAuthenticated:
        problem = "This key is unknown, or it has ended."
        return page("signin", "Sign in", frame_of(None), _asked(following, problem), 401)
    places = places_of(session.caller)
    if following == "/" and places and OVERVIEW not in places:
        following = places[0].path
    answer = go(following)
    answer.set_cookie(
        cookie_name(request),
        session.text,
        max_age=LONGEST,
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post("/signout")
async def sign_out(request: Request, visitor: SomeVisitor) -> Response:
    """End the session."""
    await read_form(request)
    visitor.dashboard.sessions.end(visitor.session)
    answer = go("/signin")
    answer.delete_cookie(
        cookie_name(request), path="/", secure=is_secure(request), httponly=True, samesite="strict"
    )
    return answer


def _asked(following: str, problem: str = "") -> Any:
    return SimpleNamespace(following=own_path(following), problem=problem)


# --- overview -------------------------------------------------------------------------------------


@router.get("/")
async def show_overview(visitor: Annotated[Visitor, may_open(OVERVIEW)]) -> Response:
    """Is all well, what is near its end, what happened."""
    p95 = visitor.service.metrics.quantile(0.95, _EXPLANATIONS)
    frame = visitor.frame(OVERVIEW.path)
    return await show(
        "overview", "Overview", frame, lambda: overview(visitor.dashboard, visitor.caller, p95)
    )
