"""Sign-in at an OpenID Connect issuer: who gets in, and which answers of an issuer do not count."""

from __future__ import annotations

import base64
import hashlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.unit.server.dashboard_examples import Reader
from tests.unit.server.examples import BUDGET, MORE, House, home, serving
from tests.unit.server.test_tokens import ISSUER, TABLE, Login

from voile.app.dashboard.sessions import LONGEST, LONGEST_PENDING
from voile.core.errors import InvalidInput
from voile.server.sign_in import SignIns

CLIENT, SECRET = "voile pages", "s3cret+/"
START, CALLBACK = "/signin/issuers/login", "/signin/issuers/login/callback"
SIGN_IN = f"""
client_id = "{CLIENT}"
client_secret_env = "LOGIN_SECRET"
address = "http://localhost:8460"
scopes = ["voile:explain", "voile:observe"]
"""


@dataclass
class FakeIssuer:
    """Gives a token for each code once, if the verifier fits the challenge."""

    login: Login = field(default_factory=Login)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    discovery: dict[str, Any] = field(default_factory=dict)
    signs: Login | None = None
    requests: list[str] = field(default_factory=list)
    status: int = 200

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.discover),
                Route("/token", self.token, methods=["POST"]),
            ]
        )

    def authorize(self, address: str) -> str:
        """What the issuer's own page does: a code for what the browser brought."""
        asked = {name: only[0] for name, only in parse_qs(urlsplit(address).query).items()}
        code = f"code-{len(self.codes)}-kanarienvogel"
        self.codes[code] = asked
        return code

    async def discover(self, _: Request) -> Response:
        self.requests.append("discovery")
        told = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
        }
        return JSONResponse(told | self.discovery)

    async def token(self, request: Request) -> Response:
        self.requests.append("token")
        sent = {k: v[0] for k, v in parse_qs((await request.body()).decode()).items()}
        asked = self.codes.pop(sent["code"], None)
        if asked is None or not self.fits(request, sent, asked):
            return JSONResponse({"error": "invalid_grant"}, 400)
        told = {"aud": CLIENT, "nonce": asked["nonce"], "scope": "voile:explain voile:observe"}
        claims = told | self.changes
        token = (self.signs or self.login).token(**claims)
        return JSONResponse({"id_token": token}, self.status)

    def fits(self, request: Request, sent: dict[str, str], asked: dict[str, str]) -> bool:
        digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        known = base64.b64encode(b"voile%20pages:s3cret%2B%2F").decode()
        return (
            challenge == asked["code_challenge"]
            and sent["redirect_uri"] == asked["redirect_uri"]
            and request.headers["authorization"] == f"Basic {known}"
        )


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> FakeIssuer:
    found = FakeIssuer()
    monkeypatch.setattr(jwt.PyJWKClient, "fetch_data", found.login.fetch)
    monkeypatch.setenv("LOGIN_SECRET", SECRET)
    return found


@pytest.fixture
def house(tmp_path: Path, issuer: FakeIssuer) -> Iterator[House]:
    with serving(home(tmp_path / "home", MORE + TABLE + SIGN_IN)) as found:
        issuers = found.app.state.service.identities.issuers
        transport = httpx.ASGITransport(issuer.app())
        found.app.state.sign_ins = SignIns(issuers, transport)
        yield found


@dataclass
class Browser:
    """Somebody who was sent to the issuer, and has its code."""

    house: House
    cookie: str
    code: str
    asked: dict[str, str]

    def come_back(self, path: str = CALLBACK, **changes: str) -> httpx.Response:
        told = {"code": self.code, "state": self.asked["state"]} | changes
        return self.house.ask("GET", path, params=told, headers={"cookie": self.cookie})


def sent_away(house: House, issuer: FakeIssuer) -> Browser:
    answer = house.ask("GET", START)
    assert answer.status_code == 303
    code = issuer.authorize(answer.headers["location"])
    cookie = answer.headers["set-cookie"].partition(";")[0]
    return Browser(house, cookie, code, issuer.codes[code])


def session_cookie(answer: httpx.Response) -> str:
    (found,) = [
        each for each in answer.headers.get_list("set-cookie") if each.startswith("__Host-voile=")
    ]
    return found


def is_refused(answer: httpx.Response, status: int = 401) -> bool:
    cookies = answer.headers.get_list("set-cookie")
    return answer.status_code == status and not any(c.startswith("__Host-voile=") for c in cookies)


def signed_in(house: House, issuer: FakeIssuer) -> Reader:
    answer = sent_away(house, issuer).come_back()
    assert answer.status_code == 200
    return Reader(house, session_cookie(answer).partition(";")[0])


