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
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from voile.app.explain.inputs import ExplanationInputs
from voile.app.explain.rows import rows_digest
from voile.attribution import explainer_by, is_exact, shapley_explainer
from voile.attribution.choosing import MOST_EXACT_PLAYERS
from voile.core.choices import ExtensibleKinds, chosen
from voile.core.errors import BudgetExceeded, InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Protected, RowPart
from voile.core.schema import is_table
from voile.core.transparency import Level, Method
from voile.models import digest_of
from voile.models.additive import AdditiveModel
from voile.models.additive.links import Number, TwoClasses
from voile.privacy.accounting.conversion import gaussian_epsilon
from voile.privacy.accounting.measures import fits
from voile.privacy.mechanisms.parameters import WeakPrivacyWarning
from voile.privacy.sensitivity import Norm, Sensitivity, clipped_vector
from voile.records.ledger import Account
from voile.release import (
    ByExplainer,
    ClippedRelease,
    OverItself,
    PostProcessed,
    Preview,
    PrivateBackgroundShapley,
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
_WITHOUT_ROWS: Final = (Method.SALIENCY, Method.SURROGATE)
"""Methods that need no background rows."""
_OVER_ITSELF: Final = (None, Method.EXACT)
"""Methods with a bound for a population that is its own background."""


MakeRelease: TypeAlias = Callable[[ExplanationInputs, "Account | None", int], Release[Explanation]]
"""From what was read, who pays and how many rows there are to the release that answers."""
RELEASES: Final[Mapping[str, MakeRelease]] = ExtensibleKinds({}, "voile.releases")
"""What other packages add as entry points (docs/extending.md)."""


def build_release(
    inputs: ExplanationInputs, account: Account | None, rows: int
) -> Release[Explanation]:
    """The release that protects what is to be protected.

    Args:
        account: who pays; None where nothing has to be paid.
        rows: how many rows there are to explain; public.
    """
    spec = inputs.spec
    if spec.release_kind is not None:
        return _added_release(spec.release_kind, inputs, account, rows)
    if spec.protect is RowPart.TRAINING:
        return _training(inputs)
    if account is None:
        raise Refused(
            f"protecting {spec.protect!s} rows costs privacy budget: say which account pays "
            "(`voile budget open` opens one)"
        )
    if spec.protect is RowPart.BACKGROUND:
        return _background(inputs, account, rows)
    if spec.protect is RowPart.POPULATION:
        return _population(inputs, account, rows)
    return _explained_row(inputs, account)


def _added_release(
    kind: str, inputs: ExplanationInputs, account: Account | None, rows: int
) -> Release[Explanation]:
    """What another package makes of it; refused where it is not what it was asked for."""
    release = chosen(RELEASES, kind, "release_kind")(inputs, account, rows)
    protect = inputs.spec.protect
    if release.part is not protect:
        raise Refused(
            f"the release {kind!r} protects {release.part!s} rows, not {protect!s} rows as stated"
        )
    # Else it could be given the stored answers of another release, or leave its own to one.
    if not release.identity.explainer.startswith(f"{kind}/"):
        raise Refused(
            f"the release {kind!r} must be identified as '{kind}/VERSION', found "
            f"{release.identity.explainer!r}"
        )
    return release


def _training(inputs: ExplanationInputs) -> Release[Explanation]:
    spec = inputs.spec
    if inputs.additive is not None:
        return _closed_form(inputs, inputs.additive)
    if inputs.learned is not None:
        _features_only(inputs)
        name = _name(inputs, "learned Shapley values", "learned-shapley")
        model, level = inputs.model.digest, str(spec.level)
        return PostProcessed(inputs.learned, inputs.origins, model, name, level)
    if spec.method is not None and spec.level is not Level.GRANULAR:
        explainer, name = _explainer(inputs)
        return PostProcessed(explainer, inputs.origins, inputs.model.digest, name, str(spec.level))
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
    spec = inputs.spec
    if spec.level is not Level.DETAILED:
        raise Refused(
            f"the closed formula knows the level detailed only, not {spec.level!s}; for another "
            "level give public rows with --background and --background-origin"
        )
    what = "the number" if isinstance(model.link, Number) else "log-odds"
    name = ExplainerName(f"Shapley values of {what} over the released background", "closed-form")
    explainer = ClosedForm(model, _score_name(model, spec.output_name))
    return PostProcessed(explainer, inputs.origins, model.digest, name, str(spec.level))


def _score_name(model: AdditiveModel, output: str | None) -> str | None:
    """Of the score that is asked for; None for all of them."""
    names, scores = model.output_names, model.link.score_names
    if output is None:
        return None
    if output not in names:
        raise Refused(f"the model has the outputs {list(names)}, not {output!r}")
    if isinstance(model.link, TwoClasses) and output == names[0]:
        raise Refused(
            f"the closed formula explains the log-odds of {names[1]!r}; those of {output!r} are "
            "the same with the other sign"
        )
    return scores[names.index(output) if len(scores) > 1 else 0]


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """Explains by the closed formula: Shapley values of scores over the released background.

    Args:
        model: whose background was released with it.
        score: the one to explain; all of them if None.
    """

    model: AdditiveModel
    score: str | None = None

    def __call__(self, rows: Any) -> Explanation:
        schema = self.model.schema
        inside = schema.rows(rows) if is_table(rows) else schema.clamp(schema.numbers(rows))
        found = replace(self.model.explain(inside), data=inside)
        return found if self.score is None else found.output(self.score)


def _background(inputs: ExplanationInputs, account: Account, rows: int) -> Release[Explanation]:
    spec, total = inputs.spec, inputs.spec.total_epsilon
    _check_exact(inputs)
    private = PrivateBackground(
        _needed(inputs),
        protected=account.protected,
        delta=_delta(inputs, account),
        epsilon=spec.epsilon if total is None else total,
        noise_share=NOISE_SHARE if spec.noise is None else spec.noise,
    )
    release = at_level(
        spec.level,
        role=spec.role,
        model=inputs.model,
        background=private,
        schema=inputs.schema,
        origins=[inputs.model_origin],
        clusters=inputs.clusters,
        speed=inputs.speed,
    )
    if total is None:
        return release
    assert isinstance(release, PrivateBackgroundShapley)  # of every level
    return release.at_total_epsilon(total, rows)


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
            **_terms(inputs, account.protected, name),
        )
    return importance_release(inputs, account.protected, rows, delta)


