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

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.attribution import Groups, ShapleyInteractions, Speed, is_exact, shapley_explainer
from voile.attribution.choosing import MOST_EXACT_PLAYERS
from voile.attribution.coalitions import interaction_share
from voile.attribution.exact import JOIN
from voile.core.choices import member
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Protected
from voile.core.row_note import KnownNote
from voile.core.schema import Rows, Schema
from voile.core.transparency import Level, Role, check_role
from voile.models import WrappedModel, wrap
from voile.privacy.accounting.conversion import gaussian_epsilon
from voile.privacy.sensitivity import Sensitivity, interaction_background, interaction_norm
from voile.privacy.sensitivity.bound import width_of
from voile.release.background import PrivateBackgroundShapley
from voile.release.charged import Accuracy
from voile.release.contract import ExplainerName, Release
from voile.release.feature_clusters import Clusters
from voile.release.games import answers, pair_blocks
from voile.release.origin import Origin, PostProcessed
from voile.release.output_sets import SAME_ANSWER
from voile.release.silence import silenced

# -------------------------------------------------------------------------------------------------
# `PrivateInteractions`: Shapley values, base value and all pairwise interactions, in one release.
#
# The background rows are protected, as in `PrivateBackgroundShapley`. Values and base move by at
# most Δ₁, the vector of all pairs (each once) by at most Δ₂, so everything together moves by at
# most √(Δ₁² + Δ₂²) and gets Gaussian noise at that: the composition of the two parts at equal
# noise.
#
# `voile.attribution.ShapleyInteractions` gives features what is left of their Shapley value after
# half of each interaction. No bound covers that column by itself; here a feature's column is its
# Shapley value.


NOT_ADDITIVE: Final = (
    "a feature's column is its Shapley value, a pair's its interaction index: values of features "
    "alone add up to prediction minus base, pairs are not to be added to them"
)


@dataclass(frozen=True, eq=False)
class PrivateInteractions(PrivateBackgroundShapley):
    """Values, base and pairwise interactions over a private background; one output.

    Guarantees
        1. (epsilon, delta) for each background row and each explained row, for all columns.
        2. Otherwise those of `PrivateBackgroundShapley`.

    Args: those of `PrivateBackgroundShapley`; two to 16 players.

    >>> from voile.core.schema import Feature, Numbers
    >>> from voile.models import Box
    >>> from voile.release import PUBLIC
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> release = PrivateInteractions(
    ...     wrap(lambda x: x.mean(axis=1), outputs=Box(0, 1)), np.full((500, 2), 0.5),
    ...     schema=schema, protected=Protected("row", "blank one", "patients"),
    ...     epsilon=1.0, delta=1e-6, origins=[PUBLIC])
    >>> release.draw([[0.2, 0.9]]).feature_names
    ('age', 'bmi', 'age × bmi')
    """

    level: str = field(default="granular", kw_only=True)
    tag: ClassVar = "background-interactions"
    explains: ClassVar = "Shapley values and interactions"
    columns: ClassVar = "values, base value and interactions"
    offers_leaves: ClassVar = False

    @property
    def released(self) -> int:
        return super().released + math.comb(self.players, 2)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """Of all columns and the base value together."""
        pairs, single = self.sensitivity_of_pairs, self.sensitivity_of_values
        conditions = dict.fromkeys((*single.conditions, *pairs.conditions))
        both = math.hypot(single.value, pairs.value)
        return replace(pairs, value=both, conditions=tuple(conditions))

    @cached_property
    def sensitivity_of_pairs(self) -> Sensitivity:
        """Refused where no bound is known."""
        outputs, players = self.games.bounded.outputs, self.players
        if outputs != 1 or players < 2 or not is_exact(players):
            raise Refused(
                f"interactions are bounded for one output and 2 to {MOST_EXACT_PLAYERS} players, "
                f"found {outputs} and {players}; choose an output with model.only(name), or "
                "form groups"
            )
        width = self.outputs.diameter
        bound = interaction_background(
            features=players,
            background_rows=self.background_rows,
            output_width=width,
            relation=self.protected.relation,
        )
        # All other rows' answers may change in their last digits: a game inside ± so much is added.
        beside = interaction_norm(features=players, output_width=2 * SAME_ANSWER * width)
        return replace(bound, value=bound.value + beside)

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        share = self.sensitivity_of_values.value / self.sensitivity.value
        return Accuracy.from_noise(
            self.noise.preview(),
            f"without interactions the noise would be {share:.2g} times this",
            *self.games.bounded.remarks,
        )

    def draw(self, rows: Any) -> Explanation:
        games = self.games
        explained = games.read(rows)
        joint = np.concatenate([self.before_noise(explained), self.pairs(explained)], axis=1)
        noisy = np.stack([self.noise.randomise(one) for one in joint])
        players = games.game.players
        values = np.delete(noisy, players.count, axis=1)
        shown = self.noise.preview()
        return Explanation(
            values=values,
            base_values=noisy[:, players.count],
            feature_names=(*players.names, *self._pair_names),
            output_names=games.bounded.names,
            standard_errors=np.full(values.shape, shown.standard_deviation),
            half_widths=np.full(values.shape, shown.half_width),
            guarantees=self.guarantees(len(values)),
            notes=self.notes(NOT_ADDITIVE),
        )

    @property
    def _pair_names(self) -> tuple[str, ...]:
        names = self.games.game.players.names
        left, right = np.triu_indices(len(names), 1)
        return tuple(f"{names[i]}{JOIN}{names[j]}" for i, j in zip(left, right, strict=True))

    def pairs(self, rows: Rows) -> NDArray[np.float64]:
        """The interactions of all pairs i < j, before noise, shape (rows, pairs, 1)."""
        with silenced():
            few, place = np.unique(rows, axis=0, return_inverse=True)
            left, right = np.triu_indices(self.players, 1)
            found: NDArray[np.float64] = self._paired(few)[:, left, right]
            return found[place.reshape(-1)]

    def _paired(self, rows: Rows) -> NDArray[np.float64]:
        games, players = self.games, self.players
        records, counts = games.looked_at
        weights = counts / counts.sum()
        paired = np.zeros((len(rows), players, players, 1))
        game, together = games.game, games.together
        own = answers(game, rows, together=together)
        for block in pair_blocks(game, rows, own, records.rows, together=together):
            if (size := block.active.shape[1]) < 2:
                continue
            weight = np.where(records.blank, 0.0, weights)[block.background][:, np.newaxis]
            both = interaction_share(block.worths, size, block.high) * weight
            row, active = block.row[:, np.newaxis, np.newaxis], block.active
            np.add.at(
                paired,
                (row, active[:, :, np.newaxis], active[:, np.newaxis]),
                both.transpose(2, 0, 1, 3),
            )
        # A null record's game is the centre everywhere but in the full coalition: the same for all.
        even = (own - games.bounded.centre) / (players - 1)
        blank = weights[records.blank].sum()
        whole: NDArray[np.float64] = paired + blank * even[:, np.newaxis, np.newaxis]
        return whole


