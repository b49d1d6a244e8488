"""A service to ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.examples import House, home, serving


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with serving(home(tmp_path / "home")) as found:
        yield found