def importance_release(
    inputs: ExplanationInputs, protected: Protected, rows: int, delta: float
) -> PrivateGlobalImportance:
    """The mean of absolute attributions over so many protected rows."""
    spec = inputs.spec
    importance: Importance
    if inputs.background is None and inputs.learned is None and spec.method in _OVER_ITSELF:
        name = _name(inputs, "Shapley values of the population over itself", "shapley-over-itself")
        importance = OverItself(inputs.model, inputs.schema, inputs.groups, inputs.speed)
    else:
        explainer, name = _explainer(inputs)
        importance = ByExplainer(explainer, inputs.model.outputs, inputs.schema)
    epsilon = spec.epsilon
    if epsilon is None:
        share = NOISE_SHARE_OF_IMPORTANCE if spec.noise is None else spec.noise
        noise = share * inputs.model.outputs.width(len(importance.output_names))
        epsilon = _epsilon(noise, importance.sensitivity(rows, protected.relation), delta)
    return PrivateGlobalImportance(
        importance, epsilon=epsilon, delta=delta, **_terms(inputs, protected, name)
    )


def _explained_row(inputs: ExplanationInputs, account: Account) -> Release[Explanation]:
    spec = inputs.spec
    explainer, name = _explainer(inputs)
    terms = {"schema": inputs.schema, **_terms(inputs, account.protected, name)}
    if spec.top is not None:
        epsilon = EPSILON_OF_NAMES if spec.epsilon is None else spec.epsilon
        return TopFeaturesOfRow(explainer, k=spec.top, epsilon=epsilon, **terms)
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
    return ClippedRelease(explainer, bound=bound, epsilon=epsilon, delta=delta, **terms)


# --- what they share ------------------------------------------------------------------------------


def _terms(inputs: ExplanationInputs, protected: Protected, name: ExplainerName) -> dict[str, Any]:
    """What every release that is charged is told."""
    return {
        "protected": protected,
        "origins": inputs.origins,
        "model": inputs.model.digest,
        "name": name,
        "level": str(inputs.spec.level),
    }


def _explainer(inputs: ExplanationInputs) -> tuple[Any, ExplainerName]:
    """Any explainer over public rows, or the learned one."""
    if inputs.learned is not None:
        _features_only(inputs)
        return inputs.learned, _name(inputs, "learned Shapley values", "learned-shapley")
    if inputs.spec.level is Level.GRANULAR:
        raise Refused("pairs of features are offered for training and background rows only")
    method = inputs.spec.method
    background = inputs.background if method in _WITHOUT_ROWS else _needed(inputs)
    settings: dict[str, Any] = {
        "schema": inputs.schema,
        "groups": inputs.groups,
        "speed": inputs.speed,
    }
    if method is None:
        explainer = shapley_explainer(inputs.model, background, **settings)
    else:
        explainer = explainer_by(method, inputs.model, background, **settings)
    return explainer, _name(inputs, f"{explainer.title} values", explainer.tag)


