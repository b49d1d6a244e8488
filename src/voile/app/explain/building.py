"""`build_release`: from a specification and what it names to the release that keeps its promise.

    training rows        `PostProcessed`, of artefacts that are public or were made privately; an
                         additive model of `voile train` by its closed formula
    background rows      `PrivateBackgroundShapley`; with pairs, `PrivateInteractions`
    a population         `PrivateGlobalImportance`; by name, `PrivateTopFeatures`
    the explained row    `ClippedRelease`; by name, `TopFeaturesOfRow`

Data set and relation come from the account that pays. Where no epsilon is stated it follows from a
noise level, so that a default means an accuracy and not a figure out of the air.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import Any, Final

from voile.app.explain.inputs import ExplanationInputs
from voile.app.explain.rows import rows_digest
from voile.attribution import shapley_explainer
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import RowPart
from voile.core.schema import is_table
from voile.core.transparency import Level
from voile.models import digest_of
from voile.models.additive import AdditiveModel
from voile.privacy.accounting.conversion import gaussian_epsilon
from voile.privacy.sensitivity import Norm, Sensitivity, clipped_vector
from voile.records.ledger import Account
from voile.release import (
    ByExplainer,
    ClippedRelease,
    OverItself,
    PostProcessed,
    PrivateGlobalImportance,
    PrivateTopFeatures,
    Release,
    TopFeaturesOfRow,
)
from voile.release.contract import ExplainerName
from voile.release.levels import NOISE_SHARE, PrivateBackground, at_level
from voile.release.population import Importance
from voile.training import arrays_of

NOISE_SHARE_OF_IMPORTANCE: Final = 0.005
"""Means over a population are smaller than single values, and can be had more precisely."""
EPSILON_OF_NAMES: Final = 1.0
EPSILON_OF_A_ROW: Final = 1.0
SHARE_OF_DELTA: Final = 0.1
"""Of the account's delta, where none is stated."""
_SHOWN: Final = 12


def build_release(
    inputs: ExplanationInputs, account: Account | None, rows: int
) -> Release[Explanation]:
    """The release that protects what is to be protected.

    Args:
        account: who pays; None where nothing has to be paid.
        rows: how many rows there are to explain; public.
    """
    spec = inputs.spec
    if spec.protect is RowPart.TRAINING:
        return _training(inputs)
    if account is None:
        raise Refused(
            f"protecting {spec.protect!s} rows costs privacy budget: say which account pays "
            "(`voile budget open` opens one)"
        )
    if spec.protect is RowPart.BACKGROUND:
        return _background(inputs, account)
    if spec.protect is RowPart.POPULATION:
        return _population(inputs, account, rows)
    return _explained_row(inputs, account)


def _training(inputs: ExplanationInputs) -> Release[Explanation]:
    spec = inputs.spec
    if inputs.additive is not None:
        return _closed_form(inputs, inputs.additive)
    if inputs.learned is not None:
        _features_only(inputs)
        name = _name(inputs, "learned Shapley values", "learned-shapley")
        model, level = inputs.model.digest, str(spec.level)
        return PostProcessed(inputs.learned, inputs.origins, model, name, level)
    return at_level(
        spec.level,
        role=spec.role,
        model=inputs.model,
        background=_needed(inputs),
        schema=inputs.schema,
        origins=inputs.origins_but_clusters,
        clusters=inputs.clusters,
        speed=inputs.speed,
    )


