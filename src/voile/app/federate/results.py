"""What a finished federation shows: networks, promises, figures on open rows, signed logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voile.app.artefact import Contents
from voile.app.federate.agreement import FederationAgreement
from voile.app.federate.job import ServerSide
from voile.app.federate.kinds import PipelineOutput, ServerRows
from voile.core.schema import Categories, Numbers, Schema
from voile.evaluation import (
    ClassJudgement,
    PredictionQuality,
    brier_scores,
    is_constant,
    judge_classes,
    judge_numbers,
    log_losses,
    spread_of,
)
from voile.federation import (
    HistoryRow,
    SecureSum,
    StageResult,
    Task,
    charged,
    digest_of_arrays,
)
from voile.pipelines.calibration import Calibration
from voile.pipelines.network_task import NetworkTask
from voile.pipelines.objectives import BLACK_BOX, SURROGATE
from voile.pipelines.shapley_guided_noise import GuidedTask
from voile.pipelines.tables import TableRecords
from voile.pipelines.trusted_averaging.tasks import GlobalModel
from voile.privacy.accounting import PrivacyLoss
from voile.training import Softmax

# --- How good what was trained is, on rows that nobody protects, and what to be warned of --------
# Each figure has beside it what it is compared with. An alarm is a sentence for the first lines of
# a report: whoever reads no further must not take a useless result for a good one.


_MOST: Final = 20_000
"""Rows to judge by."""
LOG_LOSS: Final = "log-loss"
BRIER: Final = "Brier score"
_SAME: Final = "it says nearly the same about everybody: its explanations explain nothing"


_RIDGE: Final = 1.0


def quality_figures(
    made: PipelineOutput, measured: TableRecords, fitted: TableRecords | None = None
) -> dict[str, Any]:
    """For the model and, where there is one, its surrogate; plain values.

    Args:
        measured: the unprotected rows to judge by.
        fitted: other unprotected rows, which a linear model is fitted on for comparison. It never
            sees protected rows: a model of those without noise would be a release nobody paid for.
    """
    rows = measured.readable()
    rows = rows.only(np.arange(min(len(rows), _MOST)))
    if not len(rows):
        return {}
    found: dict[str, Any] = {}
    if made.black_box is not None:
        said = np.asarray(made.black_box.predict(rows.rows), float)
        found[BLACK_BOX] = judged_rows(said, rows, fitted)
    if made.surrogate is not None:
        said = np.asarray(made.surrogate.predict(rows.rows), float)
        found[SURROGATE] = _quality(said, rows.schema, {}, [])
    return found


def judged_rows(
    said: NDArray[np.float64], rows: TableRecords, fitted: TableRecords | None = None
) -> dict[str, Any]:
    """What a model said about unprotected rows, compared with their labels; plain values."""
    label = rows.schema.label
    if np.isnan(rows.labels).all() or label is None:
        return _quality(said, rows.schema, {}, [])
    if not isinstance(label.domain, Categories):
        error = judge_numbers(said[:, 0], rows.labels)
        useless = error.high >= error.baseline
        alarms = ["its error cannot be told from that of always saying the median"]
        figures = {"mean absolute error": error}
        return _quality(said, rows.schema, figures, alarms if useless else [])
    found = judge_classes(said, rows.labels)
    figures = {"accuracy": found.accuracy}
    figures |= {} if found.auc is None else {"AUC": found.auc}
    figures["expected calibration error"] = found.calibration_error
    figures |= {LOG_LOSS: found.log_loss, BRIER: found.brier}
    majority = label.domain.values[found.majority]
    alarms = []
    if found.no_better_than_baseline:
        alarms.append(f"it cannot be told from always saying {majority!r}, by accuracy or AUC")
    if found.no_better_than_frequencies:
        alarms.append(
            "its probabilities are not shown to be better than the base rate (log-loss "
            f"{found.log_loss.figure:.3f}; always stating the base rate has "
            f"{found.log_loss.baseline:.3f})"
        )
    close = _close_together(found, said, majority)
    quality = _quality(said, rows.schema, figures, alarms, close)
    for name, figure in _of_linear_model(fitted, rows).items():
        quality["figures"][name]["linear_model"] = figure
    calibration = [{k: float(v) for k, v in asdict(each).items()} for each in found.calibration]
    return quality | {"calibration": calibration}


def _of_linear_model(fitted: TableRecords | None, rows: TableRecords) -> dict[str, float]:
    """Log-loss and Brier score of a linear model without noise; none without rows to fit."""
    if fitted is None or not len(fitted):
        return {}
    known = rows.only(~np.isnan(rows.labels))
    true = known.labels.astype(int)
    said = _linear_model(fitted, known)
    return {
        LOG_LOSS: float(log_losses(said, true).mean()),
        BRIER: float(brier_scores(said, true).mean()),
    }


def _linear_model(fitted: TableRecords, rows: TableRecords) -> NDArray[np.float64]:
    """What a logistic regression with a ridge says about rows that it was not fitted on."""
    from scipy.optimize import minimize

    inputs, wanted = _with_ones(fitted), np.asarray(fitted.targets, float)
    shape, head = (inputs.shape[1], wanted.shape[1]), Softmax()

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = point.reshape(shape)
        said = head.means(inputs @ weights)
        pulled = _RIDGE * weights
        pulled[-1] = 0  # not the intercept
        value = log_losses(said, wanted.argmax(axis=1)).sum() + (pulled * weights).sum() / 2
        return float(value), (inputs.T @ (said - wanted) + pulled).ravel()

    found = minimize(loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B").x
    return np.asarray(head.means(_with_ones(rows) @ found.reshape(shape)), float)


def _with_ones(rows: TableRecords) -> NDArray[np.float64]:
    return np.column_stack([np.asarray(rows.columns, float), np.ones(len(rows))])


def _close_together(found: ClassJudgement, said: NDArray[np.float64], majority: object) -> str:
    """What to say of one whose answers lie close together; nothing if they are good answers.

    Where one answer is rare, probabilities lie close together whatever is known about people.
    """
    if found.auc is None or found.auc.low <= found.auc.baseline:
        return _SAME
    if found.accuracy.low > found.accuracy.baseline:
        return ""
    others = np.count_nonzero(said.argmax(axis=1) != found.majority)
    return (
        f"it {'hardly ever' if others else 'never'} predicts anything but {majority!r}, so what it "
        "predicts is of no use; but it ranks people better than guessing (AUC "
        f"{found.auc.figure:.3f}, 95 %: {found.auc.low:.3f} to {found.auc.high:.3f})"
    )


def _quality(
    said: NDArray[np.float64],
    schema: Schema,
    figures: Mapping[str, PredictionQuality],
    alarms: list[str],
    same: str = _SAME,
) -> dict[str, Any]:
    """With what is to be said of one whose answers lie close together."""
    constant = is_constant(said, _width(schema))
    return {
        "spread": spread_of(said),
        "constant": constant,
        "alarms": [*([same] if constant and same else []), *alarms],
        "figures": {name: asdict(each) for name, each in figures.items()},
        "calibration": [],
    }


def _width(schema: Schema) -> float:
    """How far outputs can lie apart."""
    domain = None if schema.label is None else schema.label.domain
    return float(domain.upper - domain.lower) if isinstance(domain, Numbers) else 1.0


# --------------------------------------------------------------------------------------------------


def contents_of(
    agreement: FederationAgreement,
    server: ServerSide,
    made: PipelineOutput,
    results: Mapping[str, StageResult],
    open_rows: ServerRows,
    calibration: Calibration | None,
) -> Contents:
    """What the artefact holds, its logs aside.

    Args:
        results: as the rounds left them; `made` is of the calibrated ones.
        open_rows: unprotected rows, and what each of them is for.
    """
    measured = open_rows.measured
    rows = tuple(row for result in results.values() for row in result.rows)
    return Contents(
        name=agreement.name,
        schema=agreement.schema,
        reference=server.reference,
        black_box=made.black_box,
        trained=results[agreement.plan.stages[0].name].arrays,
        calibration=calibration,
        surrogate=made.surrogate,
        explainer=made.explainer,
        guarantees=tuple(
            replace(each, records_per_person=agreement.records_per_person)
            for each in made.promised.guarantees
        ),
        statement=_statement(agreement, made, rows),
        figures={
            "measured_on": f"{len(measured)} rows listed as unprotected",
            "rounds": {stage: _by_name(result) for stage, result in results.items()},
            "quality": quality_figures(made, measured, open_rows.fitted),
            **({} if calibration is None else {"calibration": calibration.plain}),
            **made.figures,
        },
        settings={
            **_settings(agreement, results),
            "reference_invented": server.reference_invented,
        },
        history=rows,
    )


def digests_of(results: Mapping[str, StageResult]) -> dict[str, str]:
    """By stage: what an artefact was made from."""
    return {stage: digest_of_arrays(result.arrays) for stage, result in results.items()}


def _settings(agreement: FederationAgreement, results: Mapping[str, StageResult]) -> dict[str, Any]:
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
    protocol = agreement.protocol
    if agreement.secure is None or not isinstance(protocol, SecureSum):
        return {}
    stage = agreement.plan.stages[0]
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


def _by_name(result: StageResult) -> dict[str, list[float]]:
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
_NO_NOISE: Final = (
    "what a secure sum does not do: it adds no noise, so what is promised rests on each party's "
    "own; without that, a server that chooses the arrays reads single rows out of a sum. Parties "
    "that it sends different arrays are in no sum together, but who is in one is its choice: each "
    "keeps what it was shown, signed, which proves that afterwards"
)


def _statement(
    agreement: FederationAgreement, made: PipelineOutput, rows: Sequence[HistoryRow]
) -> dict[str, Any]:
    figures = made.readings
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
            "rows listed as held out, which the model is calibrated and judged by, and reference "
            "rows: they are public",
            "whether a client took part in a round",
            *((_NO_NOISE,) if agreement.secure is not None else ()),
            *reserved(agreement),
            *made.promised.notes,
        ],
        "seen_by": dict(SEEN if agreement.secure is None else SEEN_IN_SECRET),
    }