# --------------------------------------------------------------------------------------------------


NOISE_SHARE: Final = 0.02
"""The default noise: its standard deviation on one value, as a share of the output's width."""
_LEAST_EPSILON: Final = 1e-3


@dataclass(frozen=True)
class PrivateBackground:
    """Background rows that are protected, and how.

    Args:
        rows: the records.
        protected: a row of their data set; zero-out or replace one.
        delta: for each explained row.
        epsilon: for each explained row; without it, what `noise_share` comes to.
        noise_share: standard deviation of the noise on one value over the width of the output.

    >>> rows = Protected("row", "blank one", "patients")
    >>> PrivateBackground(np.full((500, 2), 0.5), protected=rows, delta=1e-6).noise_share
    0.02
    """

    rows: Any = field(repr=False)
    _: KW_ONLY
    protected: Protected
    delta: float
    epsilon: float | None = None
    noise_share: float = NOISE_SHARE


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
    """The release of a level, for a role. Refuses a level to a role that is too low for it.

    Args:
        level: how much detail.
        role: who asks.
        model: what is explained; with a declared output set if the background is private.
        background: public rows, or a `PrivateBackground`.
        schema: public; its semantic categories are the players of the summary.
        origins: of the model, and of public rows that were made privately.
        clusters: for the aggregate level, public or paid for; their origin is added to `origins`.
        speed: changes no value.

    >>> from voile.core.schema import Feature, Numbers
    >>> from voile.release import PUBLIC
    >>> schema = Schema("t", (Feature("height", Numbers(0, 1), semantic="body"),
    ...                       Feature("weight", Numbers(0, 1), semantic="body")))
    >>> release = at_level(Level.SUMMARY, role=Role.READER, model=lambda x: x.sum(axis=1),
    ...                    background=[[0.0, 0.0]], schema=schema, origins=[PUBLIC])
    >>> release.draw([[1.0, 1.0]]).feature_names
    ('body',)
    """
    level = member(Level, level)
    check_role(level, member(Role, role))
    groups = groups_at(level, schema, clusters)
    used = clusters if level is Level.AGGREGATE else None
    everything = [*origins, *([] if used is None else [used.origin])]
    build = _private if isinstance(background, PrivateBackground) else _public
    return build(level, model, background, schema, everything, groups, speed or Speed())


def groups_at(level: Level, schema: Schema, clusters: Clusters | None = None) -> Groups | None:
    """Who plays at a level; None where every feature plays for itself.

    Refuses clusters that protected rows chose and that were not paid for.
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
    labelled "sum of attributions": the groups would get other values as players.

    >>> from voile.core.schema import Feature, Numbers
    >>> schema = Schema("t", (Feature("height", Numbers(0, 1), semantic="body"),
    ...                       Feature("weight", Numbers(0, 1), semantic="body")))
    >>> detailed = Explanation(values=[[0.3, -0.1]], base_values=0.0,
    ...                        feature_names=schema.feature_names, notes=(KnownNote.ALL_PUBLIC,))
    >>> derived(detailed, Level.SUMMARY, role=Role.READER, schema=schema).feature_names
    ('body',)
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