def test_a_browser_is_sent_with_all_that_protects_it(house: House, issuer: FakeIssuer) -> None:
    assert f'href="{START}"' in house.ask("GET", "/signin").text
    answer = house.ask("GET", START)
    address = urlsplit(answer.headers["location"])
    assert f"{address.scheme}://{address.netloc}{address.path}" == f"{ISSUER}/authorize"
    asked = {name: only[0] for name, only in parse_qs(address.query).items()}
    assert asked["redirect_uri"] == f"http://localhost:8460{CALLBACK}"
    assert asked["scope"] == "openid voile:explain voile:observe"
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-voile-signin=")
    for part in ("HttpOnly", "SameSite=lax", "Secure", f"Max-Age={LONGEST_PENDING}"):
        assert part in cookie
    assert asked["state"] not in cookie
    assert sent_away(house, issuer).asked["state"] != asked["state"]
    assert issuer.requests == ["discovery"]


def test_who_comes_back_is_signed_in(house: House, issuer: FakeIssuer) -> None:
    answer = sent_away(house, issuer).come_back()
    assert answer.status_code == 200
    assert "location" not in answer.headers  # a redirect would lose the cookie
    assert answer.headers["refresh"] == "0; url=/"
    for part in ("HttpOnly", "SameSite=strict", "Secure", "Path=/"):
        assert part in session_cookie(answer)
    page = Reader(house, session_cookie(answer).partition(";")[0]).get("/")
    assert page.status_code == 200
    assert "login:auth0|ada (token of login)" in page.text


def test_duties_and_accounts_are_those_of_the_issuer(house: House, issuer: FakeIssuer) -> None:
    issuer.changes = {"scope": "voile:observe voile:audit voile:administer"}
    visitor = signed_in(house, issuer)  # the table allows explain and observe
    account = house.workspace.public_name(BUDGET)
    assert visitor.get(f"/budgets/{account}").status_code == 200
    for path in ("/records", "/keys", "/explain"):
        assert visitor.get(path).status_code == 403, path


@pytest.mark.parametrize("state", ["", "0" * 64, "é"])
def test_a_wrong_state_is_refused(house: House, issuer: FakeIssuer, state: str) -> None:
    assert is_refused(sent_away(house, issuer).come_back(state=state))
    assert "token" not in issuer.requests


def test_the_state_of_another_browser_is_refused(house: House, issuer: FakeIssuer) -> None:
    """Else somebody could be signed in as the person who made the link."""
    mine, theirs = sent_away(house, issuer), sent_away(house, issuer)
    assert is_refused(theirs.come_back(code=mine.code, state=mine.asked["state"]))
    for cookie in ("", "__Host-voile-signin=1.2", mine.cookie[:-1] + "x"):
        assert is_refused(Browser(house, cookie, mine.code, mine.asked).come_back()), cookie
    assert mine.come_back().status_code == 200


def test_a_sign_in_finishes_once_and_in_time(
    house: House, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sent_away(house, issuer), sent_away(house, issuer)
    assert first.come_back().status_code == 200
    fetched = issuer.requests.count("token")
    assert is_refused(first.come_back())
    assert issuer.requests.count("token") == fetched
    assert is_refused(second.come_back(code=first.code))  # the issuer takes a code once
    late, now = sent_away(house, issuer), time.time()
    monkeypatch.setattr("time.time", lambda: now + LONGEST_PENDING + 1)
    fetched = issuer.requests.count("token")
    assert is_refused(late.come_back())
    assert issuer.requests.count("token") == fetched


def test_a_code_of_another_sign_in_is_refused(house: House, issuer: FakeIssuer) -> None:
    """PKCE: a code that was stolen is of no use with another verifier."""
    mine, theirs = sent_away(house, issuer), sent_away(house, issuer)
    assert is_refused(theirs.come_back(code=mine.code))
    assert issuer.requests.count("token") == 1


WRONG: list[dict[str, Any]] = [
    {"nonce": "another"},
    {"nonce": None},
    {"aud": "voile"},
    {"aud": [CLIENT, "another"]},
    {"azp": "another"},
    {"iss": "https://evil.example"},
    {"exp": 1},
    {"exp": None},
    {"sub": ""},
]


def test_tokens_that_do_not_hold_are_refused(house: House, issuer: FakeIssuer) -> None:
    for issuer.changes in WRONG:
        assert is_refused(sent_away(house, issuer).come_back()), issuer.changes
    issuer.changes, issuer.signs = {}, Login()
    assert is_refused(sent_away(house, issuer).come_back())
    issuer.changes, issuer.signs = {"aud": [CLIENT, "another"], "azp": CLIENT}, None
    assert sent_away(house, issuer).come_back().status_code == 200


@pytest.mark.parametrize("scope", ["", "openid", "explain", "voile:administer"])
def test_who_has_no_duty_is_told_so(house: House, issuer: FakeIssuer, scope: str) -> None:
    issuer.changes = {"scope": scope}
    answer = sent_away(house, issuer).come_back()
    assert is_refused(answer, 403)
    assert "no duty" in answer.text


def test_an_error_of_the_issuer_is_not_repeated(house: House, issuer: FakeIssuer) -> None:
    answer = sent_away(house, issuer).come_back(error="access_denied<b>", code="")
    assert is_refused(answer)
    assert "access_denied" not in answer.text
    for issuer.status, status in ((400, 401), (302, 401), (503, 502)):
        assert is_refused(sent_away(house, issuer).come_back(), status), issuer.status


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "https://evil.example"},
        {"authorization_endpoint": "http://login.example/authorize"},
        {"token_endpoint": None},
    ],
)
def test_a_discovery_document_has_to_fit(
    house: House, issuer: FakeIssuer, wrong: dict[str, Any]
) -> None:
    issuer.discovery = wrong
    assert is_refused(house.ask("GET", START), 502)


