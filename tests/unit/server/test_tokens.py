"""Tokens of an OpenID Connect issuer: what is believed, and what is not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.unit.server.examples import BUDGET, MORE, House, home, serving

ISSUER, AUDIENCE = "https://login.example", "voile"
TABLE = f"""
[serve.issuers.login]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
keys = "https://login.example/keys"
algorithms = ["RS256"]
duties = ["explain", "observe"]
accounts = ["{BUDGET}"]
"""


class Login:
    """An issuer, and how often its keys were fetched."""

    def __init__(self) -> None:
        self.keys: dict[str, RSAPrivateKey] = {}
        self.fetched = 0
        self.rotate("first")

    def rotate(self, name: str) -> None:
        self.keys = {name: generate_private_key(65537, 2048)}

    def fetch(self, _: object = None) -> dict[str, Any]:
        self.fetched += 1
        to_jwk = jwt.algorithms.RSAAlgorithm.to_jwk
        keys = [
            {**json.loads(to_jwk(key.public_key())), "kid": name, "use": "sig"}
            for name, key in self.keys.items()
        ]
        return {"keys": keys}

    def token(self, *, headers: dict[str, Any] | None = None, **changes: Any) -> str:
        ((name, key),) = self.keys.items()
        return jwt.encode(
            self.claims(**changes), key, algorithm="RS256", headers={"kid": name} | (headers or {})
        )

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "auth0|ada",
            "iat": now,
            "exp": now + 60,
            "scope": "openid voile:explain",
        }
        return {name: value for name, value in (claims | changes).items() if value is not None}


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> Login:
    found = Login()
    monkeypatch.setattr(jwt.PyJWKClient, "fetch_data", found.fetch)
    return found


@pytest.fixture
def house(tmp_path: Path, login: Login) -> Iterator[House]:  # noqa: ARG001
    with serving(home(tmp_path / "home", MORE + TABLE)) as found:
        yield found


def test_a_token_that_holds_is_believed(house: House, login: Login) -> None:
    found = house.explain(login.token())
    assert found.status_code == 200
    account = house.workspace.public_name(BUDGET)
    both = login.token(scope="voile:explain voile:observe")
    acts = house.ask("GET", f"/api/v1/budgets/{account}/history", both).json()["acts"]
    assert acts[-1]["caller"] == "login:auth0|ada"
    assert house.ask("GET", f"/api/v1/budgets/{account}", login.token()).status_code == 403


def test_duties_are_those_of_token_and_issuer_both(house: House, login: Login) -> None:
    token = login.token(scope="voile:explain voile:administer voile:audit")
    assert house.explain(token).status_code == 200
    assert house.ask("GET", "/api/v1/records", token).status_code == 403
    assert house.ask("GET", "/api/v1/keys", token).status_code == 403


WRONG: list[dict[str, Any]] = [
    {"exp": 1},
    {"exp": None},
    {"iat": None},
    {"sub": None},
    {"sub": ""},
    {"aud": "another"},
    {"aud": None},
    {"iss": "https://evil.example"},
    {"iss": None},
    {"nbf": 2**40},
    {"scope": None},
    {"scope": "voile:administer"},
]


def test_claims_that_do_not_hold_are_refused(house: House, login: Login) -> None:
    for changes in WRONG:
        assert house.explain(login.token(**changes)).status_code == 401, changes


def test_forged_and_downgraded_tokens_are_refused(house: House, login: Login) -> None:
    ((name, key),) = login.keys.items()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    other, claims, headers = Login(), login.claims(), {"kid": name}
    stranger = jwt.encode(claims, other.keys["first"], algorithm="RS256", headers=headers)
    none = jwt.encode(claims, "", algorithm="none", headers=headers)
    stronger = jwt.encode(claims, key, algorithm="PS256", headers=headers)  # not among the allowed
    # As an attacker does it: PyJWT itself refuses to sign with a public key as a secret.
    import base64
    import hashlib
    import hmac

    def part(told: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(told).encode()).rstrip(b"=").decode()

    signed = f"{part({'alg': 'HS256', 'typ': 'JWT', **headers})}.{part(claims)}"
    mac = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    confused = f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    for token in (stranger, none, stronger, confused, login.token()[:-4] + "AAAA", "a.b.c", "x"):
        assert house.explain(token).status_code == 401, token
    assert house.explain(login.token()).status_code == 200


def test_a_new_key_of_the_issuer_is_fetched_and_made_up_ones_are_not(
    house: House, login: Login
) -> None:
    assert house.explain(login.token()).status_code == 200
    old = login.token()
    login.rotate("second")
    assert house.explain(login.token()).status_code == 200
    fetched = login.fetched
    for number in range(20):
        made_up = login.token(headers={"kid": f"made up {number}"})
        assert house.explain(made_up).status_code == 401
    assert login.fetched == fetched
    assert house.explain(old).status_code == 401


def test_symmetric_algorithms_cannot_be_set(tmp_path: Path) -> None:
    from voile.core.errors import InvalidInput

    table = TABLE.replace("RS256", "HS256")
    with pytest.raises(InvalidInput, match="algorithms"), serving(home(tmp_path, MORE + table)):
        pass


def test_names_of_issuers_have_no_colon(tmp_path: Path) -> None:
    """`a:b` and subject `c` would be the caller that `a` and subject `b:c` is."""
    from voile.core.errors import InvalidInput

    table = TABLE.replace("issuers.login", 'issuers."login:eu"')
    with pytest.raises(InvalidInput, match="issuers"), serving(home(tmp_path, MORE + table)):
        pass
