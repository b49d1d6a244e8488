"""Two processes of the service on one PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.server.examples import BUDGET, MORE, home, serving


@pytest.mark.real
def test_two_services_charge_one_request_once(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOILE_DATABASE", postgres_url)
    folder = home(tmp_path / "home", MORE, server=postgres_url)
    headers = {"Idempotency-Key": "order 17"}
    with serving(folder) as one, serving(folder) as other:
        key = one.key()
        first = one.explain(key, redraw=True, headers=headers)
        assert first.json()["charges"] == [f"{BUDGET}#1"]
        assert other.explain(key, redraw=True, headers=headers).content == first.content
        assert other.explain(key).json()["replayed"]
        account = other.workspace.public_name(BUDGET)
        seen = other.ask("GET", f"/api/v1/budgets/{account}", key).json()
        assert 0 < seen["consumed"] < 0.05
