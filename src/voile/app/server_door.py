"""The way from a handler up to the HTTP server: a door, as the command line is.

It is loaded by name, because doors stand above the handlers.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from voile.core.optional import optional

_PACKAGES: Final = ("fastapi", "uvicorn", "prometheus_client", "jwt")
SERVICE: Final = "voile.server.running:run"
WITNESS: Final = "voile.server.running:run_witness"


@dataclass(frozen=True)
class ServerAddress:
    """Where to listen.

    Args:
        certificate, private_key: files, for TLS.
    """

    host: str
    port: int
    certificate: Path | None = None
    private_key: Path | None = None


def load_server(place: str) -> Any:
    """What runs a server, `SERVICE` or `WITNESS`; says which package is missing."""
    for package in _PACKAGES:
        optional(package, extra="serve")
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
