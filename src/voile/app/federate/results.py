"""What a finished federation states: public settings, what was spent, what is not covered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from voile.app.federate.agreement import FederationAgreement
from voile.app.federate.base import PipelineOutput
from voile.core.guarantee import Adversary
from voile.federation import (
    HistoryRow,
    SecureSum,
    StageResult,
    Task,
    charged,
    digest_of_arrays,
)
from voile.pipelines.network_task import NetworkTask
from voile.pipelines.shapley_guided_noise import GuidedTask
from voile.pipelines.trusted_averaging.tasks import GlobalModel
from voile.privacy.accounting import tightest_epsilon


def digests_of(results: Mapping[str, StageResult]) -> dict[str, str]:
    """By stage: what an artefact was made from."""
    return {stage: digest_of_arrays(result.arrays) for stage, result in results.items()}


def settings_of(
    agreement: FederationAgreement, results: Mapping[str, StageResult]
) -> dict[str, Any]:
    """Public settings and sizes; plain values."""
    stages = agreement.plan.stages
    return {
        "pipeline": agreement.pipeline,
        "agreement": agreement.digest,
        "clients": dict(agreement.sizes),
        "promised": {"epsilon": agreement.weakest_epsilon, "delta": agreement.delta},
        **({"levels": dict(agreement.levels)} if agreement.levels else {}),
        **({"members_count": agreement.members_count} if agreement.members_count else {}),
        "relation": agreement.protected.relation.value,
        "rounds": agreement.rounds,
        "participations": stages[0].participations,
        "training": {stage.name: _training(stage.task) for stage in stages},
        "arrays": digests_of(results),
        **_secure_settings(agreement),
    }


def reserved(agreement: FederationAgreement) -> tuple[str, ...]:
    """What is kept of the promise for something else than training, in words."""
    if agreement.members_count is None:
        return ()
    return (
        f"a count of members, at ε = {agreement.members_count:g}, that each party may release once "
        f"about its own rows: for both together ε = {agreement.epsilon:g} is promised",
    )


def _secure_settings(agreement: FederationAgreement) -> dict[str, Any]:
    """Of a secure sum: against whom, and by how much a mean is off for being rounded at most."""
    stage = agreement.plan.stages[0]
    summed = stage.protocol
    protocol = summed if isinstance(summed, SecureSum) else agreement.protocol
    if agreement.secure is None or not isinstance(protocol, SecureSum):
        return {}
    asked, largest = stage.clients_per_round, stage.largest_change
    stated = {
        **agreement.secure.stated,
        "asked": asked,
        "threshold": agreement.secure.threshold_of(asked),
        "largest_rounding_error": protocol.rounding_error(asked, largest),
        "server_key": str(agreement.server_key),
    }
    return {"secure_sum": stated}


def _training(task: Task) -> dict[str, Any]:
    """Public settings of a stage, as far as it is a network that is trained."""
    if isinstance(task, GlobalModel):
        task = task.local.network
    if not isinstance(task, NetworkTask | GuidedTask):
        return {}
    return {
        "hidden": list(task.training.hidden),
        "clipping_norm": str(task.training.clipping_norm),
        "sampling_rate": task.training.sampling_rate,
        "steps_of_a_participation": task.training.steps,
        "noise_multiplier": task.noise_multiplier,
    }


def by_name(result: StageResult) -> dict[str, list[float]]:
    """What was measured on unprotected rows after each round."""
    names = sorted({name for figures in result.figures for name in figures})
    return {n: [figures[n] for figures in result.figures if n in figures] for n in names}


SEEN: Final = (
    ("the server", "every single update, with the noise that its party put on it"),
    ("other parties, and the public", "the arrays after every round"),
)
SEEN_IN_SECRET: Final = (
    ("the server", "of each round the sum of updates, who is in it, and what each was charged"),
    ("other parties, and the public", "the arrays after every round"),
)
_OPEN_ROWS: Final = (
    "rows listed as held out, which the model is calibrated and judged by, and reference rows: "
    "they are public"
)
_NO_NOISE: Final = (
    "what a secure sum does not do: it adds no noise, so what is promised rests on each party's "
    "own; without that, a server that chooses the arrays reads single rows out of a sum. Parties "
    "that it sends different arrays are in no sum together, but who is in one is its choice: each "
    "keeps what it was shown, signed, which proves that afterwards"
)
_IN_SHARES: Final = (
    "what rests on the secure sum: a single update carries a share of the noise only. Who is in a "
    "sum is the server's choice, among those who were shown the same: at least as many as have to "
    "survive"
)


def statement_of(
    agreement: FederationAgreement, made: PipelineOutput, rows: Sequence[HistoryRow]
) -> dict[str, Any]:
    """Other readings of the same noise, and what is not covered; plain values."""
    figures = made.readings
    delta = figures.published.delta
    spent = charged(rows)
    reading = {event: tightest_epsilon(event, delta) for event in set(spent.values())}
    return {
        "readings": {
            "joint": vars(figures.joint),
            "published_sum": vars(figures.published),
            "stages": {name: vars(alone) for name, alone in figures.stages.items()},
        },
        "spent_by_client": {
            client: {"epsilon": reading[event], "delta": delta} for client, event in spent.items()
        },
        "not_covered": [
            "what the shape of the model, the schema, the sizes and the schedule reveal: they are "
            "public",
            "rows that are explained: whoever asks knows them",
            *((_OPEN_ROWS,) if "quality" in made.figures else ()),
            "whether a client took part in a round",
            *_of_secure_sum(agreement),
            *reserved(agreement),
            *made.promised.notes,
        ],
        "seen_by": dict(SEEN if agreement.secure is None else SEEN_IN_SECRET),
    }


def _of_secure_sum(agreement: FederationAgreement) -> tuple[str, ...]:
    if agreement.secure is None:
        return ()
    alone = Adversary.SERVER_SEEING_UPDATES in agreement.plan.guarantee().against
    return (_NO_NOISE if alone else _IN_SHARES,)