def test_nobody_is_led_elsewhere(house: House, issuer: FakeIssuer) -> None:
    answer = sent_away(house, issuer).come_back(next="https://evil.example/")
    assert answer.headers["refresh"] == "0; url=/"
    assert "evil.example" not in answer.text
    assert house.ask("GET", "/signin/issuers/unknown").status_code == 404
    assert sent_away(house, issuer).come_back("/signin/issuers/x/callback").status_code == 404


def test_a_session_ends_with_its_token(
    house: House, issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    short = signed_in(house, issuer)  # 60 seconds
    issuer.changes = {"exp": int(now) + 3 * LONGEST}
    long = signed_in(house, issuer)
    for after, lasts in ((50, [True, True]), (70, [False, True]), (LONGEST + 60, [False, False])):
        monkeypatch.setattr("time.time", lambda after=after: now + after)
        assert [each.get("/").status_code == 200 for each in (short, long)] == lasts, after


def test_who_signs_out_is_out_and_changed_cookies_are_not_in(
    house: House, issuer: FakeIssuer
) -> None:
    visitor = signed_in(house, issuer)
    for place in (15, 40, len(visitor.cookie) - 70, len(visitor.cookie) - 1):
        other = "0" if visitor.cookie[place] != "0" else "1"
        changed = visitor.cookie[:place] + other + visitor.cookie[place + 1 :]
        assert Reader(house, changed).get("/").status_code == 303, place
    assert visitor.send("/signout", {"token": "0" * 64}).status_code == 403
    assert visitor.post("/signout", "/", {}).headers["location"] == "/signin"
    assert visitor.get("/").status_code == 303


def test_no_code_and_no_token_is_in_the_log(
    house: House, issuer: FakeIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    browser = sent_away(house, issuer)
    answer = browser.come_back()
    browser.come_back()
    # The test's own client logs the address that it asks for.
    lines = [each for each in caplog.records if "http://service" not in each.getMessage()]
    text = " ".join(f"{each.getMessage()} {vars(each)}" for each in lines)
    assert "signin/issuers/{name}/callback" in text
    for secret in (browser.code, browser.asked["state"], SECRET, "eyJ"):
        assert secret not in text
        assert secret not in answer.text


def test_the_claim_may_be_a_list_of_another_name(tmp_path: Path, issuer: FakeIssuer) -> None:
    more = (
        'claim = "roles"\nauthorize = "https://a.example/x?y=1"\ntoken = "https://a.example/token"'
    )
    with serving(home(tmp_path / "other", MORE + TABLE + SIGN_IN + more)) as house:
        issuers = house.app.state.service.identities.issuers
        house.app.state.sign_ins = SignIns(issuers, httpx.ASGITransport(issuer.app()))
        browser = sent_away(house, issuer)
        issuer.changes = {"scope": None, "roles": ["staff", "voile:observe", 7]}
        assert browser.come_back().status_code == 200
        assert issuer.requests == ["token"]
        issuer.changes = {"roles": ["staff"]}
        assert is_refused(sent_away(house, issuer).come_back(), 403)


@pytest.mark.parametrize(
    ("left_out", "says"),
    [("address", "client_id and address"), ("client_id", "client_id and address")],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, left_out: str, says: str) -> None:
    more = "\n".join(line for line in SIGN_IN.splitlines() if not line.startswith(left_out + " "))
    with (
        pytest.raises(InvalidInput, match=says),
        serving(home(tmp_path / "home", MORE + TABLE + more)),
    ):
        pass


def test_a_secret_that_is_not_set_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOGIN_SECRET", raising=False)
    with (
        pytest.raises(InvalidInput, match="LOGIN_SECRET"),
        serving(home(tmp_path / "home", MORE + TABLE + SIGN_IN)),
    ):
        pass