def _closed_form(inputs: ExplanationInputs, model: AdditiveModel) -> Release[Explanation]:
    """Model and background were released together: one origin covers both."""
    spec, (other, explained) = inputs.spec, model.output_names
    if spec.level is not Level.DETAILED:
        raise Refused(
            f"the closed formula knows the level detailed only, not {spec.level!s}; for another "
            "level give public rows with --background and --background-origin"
        )
    if spec.output not in (None, explained):
        raise Refused(
            f"the closed formula explains the log-odds of {explained!r}; those of {other!r} are "
            "the same with the other sign"
        )
    name = ExplainerName("Shapley values of log-odds over the released background", "closed-form")
    return PostProcessed(ClosedForm(model), inputs.origins, model.digest, name, str(spec.level))


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Explains by the closed formula: Shapley values of the log-odds over the released background.

    Args:
        model: whose background was released with it.
    """

    model: AdditiveModel

    def __call__(self, rows: Any) -> Explanation:
        schema = self.model.schema
        inside = schema.rows(rows) if is_table(rows) else schema.clamp(schema.numbers(rows))
        return replace(self.model.explain(inside), data=inside)


def _background(inputs: ExplanationInputs, account: Account) -> Release[Explanation]:
    spec = inputs.spec
    private = PrivateBackground(
        _needed(inputs),
        protected=account.protected,
        delta=_delta(inputs, account),
        epsilon=spec.epsilon,
        noise_share=NOISE_SHARE if spec.noise is None else spec.noise,
    )
    return at_level(
        spec.level,
        role=spec.role,
        model=inputs.model,
        background=private,
        schema=inputs.schema,
        origins=[inputs.model_origin],
        clusters=inputs.clusters,
        speed=inputs.speed,
    )


def _population(inputs: ExplanationInputs, account: Account, rows: int) -> Release[Explanation]:
    spec = inputs.spec
    delta = _delta(inputs, account)
    if spec.top is not None:
        explainer, name = _explainer(inputs)
        return PrivateTopFeatures(
            explainer,
            schema=inputs.schema,
            k=spec.top,
            output_width=inputs.model.outputs.width(1),
            epsilon=EPSILON_OF_NAMES if spec.epsilon is None else spec.epsilon,
            delta=delta,
            protected=account.protected,
            origins=inputs.origins,
            model=inputs.model.digest,
            name=name,
            level=str(spec.level),
        )
    return _importance(inputs, account, rows, delta)


def _importance(
    inputs: ExplanationInputs, account: Account, rows: int, delta: float
) -> Release[Explanation]:
    spec = inputs.spec
    importance: Importance
    if inputs.background is None and inputs.learned is None:
        name = _name(inputs, "Shapley values of the population over itself", "shapley-over-itself")
        importance = OverItself(inputs.model, inputs.schema, inputs.groups, inputs.speed)
    else:
        explainer, name = _explainer(inputs)
        importance = ByExplainer(explainer, inputs.model.outputs, inputs.schema)
    epsilon = spec.epsilon
    if epsilon is None:
        share = NOISE_SHARE_OF_IMPORTANCE if spec.noise is None else spec.noise
        noise = share * inputs.model.outputs.width(len(importance.output_names))
        epsilon = _epsilon(noise, importance.sensitivity(rows, account.protected.relation), delta)
    return PrivateGlobalImportance(
        importance,
        protected=account.protected,
        epsilon=epsilon,
        delta=delta,
        origins=inputs.origins,
        model=inputs.model.digest,
        name=name,
        level=str(spec.level),
    )


def _explained_row(inputs: ExplanationInputs, account: Account) -> Release[Explanation]:
    spec = inputs.spec
    explainer, name = _explainer(inputs)
    common: dict[str, Any] = {
        "schema": inputs.schema,
        "protected": account.protected,
        "origins": inputs.origins,
        "model": inputs.model.digest,
        "name": name,
        "level": str(spec.level),
    }
    if spec.top is not None:
        epsilon = EPSILON_OF_NAMES if spec.epsilon is None else spec.epsilon
        return TopFeaturesOfRow(explainer, k=spec.top, epsilon=epsilon, **common)
    width, delta = inputs.model.outputs.width(1), _delta(inputs, account)
    bound = width / 2 if spec.bound is None else spec.bound
    epsilon = EPSILON_OF_A_ROW if spec.epsilon is None else spec.epsilon
    if spec.noise is not None:
        sensitivity = clipped_vector(
            bound=bound,
            norm=Norm.L2,
            unit=account.protected.unit,
            relation=account.protected.relation,
        )
        epsilon = _epsilon(spec.noise * width, sensitivity, delta)
    return ClippedRelease(explainer, bound=bound, epsilon=epsilon, delta=delta, **common)


# --- what they share ------------------------------------------------------------------------------


def _explainer(inputs: ExplanationInputs) -> tuple[Any, ExplainerName]:
    """Any explainer over public rows, or the learned one."""
    if inputs.learned is not None:
        _features_only(inputs)
        return inputs.learned, _name(inputs, "learned Shapley values", "learned-shapley")
    if inputs.spec.level is Level.GRANULAR:
        raise Refused("pairs of features are offered for training and background rows only")
    background = _needed(inputs)
    explainer = shapley_explainer(
        inputs.model, background, schema=inputs.schema, groups=inputs.groups, speed=inputs.speed
    )
    return explainer, _name(inputs, f"{explainer.title} values", explainer.tag)


def _needed(inputs: ExplanationInputs) -> Any:
    if inputs.background is None:
        raise InvalidInput(
            "absent features take their values from background rows: hand some in, or an explainer "
            "that was trained for this model"
        )
    return inputs.background


def _name(inputs: ExplanationInputs, words: str, tag: str) -> ExplainerName:
    """Tells explainers apart that differ in their public rows, groups or weights."""
    learned = None if inputs.learned is None else digest_of(arrays_of(inputs.learned.network))
    rows = None if inputs.background is None else rows_digest(inputs.background).hex()
    groups = {name: list(members) for name, members in (inputs.groups or {}).items()}
    digest = hashlib.sha256(json.dumps([learned, rows, groups]).encode()).hexdigest()[:_SHOWN]
    return ExplainerName(f"{words} ({digest})", f"{tag}/{digest}")


def _features_only(inputs: ExplanationInputs) -> None:
    level = inputs.spec.level
    if level is not Level.DETAILED:
        raise Refused(f"a learned explainer knows the level detailed only, not {level!s}")


def _delta(inputs: ExplanationInputs, account: Account) -> float:
    stated, usual = inputs.spec.delta, SHARE_OF_DELTA * account.delta
    # Whoever types the default asks the same question: 0.1 * 1e-5 is not 1e-6 to the last bit.
    is_usual = stated is None or math.isclose(stated, usual, rel_tol=1e-12)
    return usual if stated is None or is_usual else stated


def _epsilon(noise: float, sensitivity: Sensitivity, delta: float) -> float:
    """The epsilon of Gaussian noise of this standard deviation."""
    return max(1e-3, gaussian_epsilon(noise / sensitivity.value * (1 - 1e-8), delta * (1 - 1e-8)))
