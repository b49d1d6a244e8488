"""A federation whose parties are answered for by the workers of Flower's simulation engine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache, partial
from pathlib import Path

from voile.app.federate.files import read_job
from voile.app.federate.job import Job
from voile.app.federate.party import Say, open_node
from voile.app.federate.run import Federated, announce, run_server
from voile.app.federate.status import RunWatch
from voile.core.errors import Refused
from voile.federation import Node, Progress
from voile.federation.flower.simulation import simulate
from voile.federation.progress import NoProgress
from voile.training import Progress as Steps


def federate_simulated(
    config: Path,
    job: Job,
    *,
    rounds_seen: Progress | None = None,
    steps_seen: Steps | None = None,
    say: Say = lambda _: None,
) -> Federated:
    """Run the federation of this `federation.toml`; see `run_server`.

    Args:
        config: read again by every worker, which sees the same files.
        job: what stands in it.
    """
    if job.agreement.secure is not None:
        raise Refused(
            "a secure sum keeps keys in memory between its steps, and a simulation opens a party "
            "for each message anew: leave --transport out, or use --superlink"
        )
    announce(job.agreement, job.server, say)
    return simulate(
        list(job.agreement.sizes),
        partial(_opened, config.absolute()),
        lambda transport: run_server(
            job.agreement, job.server, transport, steps_seen=steps_seen, say=say,
            watch=RunWatch(job.server.folder, rounds_seen or NoProgress()),
        ),
    )  # fmt: skip


def _opened(config: Path, name: str) -> AbstractContextManager[Node]:
    job = _job(config)
    return open_node(next(each for each in job.parties if each.name == name), job.agreement)


@lru_cache(maxsize=1)
def _job(config: Path) -> Job:
    """Rows are read, and noise is calibrated, once in a worker."""
    return read_job(config)
