"""Parts on Ray; the only file that imports it for this."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

from voile.core.optional import optional
from voile.engines import Work

AHEAD: Final = 4
"""Parts under way for each core: enough to keep it busy, few enough to stay in memory."""
TRIES: Final = 3
"""How often a part is run again whose worker died."""


def run(work: Work, parts: Sequence[Any]) -> Iterator[Any]:
    """The results in the order of the parts; Ray is left running if it ran before."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = optional("ray", extra="federated")
    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        yield from _in_order(ray, work, parts)
    finally:
        if started:
            ray.shutdown()


def _in_order(ray: Any, work: Work, parts: Sequence[Any]) -> Iterator[Any]:
    apply = ray.remote(max_retries=TRIES)(_apply)
    shared, under_way = ray.put(work), deque[Any]()
    most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    for part in parts:
        under_way.append(apply.remote(shared, part))
        if len(under_way) >= most:
            yield ray.get(under_way.popleft())
    while under_way:
        yield ray.get(under_way.popleft())


def _apply(work: Work, part: Any) -> Any:
    return work(part)