def _check_exact(inputs: ExplanationInputs) -> None:
    """Above 16 players, coalitions are drawn by the release itself, whose bound covers that."""
    players = len(inputs.groups or inputs.schema.feature_names)
    if inputs.spec.method is Method.EXACT and not is_exact(players):
        raise Refused(
            f"over protected background rows exact values are offered up to {MOST_EXACT_PLAYERS} "
            f"players, found {players}: leave out --method, and coalitions are drawn"
        )


def _needed(inputs: ExplanationInputs) -> Any:
    if inputs.background is None:
        raise InvalidInput(
            "absent features take their values from background rows: give public ones with "
            "--background FILE --background-origin public, or an explainer that was trained for "
            "this model"
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
    if account.delta == 0:
        raise Refused(
            f"account {account.name!r} promises delta = 0, and this release draws Gaussian noise. "
            "Without a delta the names of the top features of a row can be had (`--top`); for the "
            "rest open an account with a delta above 0, such as 1e-6"
        )
    # Whoever types the default asks the same question: 0.1 * 1e-5 is not 1e-6 to the last bit.
    is_usual = stated is None or math.isclose(stated, usual, rel_tol=1e-12)
    return usual if stated is None or is_usual else stated


def _epsilon(noise: float, sensitivity: Sensitivity, delta: float) -> float:
    """The epsilon of Gaussian noise of this standard deviation."""
    return max(1e-3, gaussian_epsilon(noise / sensitivity.value * (1 - 1e-8), delta * (1 - 1e-8)))


# --- What would fit, where one answer takes more than the whole budget of its account ------------
# A renewed budget would not cover it either, so the advice is about the release: its noise or its
# epsilon. What a release costs follows from public facts alone, and so does this advice.


_WHERE: Final = "(under [releases.NAME] in voile.toml, or --noise and --epsilon of `voile explain`)"
_UNSTATED: Final = {"noise": None, "epsilon": None, "total_epsilon": None}
_PROPOSED: Final = [float(f"{digit}e{power}") for power in range(-3, 1) for digit in (1, 2, 5)]


@dataclass(frozen=True)
class Affordability:
    """Whether an account could ever pay for an answer.

    Args:
        inputs: what the release was built from.
        account: who pays; None where nothing has to be paid.
        release: what is asked for.
        rows: how many rows are explained together.
    """

    inputs: ExplanationInputs
    account: Account | None
    release: Release[Explanation]
    rows: int

    @property
    def never(self) -> bool:
        """Whether the answer takes more than the whole budget."""
        return not self._covered(self.release)

    @property
    def advice(self) -> str:
        """What to ask for instead."""
        spec, found = self.inputs.spec, []
        by_name = (
            spec.top is not None and spec.protect.is_explained
        )  # names are drawn without noise
        for key in ("epsilon",) if by_name else ("noise", "epsilon"):
            # Noise as wide as the outputs would tell nothing.
            figures = [f for f in _PROPOSED if f < 1] if key == "noise" else _PROPOSED[::-1]
            figure = next((each for each in figures if self._would_fit(key, each)), None)
            found += [] if figure is None else [f"{key} = {figure:g}"]
        if not found:
            return "open an account that promises a larger epsilon"
        return f"it would fit with {' or '.join(found)} of one release"

    @contextmanager
    def refuse_with_advice(self) -> Iterator[None]:
        """Say it with the refusal."""
        try:
            yield
        except BudgetExceeded as error:
            if not self.never:
                raise
            raise BudgetExceeded(
                f"{error}: {self.advice} {_WHERE}",
                remaining=error.remaining,
                requested=error.requested,
            ) from error

    def add_advice(self, preview: Preview) -> Preview:
        """Say it with a preview."""
        if not self.never:
            return preview
        return replace(preview, remarks=(*preview.remarks, f"{self.advice} {_WHERE}"))

    def _would_fit(self, key: str, figure: float) -> bool:
        spec = self.inputs.spec.model_copy(update={**_UNSTATED, key: figure})
        changed = replace(self.inputs, spec=spec)
        with warnings.catch_warnings():  # what is only tried promises nothing to anybody
            warnings.simplefilter("ignore", WeakPrivacyWarning)
            try:
                return self._covered(build_release(changed, self.account, self.rows))
            except InvalidInput:  # a figure beyond what can be drawn
                return False

    def _covered(self, release: Release[Explanation]) -> bool:
        account = self.account
        if account is None or account.measure is None:
            return True
        event = release.cost(1 if release.part is RowPart.EXPLAINED else self.rows)
        if event is None:
            return True
        return fits(account.measure.cost(event), account.budgets)
