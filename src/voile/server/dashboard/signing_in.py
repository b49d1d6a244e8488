"""Signing in, with a key or at an OpenID Connect issuer, and out again."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from voile.app.dashboard.frame import OVERVIEW, places_of
from voile.app.dashboard.sessions import LONGEST, LONGEST_PENDING, Session
from voile.app.serving import Caller, NotAuthenticated, NotGranted, UnknownName
from voile.server.dashboard.door import (
    PageRoute,
    SomeVisitor,
    cookie_name,
    dashboard_of,
    frame_of,
    go,
    is_secure,
    own_path,
    page,
    read_fields,
    read_form,
)
from voile.server.sign_in import IssuerSilent, SignIns

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Sent = Annotated[str, Query(max_length=2048)]
_PROBLEMS: Final[dict[type[Exception], tuple[int, str]]] = {
    NotAuthenticated: (401, "This sign-in did not succeed. Start it again from this page."),
    NotGranted: (403, "You are known, but you have no duty here. Ask whoever runs the issuer."),
    IssuerSilent: (502, "The issuer does not answer. Try again later."),
}


@router.get("/signin")
async def show_sign_in(request: Request, next: str = "/") -> Response:
    """The form for a key, and the issuers."""
    return _form(request, next)


@router.post("/signin")
async def sign_in(request: Request) -> Response:
    """With an API key; the answer is a cookie that no script can read."""
    fields = await read_fields(request)
    following = own_path(fields.get("next", "/"))
    sessions = dashboard_of(request).sessions
    try:
        session = await asyncio.to_thread(sessions.begin, fields.get("key", "").strip())
    except NotAuthenticated:
        return _form(request, following, "This key is unknown, or it has ended.", 401)
    answer = go(_first_page(session.caller) if following == "/" else following)
    _set_session(request, answer, session, LONGEST)
    return answer


@router.get("/signin/issuers/{name}")
async def go_to_issuer(request: Request, name: str) -> Response:
    """To the issuer. What has to come back is in a cookie that survives the way back (`Lax`)."""
    issuers = _issuers(request, name)
    pending = dashboard_of(request).pending.begin(name)
    try:
        answer = RedirectResponse(await issuers.begin(name, pending), 303)
    except (NotAuthenticated, IssuerSilent) as refused:
        return _refused(request, refused)
    answer.set_cookie(
        _pending_name(request), pending.text, max_age=LONGEST_PENDING, **_lax(request)
    )
    return answer


@router.get("/signin/issuers/{name}/callback")
async def come_back(
    request: Request, name: str, code: Sent = "", state: Sent = "", error: Sent = ""
) -> Response:
    """From the issuer, with a code or an error."""
    issuers, dashboard = _issuers(request, name), dashboard_of(request)
    try:
        text = request.cookies.get(_pending_name(request), "")
        pending = dashboard.pending.finish(name, text, state)
        if error or not code:
            raise NotAuthenticated("the issuer refused")
        found = await issuers.finish(name, pending, code)
    except (NotAuthenticated, NotGranted, IssuerSilent) as refused:
        return _refused(request, refused)
    session = dashboard.sessions.begin_of_issuer(name, found.caller, found.ends)
    answer = _signed_in(session)
    _set_session(request, answer, session, max(0, min(LONGEST, int(found.ends - time.time()))))
    answer.delete_cookie(_pending_name(request), **_lax(request))
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


def _signed_in(session: Session) -> Response:
    """A page that goes on by itself.

    A redirect would belong to the way from the issuer, another site, and a browser would leave out
    the `Strict` cookie. A step of our own page is of the same site.
    """
    following = _first_page(session.caller)
    content = SimpleNamespace(following=following)
    answer = page("signed_in", "You are signed in", frame_of(session), content)
    answer.headers["Refresh"] = f"0; url={following}"
    return answer


def _first_page(caller: Caller) -> str:
    places = places_of(caller)
    return places[0].path if places and OVERVIEW not in places else "/"


def _form(request: Request, following: str, problem: str = "", status: int = 200) -> Response:
    names = _sign_ins(request).names
    content = SimpleNamespace(following=own_path(following), problem=problem, issuers=names)
    return page("signin", "Sign in", frame_of(None), content, status)


def _refused(request: Request, refused: Exception) -> Response:
    status, problem = _PROBLEMS[type(refused)]
    answer = _form(request, "/", problem, status)
    answer.delete_cookie(_pending_name(request), **_lax(request))
    return answer


def _sign_ins(request: Request) -> SignIns:
    found: SignIns = request.app.state.sign_ins
    return found


def _issuers(request: Request, name: str) -> SignIns:
    found = _sign_ins(request)
    if name not in found.names:
        raise UnknownName("there is no such issuer")
    return found


def _set_session(request: Request, answer: Response, session: Session, seconds: int) -> None:
    answer.set_cookie(
        cookie_name(request),
        session.text,
        max_age=seconds,
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )


def _pending_name(request: Request) -> str:
    return "__Host-voile-signin" if is_secure(request) else "voile-signin"


def _lax(request: Request) -> dict[str, Any]:
    return {"path": "/", "secure": is_secure(request), "httponly": True, "samesite": "lax"}
