"""What a finished federation shows: networks, promises, figures on open rows, signed logs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from voile.attribution.fastshap import exact_values
from voile.evaluation import cosine_similarity
from voile.federation import charged
from voile.pipelines.objectives import BLACK_BOX, SURROGATE
from voile.pipelines.private_explainer import PrivateExplainer
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.privacy.accounting import PrivacyLoss
from voile.workflows.artefact import Contents
from voile.workflows.federate.agreement import FederationAgreement
from voile.workflows.federate.job import ServerSide

_EXPLAINED: Final = 200


def contents_of(
    agreement: FederationAgreement, server: ServerSide, trained: PrivateExplainer, explainer: Any
) -> Contents:
    """What the artefact holds, its logs aside."""
    plan, box = trained.plan, trained.black_box
    guarantees, notes = trained.promise(BLACK_BOX, SURROGATE)
    return Contents(
        name=agreement.name,
        schema=agreement.schema,
        reference=server.reference,
        black_box=box if isinstance(box, NetworkModel) else None,
        surrogate=trained.surrogate,
        explainer=explainer,
        guarantees=guarantees,
        statement=_statement(trained, notes),
        figures=_figures(server.held_out, trained, explainer),
        settings={
            "clients": dict(agreement.sizes),
            "agreement": agreement.digest,
            "promised": {"epsilon": agreement.epsilon, "delta": agreement.delta},
            "relation": agreement.protected.relation.value,
            "rounds": plan.facts.rounds,
            "participations": plan.facts.participations,
            "training": {
                name: {
                    "hidden": list(each.hidden),
                    "clipping_norm": str(each.clipping_norm),
                    "sampling_rate": each.sampling_rate,
                    "steps_of_a_participation": each.steps,
                    "noise_multiplier": plan.noise.get(name),
                }
                for name, each in plan.training.items()
                if name in plan.noise
            },
        },
        history=tuple(row for result in trained.results.values() for row in result.rows),
    )


def _statement(trained: PrivateExplainer, notes: tuple[str, ...]) -> dict[str, Any]:
    figures = trained.plan.figures
    rows = [row for result in trained.results.values() for row in result.rows]
    delta = figures.published.delta
    spent = charged(rows)
    reading = {event: PrivacyLoss().compose(event).epsilon(delta) for event in set(spent.values())}
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
            "rows listed as held out, and reference rows, which are public",
            "whether a client took part in a round",
            *notes,
        ],
    }


def _figures(held_out: TableRecords, trained: PrivateExplainer, explainer: Any) -> dict[str, Any]:
    """Exact figures; all rows behind them are listed as unprotected."""
    rows = held_out.readable().rows[:_EXPLAINED]
    exact, quick = exact_values(trained.surrogate, rows), explainer(rows)
    agreement = float(np.mean(cosine_similarity(quick.values[..., -1], exact.values[..., -1])))
    return {
        "measured_on": f"{len(held_out)} rows listed as unprotected",
        "rounds": {
            stage: {
                name: [figures[name] for figures in result.figures if name in figures]
                for name in sorted({name for figures in result.figures for name in figures})
            }
            for stage, result in trained.results.items()
        },
        "distilled_explainer": {
            "cosine_to_exact_values_of_the_surrogate": agreement,
            "rows": len(rows),
        },
    }
