"""What every page of the dashboard passes on its way in and out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import Depends
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from voile.app.dashboard import Dashboard, DashboardPage, Frame, Place, places_of
from voile.app.dashboard.evidence import EvidenceMaker
from voile.app.dashboard.sessions import Session, check_token
from voile.app.serving import Caller, NotAuthenticated, NotGranted
from voile.core.errors import VoileError
from voile.records.access import Duty
from voile.server.answering import Service, service_of
from voile.server.problems import Problem, of_status, of_validation, problem_of
from voile.views.dashboard import page_html

Body = TypeVar("Body", bound=BaseModel)
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})
_MOST_FIELDS: Final = 512


@dataclass(frozen=True)
class Visitor:
    """Whoever asks for a page, signed in."""

    service: Service
    dashboard: Dashboard
    session: Session

    @property
    def caller(self) -> Caller:
        """Who it is."""
        return self.session.caller

    def frame(self, here: str) -> Frame:
        """Around a page of the menu."""
        return frame_of(self.session, here)


class PageRoute(APIRoute):
    """A route whose problems are pages, too; who is not signed in is asked to."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As the framework calls it."""
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await answer(request)
            except NotAuthenticated:
                return _to_sign_in(request)
            except NotGranted as refused:
                return problem_page(request, _not_granted(refused))
            except RequestValidationError as error:
                return problem_page(request, of_validation(error.errors()))
            except HTTPException as error:
                return problem_page(request, of_status(error))
            except VoileError as error:
                return problem_page(request, problem_of(error))

        return handle


def dashboard_of(request: Request) -> Dashboard:
    """Of the application that a request came to."""
    found: Dashboard = request.app.state.dashboard
    return found


def evidence_of(request: Request) -> EvidenceMaker:
    """The same for evidence, which is made from the whole log."""
    found: EvidenceMaker = request.app.state.evidence
    return found


def find_session(request: Request) -> Session | None:
    """Of the cookie that was sent."""
    text = request.cookies.get(cookie_name(request))
    return None if text is None else dashboard_of(request).sessions.find(text)


async def _visitor(request: Request) -> Visitor:
    session = await asyncio.to_thread(find_session, request)
    if session is None:
        raise NotAuthenticated("sign in first")
    request.state.caller, request.state.session = session.caller.name, session
    service = service_of(request)
    service.identities.count(session.caller)
    return Visitor(service, dashboard_of(request), session)


SomeVisitor = Annotated[Visitor, Depends(_visitor)]


def may_open(place: Place) -> Any:
    """Whoever is signed in and has one of the duties of a page."""
    return may(*place.duties)


def may(*duties: Duty) -> Any:
    """Whoever is signed in and has one of these duties."""

    async def check(visitor: SomeVisitor) -> Visitor:
        if not visitor.caller.grants.duties & set(duties):
            raise NotGranted(f"one of these duties is needed: {', '.join(sorted(duties))}")
        return visitor

    return Depends(check)


async def read_form(request: Request) -> dict[str, str]:
    """What a form sent; refused unless it was made for this session."""
    fields = await read_fields(request)
    session: Session = request.state.session
    if not check_token(session, fields.pop("token", "")):
        raise NotGranted("this form was not made for your session: open the page again")
    return fields


async def read_fields(request: Request) -> dict[str, str]:
    """What a form sent, by name; never from the page of another site."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotGranted("forms of other sites are refused")
    try:
        body = (await request.body()).decode("utf-8")
        pairs = parse_qsl(
            body, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise HTTPException(400) from None
    return dict(pairs)


def as_body(
    kind: type[Body],
    fields: Mapping[str, str],
    *,
    empty: Collection[str] = (),
    flags: Collection[str] = (),
    several: Collection[str] = (),
    numbers: Collection[str] = ("epsilon", "delta", "days", "rate"),
) -> Body:
    """What a form sent, as the body of the same request by any other door.

    Args:
        empty: fields that are left out where they are empty.
        flags: fields that are there or not.
        several: fields with several values, a line each.
        numbers: fields that hold a number.
    """
    found: dict[str, Any] = {name: fields[name] for name in fields if name not in flags}
    found = {name: value for name, value in found.items() if value or name not in empty}
    found |= {name: name in fields for name in flags}
    for name in several:
        found[name] = [each for each in fields.get(name, "").splitlines() if each.strip()]
    try:
        found |= {name: float(found[name]) for name in numbers if name in found}
        return kind.model_validate(found)
    except ValueError as wrong:
        errors = wrong.errors() if isinstance(wrong, ValidationError) else []
        raise RequestValidationError(
            [{**each, "loc": ("body", *each["loc"])} for each in errors]
        ) from None


def frame_of(session: Session | None, here: str = "") -> Frame:
    """Around a page, for whoever is signed in."""
    if session is None:
        return Frame(here=here)
    who = f"{session.caller.grants.caller} ({session.caller.name})"
    return Frame(who, here, places_of(session.caller), session.token)


def page(name: str, title: str, frame: Frame, content: Any, status: int = 200) -> Response:
    """A page as it is sent."""
    html = page_html(DashboardPage(name, title, frame, content))
    return HTMLResponse(html, status, headers={"Content-Security-Policy": POLICY})


async def show(name: str, title: str, frame: Frame, find: Callable[[], Any]) -> Response:
    """A page whose content is found and drawn beside other requests."""
    return await asyncio.to_thread(lambda: page(name, title, frame, find()))


def problem_page(request: Request, problem: Problem) -> Response:
    """What went wrong, with nothing of what was sent."""
    session = getattr(request.state, "session", None)
    content = SimpleNamespace(
        status=problem.status, detail=problem.detail or problem.title, duties=()
    )
    return page("problem", problem.title, frame_of(session), content, problem.status)


def as_file(name: str) -> dict[str, str]:
    """A header: to be kept as a file of this name."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def go(path: str) -> Response:
    """To a page, after a form."""
    return RedirectResponse(path, 303)


def own_path(text: str) -> str:
    """A path of this service; anything else leads to the first page."""
    parts = urlsplit(text)
    sound = not parts.scheme and not parts.netloc and text.startswith("/") and "\\" not in text
    return text if sound and not text.startswith("//") and text.isprintable() else "/"


# --- cookies --------------------------------------------------------------------------------------


def is_secure(request: Request) -> bool:
    """Whether keys and cookies may travel by https only: anywhere but on this machine itself."""
    return request.url.scheme == "https" or (request.url.hostname or "") not in _LOOPBACK


def cookie_name(request: Request) -> str:
    """With the prefix that makes a browser insist on https."""
    return "__Host-voile" if is_secure(request) else "voile-session"


def _to_sign_in(request: Request) -> Response:
    if request.method != "GET" or request.headers.get("hx-request"):
        return problem_page(request, Problem(401, "not-authenticated", "Sign in first"))
    path = request.url.path
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/signin?{urlencode({'next': path + query})}", 303)


def _not_granted(refused: NotGranted) -> Problem:
    return Problem(403, "not-granted", "Your key does not open this", f"{refused}.".capitalize())
