"""Somebody who looks at the dashboard without a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import httpx
from tests.unit.server.examples import House

_TOKEN: Final = re.compile(r'name="token" value="([0-9a-f]+)"')


@dataclass
class Reader:
    """A session."""

    house: House
    cookie: str

    def get(self, path: str, **more: Any) -> httpx.Response:
        """A page."""
        return self.house.ask("GET", path, headers={"cookie": self.cookie}, **more)

    def post(self, path: str, on: str, fields: dict[str, str]) -> httpx.Response:
        """A form, as it stands on a page."""
        token = self.token(on)
        return self.send(path, {"token": token, **fields})

    def send(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Fields, whatever form they are from."""
        told = {"cookie": self.cookie, **headers}
        return self.house.ask("POST", path, data=fields, headers=told)

    def token(self, on: str = "/") -> str:
        """That of the forms of this session."""
        found = _TOKEN.search(self.get(on).text)
        assert found is not None, on
        return found[1]


def sign_in(house: House, key: str, following: str = "/") -> httpx.Response:
    """By the form."""
    return house.ask("POST", "/signin", data={"key": key, "next": following})


def reader(house: House, key: str) -> Reader:
    """Signed in with a key."""
    answer = sign_in(house, key)
    assert answer.status_code == 303
    return Reader(house, answer.headers["set-cookie"].partition(";")[0])
