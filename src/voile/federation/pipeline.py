"""What is trained across parties, stage after stage: the seam between the runtime and pipelines.

`voile federate`, artefacts and reports serve whatever keeps to this protocol. Nothing in a pipeline
depends on anybody's rows: it is what all parties agree on before the first round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from voile.core.errors import Refused
from voile.core.guarantee import Guarantee, Protected
from voile.federation.arrays import Arrays
from voile.federation.history import unbounded
from voile.federation.rounds import Rounds, StageResult
from voile.federation.stage import Stage
from voile.federation.task import FollowUp, Task, Unprotected
from voile.privacy.events import PrivacyEvent


class Pipeline(Protocol):
    """Stages, and what they promise together."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """In the order in which they run."""

    @property
    def tasks(self) -> Mapping[str, Task | FollowUp]:
        """What every client has to be set up with, by stage."""

    @property
    def protected(self) -> Protected:
        """What one record is, and of which data set."""

    @property
    def participation_events(self) -> tuple[PrivacyEvent, ...]:
        """One for each participation that a client may be asked for: the parts of its account."""

    def start(self, stage: str) -> Arrays:
        """The arrays before the first round; public."""

    def guarantee(self) -> Guarantee:
        """What can be promised about whatever is made from all stages together."""


def run_pipeline(
    pipeline: Pipeline, rounds: Rounds, *, unprotected: Unprotected | None = None
) -> dict[str, StageResult]:
    """Run all stages; the arrays of each are given to those after it, as `stage/array`.

    Every update states what it cost; one that states anything but the stage's event is left out. If
    that leaves nobody, the clients were set up for another pipeline, and nothing is made.

    Args:
        rounds: over clients that were set up with the tasks of `pipeline.stages`.
        unprotected: records that figures may be published about.
    """
    results: dict[str, StageResult] = {}
    given: dict[str, Any] = {}
    for stage in pipeline.stages:
        found = rounds.run(stage, pipeline.start(stage.name), given=given, unprotected=unprotected)
        _check_costs(stage.name, found)
        _check_contributed(stage.name, found)
        results[stage.name] = found
        given |= name_arrays(stage.name, found.arrays)
    return results


def is_finished(pipeline: Pipeline, rounds: Rounds) -> bool:
    """Whether all stages were run before; `Refused` if what is kept of one cannot be continued.

    Nobody is asked anything: what a server would refuse in the middle, it refuses here.
    """
    finished, given = True, dict[str, Any]()
    for stage in pipeline.stages:
        place = rounds.find_progress(stage, pipeline.start(stage.name), given)
        if place is None or place.round < stage.rounds:
            finished = False  # rounds of a later stage can be of another run only
        else:
            given |= name_arrays(stage.name, place.arrays)
    return finished


def name_arrays(stage: str, arrays: Arrays) -> dict[str, Any]:
    """The arrays of a stage, as later stages are given them."""
    return {f"{stage}/{name}": array for name, array in arrays.items()}


def under(stage: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `name_arrays`: the arrays of one stage among those that are given."""
    head = f"{stage}/"
    return {n.removeprefix(head): array for n, array in given.items() if n.startswith(head)}


def _check_costs(stage: str, found: StageResult) -> None:
    loud = unbounded(found.rows)
    if loud and not any(row.outcome.counts for row in found.rows):
        raise Refused(
            f"{', '.join(loud)} answered in {stage!r} at another cost than the plan's, and nobody "
            "at the plan's; set clients up with the plan's tasks. What they sent is in nobody's "
            "promise"
        )


def _check_contributed(stage: str, found: StageResult) -> None:
    """Later stages would build on nothing, and parties be charged for them."""
    if any(row.outcome.counts for row in found.rows):
        return
    # Only refusals are told in words: any other message may quote a protected row.
    errors = [each.error for each in found.errors]
    reasons = sorted({str(e) if isinstance(e, Refused) else type(e).__name__ for e in errors})
    raise Refused(
        f"no client contributed to the stage {stage!r}; nothing was written. "
        + "; ".join(reasons[:3])
    )
