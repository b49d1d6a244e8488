"""A process that simulates: `python -W ignore -m tests.deployment.simulated FOLDER`.

The engine leaves files and threads behind when it ends, which would count as faults of a test.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from tests.unit.federation.toys import START, Pull, client, stage
from voile.core.randomness import Seeded
from voile.federation import Node, Rounds
from voile.federation.arrays import digest_of_arrays

NAMES = ("ash", "beech", "cedar", "elm")


def opened(name: str) -> AbstractContextManager[Node]:
    """In a worker; what beech made cost more than was charged, so it refuses."""
    task = Pull(spent=Pull(noise=9.0).cost(40)) if name == "beech" else None
    return nullcontext(Node(client(name, task=task)))


def toy_result(transport: Any) -> dict[str, Any]:
    agreed = stage(rounds=2, clients_per_round=4, participations=2)
    rounds = Rounds(transport, dict.fromkeys(NAMES, 40), source=Seeded(1))
    found = rounds.run(agreed, START)
    outcomes = [str(row.outcome) for row in found.rows]
    return {"arrays": digest_of_arrays(found.arrays), "outcomes": outcomes}


def main(folder: Path) -> None:
    from voile.app.federate import read_job
    from voile.app.federations import federate_simulated
    from voile.app.testbed import invented
    from voile.federation.flower.simulation import simulate

    toys = simulate(NAMES, opened, toy_result, workers=2)
    config = invented(folder / "study", 2, 1).federation
    done = federate_simulated(config, read_job(config))
    rows = [row for found in done.results.values() for row in found.rows]
    study = {"logs": sorted(done.artefact.settings["logs"]), "rows": len(rows)}
    study["counted"] = sum(row.outcome.counts for row in rows)
    (folder / "result.json").write_text(json.dumps({"toys": toys, "study": study}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
