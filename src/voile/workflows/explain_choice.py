"""From what somebody wants protected to the release that does it.

    training rows        `PostProcessed`, of artefacts that are public or were made privately
    background rows      `PrivateBackgroundShapley`; with pairs, `PrivateInteractions`
    a population         `PrivateGlobalImportance`; by name, `PrivateTopFeatures`
    the explained row    `ClippedRelease`; by name, `TopFeaturesOfRow`

Data set and relation come from the account that pays. Where no epsilon is stated it follows from a
noise level, so that a default means an accuracy and not a figure out of the air.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from voile.attribution import ExactShapley, FastShap, Groups, KernelShapley, Speed
from voile.attribution.players import Players
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit
from voile.core.schema import Schema
from voile.ledger import Account
from voile.models import WrappedModel, digest_of
from voile.privacy.accounting.conversion import gaussian_epsilon
from voile.privacy.sensitivity import Norm, Sensitivity, clipped_vector
from voile.release import (
    ByExplainer,
    ClippedRelease,
    Origin,
    OverItself,
    PostProcessed,
    PrivateGlobalImportance,
    PrivateTopFeatures,
    Release,
    TopFeaturesOfRow,
)
from voile.release.background import MOST_EXACT_PLAYERS
from voile.release.feature_clusters import Clusters
from voile.release.levels import (
    NOISE_SHARE,
    Level,
    PrivateBackground,
    Role,
    at_level,
    check_role,
    groups_at,
)
from voile.release.population import Importance
from voile.workflows.explain_question import rows_digest

NOISE_SHARE_OF_IMPORTANCE: Final = 0.005
"""Means over a population are smaller than single values, and can be had more precisely."""
EPSILON_OF_NAMES: Final = 1.0
EPSILON_OF_A_ROW: Final = 1.0
SHARE_OF_DELTA: Final = 0.1
"""Of the account's delta, where none is stated."""
_SHOWN: Final = 12


