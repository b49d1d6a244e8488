"""Federations across machines, carried by Flower: the one folder that imports flwr.

- a node's side: `serve` answers over Flower's fleet connection, in a process of its own, with the
  voile that is installed there; no app that a server ships is ever fetched, unpacked or run
- a server's side: `SuperLinkRun` is one Flower run whose server app is this very process, and
  `FlowerTransport` carries the messages of a federation through it
- many clients on one machine: `simulate`, on Flower's own engine

Flower's interfaces below its public ones may change with every version: the one that they were read
in is pinned, and another one is refused.
"""

from __future__ import annotations

import os
from importlib import metadata
from typing import Final

from voile.core.errors import InvalidInput
from voile.core.optional import optional

VERSION: Final = "1.41.0"
QUIET: Final = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Nothing is told to anybody but those who take part."""

os.environ.update(QUIET)  # flwr reads them once, when it is imported
optional("flwr", extra="federated")
if metadata.version("flwr") != VERSION:
    raise InvalidInput(
        f"voile speaks to Flower {VERSION}, and {metadata.version('flwr')} is installed here; "
        "install the right one with: pip install 'voile[federated]'"
    )

from voile.federation.flower.fleet import NODE_PATHS, FleetConnection, node_key, public_bytes, serve  # noqa: E402  # noqa: E402
from voile.federation.flower.superlink import (  # noqa: E402  # noqa: E402
    BUNDLE,
    BUNDLE_HASH,
    SuperLinkPlace,
    SuperLinkRun,
    register_node,
)
from voile.federation.flower.transport import AnswerTimes, FlowerTransport  # noqa: E402

__all__ = [
    "BUNDLE",
    "BUNDLE_HASH",
    "NODE_PATHS",
    "QUIET",
    "VERSION",
    "AnswerTimes",
    "FleetConnection",
    "FlowerTransport",
    "SuperLinkPlace",
    "SuperLinkRun",
    "node_key",
    "public_bytes",
    "register_node",
    "serve",
]
