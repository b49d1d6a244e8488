"""Transparency levels: how much detail, for whom, at which price.

After the multi-level transparency of the recommender framework (section 3.3 there):

    summary     the schema's semantic categories are the players
    aggregate   clusters of features are the players, five of them
    detailed    every feature is a player
    granular    every feature, and every pair of features

At each level the players play their own game; adding up attributions of a finer level gives another
quantity (`derived`), labelled so. The published epsilons (0.02 to 0.2) say nothing about how much
noise they mean: here a level states a *noise level* and epsilon follows. The published table names
degrees of user control and no roles; `Role` is a ladder of four, one for each level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

import numpy as np

from voile.attribution import Groups, ShapleyInteractions, Speed, shapley_explainer
from voile.core.choices import member
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Protected
from voile.core.row_note import KnownNote
from voile.core.schema import Schema
from voile.core.transparency import NEEDED, Level, Role, check_role
from voile.models import WrappedModel, wrap
from voile.privacy.accounting.conversion import gaussian_epsilon
from voile.privacy.sensitivity import Sensitivity
from voile.privacy.sensitivity.bound import width_of
from voile.release.background import PrivateBackgroundShapley
from voile.release.contract import ExplainerName, Release
from voile.release.feature_clusters import Clusters
from voile.release.granular import PrivateInteractions
from voile.release.origin import Origin
from voile.release.post_processed import PostProcessed

NOISE_SHARE: Final = 0.02
"""The default noise: its standard deviation on one value, as a share of the output's width."""
_LEAST_EPSILON: Final = 1e-3


@dataclass(frozen=True)
class PrivateBackground:
    """Background rows that are protected, and how.

    Args:
        rows: the records.
        protected: a row of their data set; blank one or replace one.
        delta: for each explained row.
        epsilon: for each explained row; without it, what `noise_share` comes to.
        noise_share: standard deviation of the noise on one value over the width of the output.
    """

    rows: Any = field(repr=False)
    _: KW_ONLY
    protected: Protected
    delta: float
    epsilon: float | None = None
    noise_share: float = NOISE_SHARE


@dataclass(frozen=True)
class Stated:
    """What a level states before anything is spent.

    Args:
        level: how much detail.
        role: the lowest that may have it.
        protected: whose record, in which data set.
        players: how many play.
        sensitivity: of everything that is released about one explained row.
        epsilon: for each explained row.
    """

    level: Level
    role: Role
    protected: Protected
    players: int
    sensitivity: Sensitivity
    epsilon: float


def at_level(
    level: Level,
    *,
    role: Role,
    model: Any,
    background: Any,
    schema: Schema,
    origins: Sequence[Origin],
    clusters: Clusters | None = None,
    speed: Speed | None = None,
) -> Release[Explanation]:
    """The release of a level, for a role.

    Args:
        level: how much detail.
        role: who asks.
        model: what is explained; with a declared output set if the background is private.
        background: public rows, or a `PrivateBackground`.
        schema: public; its semantic categories are the players of the summary.
        origins: of the model, and of public rows that were made privately.
        clusters: for the aggregate level, public or paid for; their origin is added to `origins`.
        speed: changes no value.
    """
    level = member(Level, level)
    check_role(level, member(Role, role))
    groups = groups_at(level, schema, clusters)
    used = clusters if level is Level.AGGREGATE else None
    everything = [*origins, *([] if used is None else [used.origin])]
    build = _private if isinstance(background, PrivateBackground) else _public
    return build(level, model, background, schema, everything, groups, speed or Speed())


def stated(release: PrivateBackgroundShapley) -> Stated:
    """What a release that `at_level` made over a private background states."""
    level = member(Level, release.level)
    return Stated(
        level=level,
        role=NEEDED[level],
        protected=release.protected,
        players=release.players,
        sensitivity=release.sensitivity,
        epsilon=release.epsilon,
    )


def groups_at(level: Level, schema: Schema, clusters: Clusters | None = None) -> Groups | None:
    """Who plays at a level; None where every feature plays for itself.

    Refused: clusters that protected rows chose and nobody paid for.
    """
    level = member(Level, level)
    if level is Level.SUMMARY:
        return schema.semantic_groups()
    if level is Level.AGGREGATE:
        if clusters is None:
            raise InvalidInput(
                "the aggregate level needs clusters of features: public_clusters(rows), "
                "declared_clusters(groups) or, charged to an account, paid_clusters(...)"
            )
        clusters.check_paid()
        return clusters.groups
    return None


def derived(
    explanation: Explanation,
    level: Level,
    *,
    role: Role,
    schema: Schema,
    clusters: Clusters | None = None,
) -> Explanation:
    """A coarser view of a detailed explanation that was released, for free.

    Adding up with signs over groups that no protected data chose is post-processing. The result is
    labelled "sum of attributions": it is not what the groups would get as players.
    """
    level = member(Level, level)
    check_role(level, member(Role, role))
    if level not in (Level.SUMMARY, Level.AGGREGATE):
        raise Refused(
            f"only summary and aggregate can be derived, not {level!s}: ask for a release"
        )
    if not explanation.guarantees and not explanation.carries(KnownNote.ALL_PUBLIC):
        raise Refused("only a released explanation can be passed on; this one has no guarantee")
    if any(map(explanation.carries, (KnownNote.NAMES_ONLY, KnownNote.SUMMED))):
        raise Refused("names and sums are not attributions of features: they cannot be added up")
    if explanation.feature_names != schema.feature_names:
        raise Refused("sums are formed of every feature of the schema, at the detailed level")
    if level is Level.AGGREGATE and clusters is not None and clusters.event is not None:
        raise Refused(
            "these clusters were chosen by protected data: ask for a release of the aggregate "
            "level, which carries their guarantee"
        )
    groups = groups_at(level, schema, clusters)
    return explanation.group(groups or {})


def _public(
    level: Level,
    model: Any,
    background: Any,
    schema: Schema,
    origins: Sequence[Origin],
    groups: Groups | None,
    speed: Speed,
) -> Release[Explanation]:
    wrapped = model if isinstance(model, WrappedModel) else wrap(model)
    kind: Any = ShapleyInteractions if level is Level.GRANULAR else shapley_explainer
    explainer = kind(wrapped, background, groups=groups, schema=schema, speed=speed)
    rows = len(explainer.game.background)
    name = ExplainerName(f"{explainer.title} over {rows} background rows", explainer.tag)
    return PostProcessed(explainer, origins, wrapped.digest, name, str(level))


def _private(
    level: Level,
    model: Any,
    background: PrivateBackground,
    schema: Schema,
    origins: Sequence[Origin],
    groups: Groups | None,
    speed: Speed,
) -> Release[Explanation]:
    kind = PrivateInteractions if level is Level.GRANULAR else PrivateBackgroundShapley
    release = kind(
        model,
        background.rows,
        schema=schema,
        protected=background.protected,
        epsilon=1.0 if background.epsilon is None else background.epsilon,
        delta=background.delta,
        origins=origins,
        groups=groups,
        level=str(level),
        speed=speed,
    )
    if background.epsilon is not None:
        return release
    return release.at_epsilon(epsilon_for(release, background.noise_share, background.delta))


def epsilon_for(release: PrivateBackgroundShapley, noise_share: float, delta: float) -> float:
    """The epsilon whose noise has this standard deviation, as a share of the output's width."""
    noise = width_of("noise_share", noise_share) * release.outputs.diameter
    found = gaussian_epsilon(noise / release.sensitivity.value, delta)
    return float(np.maximum(found, _LEAST_EPSILON))