class Protect(StrEnum):
    """Whose rows are protected."""

    TRAINING = "training"
    BACKGROUND = "background"
    POPULATION = "population"
    EXPLAINED_ROW = "explained-row"

    @property
    def of_data(self) -> bool:
        """Whether the rows that are handed in to be explained are what is protected."""
        return self in (Protect.POPULATION, Protect.EXPLAINED_ROW)


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What somebody wants explained, and how.

    Args:
        protect: whose rows are protected.
        model: what is explained, with one output where a release asks for that.
        schema: what is public about rows.
        model_origin: of the model and, if there is one, of the learned explainer.
        background: rows that absent features take their values from.
        background_origin: of these; there is no default, because the promise rests on it. Not
            needed if they are what is protected.
        learned: an explainer that was trained for this model.
        level, role, clusters: see `voile.release.levels`.
        top: name this many features only.
        epsilon, delta: of one release (for protected records, of each row).
        noise: instead of epsilon, the noise's standard deviation as a share of the output's width.
        bound: length that an explained row's vector is clipped to; half of the output's width if
            it is not stated.
    """

    protect: Protect
    model: WrappedModel
    schema: Schema
    model_origin: Origin
    background: Any = field(default=None, repr=False)
    background_origin: Origin | None = None
    learned: FastShap | None = None
    level: Level = Level.DETAILED
    role: Role = Role.ANALYST
    clusters: Clusters | None = None
    top: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    noise: float | None = None
    bound: float | None = None
    speed: Speed = field(default_factory=Speed)

    def __post_init__(self) -> None:
        if self.epsilon is not None and self.noise is not None:
            raise InvalidInput("epsilon follows from a noise level: state one of them, not both")
        check_role(self.level, self.role)
        if self.level is Level.AGGREGATE and self.clusters is not None:
            self.clusters.check_paid()
        if self._beside is not None and self.background_origin is None:
            raise InvalidInput(
                "background rows that are not protected leave their mark on what is released: say "
                "what they were made from (background_origin, --background-origin public)"
            )

    @property
    def groups(self) -> Groups | None:
        return groups_at(self.level, self.schema, self.clusters)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Of everything that is used besides what is protected."""
        used = self.clusters if self.level is Level.AGGREGATE else None
        return (*self.origins_but_clusters, *(() if used is None else (used.origin,)))

    @property
    def origins_but_clusters(self) -> tuple[Origin, ...]:
        """Of the model and of background rows that are not protected."""
        if self._beside is None or self.background_origin is None:
            return (self.model_origin,)
        return (self.model_origin, self.background_origin)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was stated and cannot be checked."""
        if self._beside is None or self.background_origin is None:
            return ()
        labels = sorted(self.background_origin.datasets)
        made = f"made from {', '.join(labels)}" if labels else "public"
        return (f"it is assumed, as stated, that the background rows are {made}",)

    @property
    def _beside(self) -> Any:
        """Background rows, unless they are what is protected."""
        return None if self.protect is Protect.BACKGROUND else self.background


def release_for(wish: Wish, account: Account | None, rows: int) -> Release:
    """The release that protects what is to be protected.

    Args:
        account: who pays; None where nothing has to be paid.
        rows: how many rows there are to explain; public.
    """
    if wish.protect is Protect.TRAINING:
        return _training(wish)
    if account is None:
        raise Refused(
            f"protecting {wish.protect!s} rows costs privacy budget: say which account pays "
            "(`voile budget open` opens one)"
        )
    if wish.protect is Protect.BACKGROUND:
        return _background(wish, account)
    if wish.protect is Protect.POPULATION:
        return _population(wish, account, rows)
    return _explained_row(wish, account)


def _training(wish: Wish) -> Release:
    if wish.learned is not None:
        _features_only(wish)
        name = _name(wish, "learned Shapley values")
        return PostProcessed(wish.learned, wish.origins, wish.model.digest, name, str(wish.level))
    return at_level(
        wish.level,
        role=wish.role,
        model=wish.model,
        background=_needed(wish),
        schema=wish.schema,
        origins=wish.origins_but_clusters,
        clusters=wish.clusters,
        speed=wish.speed,
    )


def _background(wish: Wish, account: Account) -> Release:
    private = PrivateBackground(
        _needed(wish),
        dataset=account.dataset,
        relation=account.relation,
        delta=_delta(wish, account),
        epsilon=wish.epsilon,
        noise_share=NOISE_SHARE if wish.noise is None else wish.noise,
    )
    return at_level(
        wish.level,
        role=wish.role,
        model=wish.model,
        background=private,
        schema=wish.schema,
        origins=[wish.model_origin],
        clusters=wish.clusters,
        speed=wish.speed,
    )


def _population(wish: Wish, account: Account, rows: int) -> Release:
    delta = _delta(wish, account)
    if wish.top is not None:
        explainer, name = _explainer(wish)
        return PrivateTopFeatures(
            explainer,
            schema=wish.schema,
            k=wish.top,
            output_width=wish.model.outputs.width(1),
            epsilon=EPSILON_OF_NAMES if wish.epsilon is None else wish.epsilon,
            delta=delta,
            relation=account.relation,
            dataset=account.dataset,
            origins=wish.origins,
            model=wish.model.digest,
            name=name,
            level=str(wish.level),
        )
    return _importance(wish, account, rows, delta)


def _importance(wish: Wish, account: Account, rows: int, delta: float) -> Release:
    importance: Importance
    if wish.background is None and wish.learned is None:
        name = _name(wish, "Shapley values of the population over itself")
        importance = OverItself(wish.model, wish.schema, wish.groups, wish.speed)
    else:
        explainer, name = _explainer(wish)
        importance = ByExplainer(explainer, wish.model.outputs, wish.schema)
    epsilon = wish.epsilon
    if epsilon is None:
        share = NOISE_SHARE_OF_IMPORTANCE if wish.noise is None else wish.noise
        noise = share * wish.model.outputs.width(len(importance.output_names))
        epsilon = _epsilon(noise, importance.sensitivity(rows, account.relation), delta)
    return PrivateGlobalImportance(
        importance,
        dataset=account.dataset,
        relation=account.relation,
        epsilon=epsilon,
        delta=delta,
        origins=wish.origins,
        model=wish.model.digest,
        name=name,
        level=str(wish.level),
    )


def _explained_row(wish: Wish, account: Account) -> Release:
    explainer, name = _explainer(wish)
    common: dict[str, Any] = {
        "schema": wish.schema,
        "dataset": account.dataset,
        "origins": wish.origins,
        "model": wish.model.digest,
        "name": name,
        "level": str(wish.level),
        "relation": account.relation,
    }
    if wish.top is not None:
        epsilon = EPSILON_OF_NAMES if wish.epsilon is None else wish.epsilon
        return TopFeaturesOfRow(explainer, k=wish.top, epsilon=epsilon, **common)
    width, delta = wish.model.outputs.width(1), _delta(wish, account)
    bound = width / 2 if wish.bound is None else wish.bound
    epsilon = EPSILON_OF_A_ROW if wish.epsilon is None else wish.epsilon
    if wish.noise is not None:
        sensitivity = clipped_vector(
            bound=bound,
            norm=Norm.L2,
            unit=ProtectedUnit.EXPLAINED_ROW,
            relation=account.relation,
        )
        epsilon = _epsilon(wish.noise * width, sensitivity, delta)
    return ClippedRelease(explainer, bound=bound, epsilon=epsilon, delta=delta, **common)


# --- what they share ------------------------------------------------------------------------------


def _explainer(wish: Wish) -> tuple[Any, str]:
    """Any explainer over public rows, or the learned one."""
    if wish.learned is not None:
        _features_only(wish)
        return wish.learned, _name(wish, "learned Shapley values")
    if wish.level is Level.GRANULAR:
        raise Refused("pairs of features are offered for training and background rows only")
    background = _needed(wish)
    settings: dict[str, Any] = {"groups": wish.groups, "schema": wish.schema, "speed": wish.speed}
    players = Players.of(wish.schema.feature_names, wish.groups).count
    if players <= MOST_EXACT_PLAYERS:
        return ExactShapley(wish.model, background, **settings), _name(wish, "exact Shapley values")
    return KernelShapley(wish.model, background, **settings), _name(wish, "kernel Shapley values")


def _needed(wish: Wish) -> Any:
    if wish.background is None:
        raise InvalidInput(
            "absent features take their values from background rows: hand some in, or an explainer "
            "that was trained for this model"
        )
    return wish.background


def _name(wish: Wish, words: str) -> str:
    """Tells explainers apart that differ in their public rows, groups or weights."""
    learned = None if wish.learned is None else digest_of(wish.learned.network)
    rows = None if wish.background is None else rows_digest(wish.background).hex()
    groups = {name: list(members) for name, members in (wish.groups or {}).items()}
    tag = hashlib.sha256(json.dumps([learned, rows, groups]).encode()).hexdigest()
    return f"{words} ({tag[:_SHOWN]})"


def _features_only(wish: Wish) -> None:
    if wish.level is not Level.DETAILED:
        raise Refused(f"a learned explainer knows the level detailed only, not {wish.level!s}")


def _delta(wish: Wish, account: Account) -> float:
    return SHARE_OF_DELTA * account.delta if wish.delta is None else wish.delta


def _epsilon(noise: float, sensitivity: Sensitivity, delta: float) -> float:
    """The epsilon of Gaussian noise of this standard deviation."""
    return max(1e-3, gaussian_epsilon(noise / sensitivity.value * (1 - 1e-8), delta * (1 - 1e-8)))
