"""`PrivateBackgroundShapley`: the rows that explanations are measured against are protected.

Interventional Shapley values average over background rows, so one of m rows moves them by about
π·R/m at most, however many features there are. Values and base value are released together, with
Gaussian noise at that bound. Proof: docs/guarantees/background.md.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np

from voile.attribution import Groups, Speed, is_exact
from voile.attribution.players import Players
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, RowPart
from voile.core.schema import Rows, Schema
from voile.models import Outputs
from voile.privacy.accounting.conversion import gaussian_epsilon, zcdp_to_epsilon
from voile.privacy.events import PrivacyEvent, Repeated
from voile.privacy.mechanisms import GaussianMechanism
from voile.privacy.mechanisms.noise import GRID_DISTANCE
from voile.privacy.mechanisms.parameters import MARGIN, WeakPrivacyWarning
from voile.privacy.sensitivity import (
    OutputSet,
    Sensitivity,
    sampled_shapley_background_with_base,
    shapley_background_with_base,
)
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import Accuracy, ModelRelease
from voile.release.coalition_designs import (
    NO_SAMPLING,
    PAIRS_A_PLAYER,
    BackgroundRowDesigns,
    SamplingError,
    full_stretch,
    half_width,
    sampling_error,
    standard_error,
)
from voile.release.games import BackgroundGames, Joint, background_outputs, joint
from voile.release.origin import (
    origins_identity,
    origins_v1,
    outputs_identity,
    outputs_v1,
)
from voile.release.output_sets import SAME_ANSWER, BoundedModel
from voile.release.records import Records
from voile.release.silence import MODEL_OUTPUT_UNPUBLISHED
from voile.release.synthetic import break_even

# --- What several releases with the same Gaussian noise promise together -------------------------


_LARGEST_EXACT: Final = 20.0
_STEP: Final = 1e-4
_DIGITS: Final = 5


def event_of_repeated(noise: GaussianMechanism, times: int) -> PrivacyEvent:
    """What `times` releases with this noise cost."""
    event = noise.event()
    return event if positive("times", times) == 1 else Repeated(event, times)


def epsilon_of_repeated(
    noise: GaussianMechanism, epsilon: float, delta: float, times: int
) -> float:
    """The epsilon of `times` releases at the same delta.

    Gaussian releases on the same records are one Gaussian release of a vector that moves √times as
    far, so composing them loses nothing. `epsilon` is what the noise was calibrated to. The sampler
    draws on a grid: up to an epsilon of 20 that adds at most `slack` to delta, which is taken off
    beforehand. Beyond, or where delta is too small for it, concentrated privacy is read, which
    holds on the grid as it is.
    """
    if positive("times", times) == 1:
        return epsilon
    multiplier = noise.event().noise_multiplier * (1 - 2 * MARGIN)
    values = times * math.prod(noise.shape)
    slack = values * (1 + math.exp(_LARGEST_EXACT)) * GRID_DISTANCE
    if slack < delta / 2:
        exact = gaussian_epsilon(multiplier / math.sqrt(times), delta - slack)
        if exact <= _LARGEST_EXACT:
            return exact
    return zcdp_to_epsilon(times / (2 * multiplier**2), delta)


def _rounded_down(value: float) -> float:
    scale = 10.0 ** (_DIGITS - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale) / scale


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PrivateBackgroundShapley(ModelRelease):
    """Interventional Shapley values over a private background.

    Guarantees
        1. (epsilon, delta) for each background row and each explained row; r explained rows have
           independent noise and cost `Repeated(event, r)`.
        2. Values and base value are covered together. Standard errors, half widths, names and notes
           depend on public facts alone. The background is not in the result.
        3. No background row makes `draw` raise or warn. Rows are clamped to the schema; where the
           model fails or gives no number, the centre of its output set stands.

    Exact up to 16 players; above that from drawn coalitions, unbiased. Exact values of trees are
    read off their leaves where these stay inside the declared set (`bounded_trees`).

    Args (in addition to those of `ModelRelease`):
        model: with a declared output set; rows are handed to it as the schema gives them. Of a
            binary classifier, one output: `wrap(model).only(name)`.
        background: protected records, a table or an array; their number is public. A record in
            which nothing can be read counts as the null record of "zero-out".
        schema: what is public about the records.
        protected: a row of the data set that the background is; zero-out or replace one.
        epsilon, delta: for each explained row.
        groups: features that act together as one player.
        pairs_a_player: above 16 players: how many coalitions, with their complements, are looked at
            for each background row and player. More make noise and sampling error smaller.
        seed: which coalitions; public.
        speed: batch size, short cuts (`CONSTANT_WORK`), progress; changes no value.

    >>> from voile.core.guarantee import Protected
    >>> from voile.core.schema import Feature, Numbers
    >>> from voile.models import Box, wrap
    >>> from voile.release import PUBLIC
    >>> schema = Schema("t", (Feature("age", Numbers(0, 1)), Feature("bmi", Numbers(0, 1))))
    >>> release = PrivateBackgroundShapley(
    ...     wrap(lambda x: x.mean(axis=1), outputs=Box(0, 1)), np.full((500, 2), 0.5),
    ...     schema=schema, protected=Protected("row", "blank one", "patients"),
    ...     epsilon=1.0, delta=1e-6, origins=[PUBLIC])
    >>> release.cost(3).times, release.guarantees(1)[0].epsilon
    (3, 1.0)
    >>> release.draw([[0.2, 0.9]]).shape
    (1, 2, 1)
    """

    model: Any
    background: Any = field(repr=False)
    _: KW_ONLY
    schema: Schema
    groups: Groups | None = None
    pairs_a_player: int = PAIRS_A_PLAYER
    seed: int = 0
    speed: Speed = field(default_factory=Speed)
    games: BackgroundGames = field(init=False, repr=False)
    noise: GaussianMechanism = field(init=False, repr=False)
    part: ClassVar = RowPart.BACKGROUND
    tag: ClassVar = "background-shapley"
    explains: ClassVar = "Shapley values"
    columns: ClassVar = "values and base value"
    """What the noise is on."""
    offers_leaves: ClassVar = True
    """Whether values may be read off the leaves of trees."""

    def prepare(self) -> None:
        bounded = BoundedModel.from_model(self.model, self.schema)
        records = Records.read(self.background, self.schema, "the background")
        players = Players.from_groups(self.schema.feature_names, self.groups)
        games = BackgroundGames.from_model(
            bounded,
            records,
            schema=self.schema,
            players=players,
            speed=self.speed,
            designs=self._designs(players.count, len(records)),
            from_leaves=self.offers_leaves,
        )
        object.__setattr__(self, "games", games)
        check_bounds(self.sensitivity, self.protected)
        shape = (self.released, bounded.outputs)
        noise = GaussianMechanism.calibrated(
            self.sensitivity, epsilon=self.epsilon, delta=self.delta, shape=shape
        )
        object.__setattr__(self, "noise", noise)

    def _designs(self, players: int, rows: int) -> BackgroundRowDesigns | None:
        if is_exact(players):
            return None
        pairs = positive("pairs_a_player", self.pairs_a_player) * players
        return BackgroundRowDesigns(players, rows, pairs, self.seed)

    @classmethod
    def at_noise(cls, model: Any, background: Any, *, noise: float, **settings: Any) -> Self:
        """With noise of this standard deviation; its epsilon follows. No `epsilon` is given."""
        probe = cls(model, background, epsilon=1.0, **settings)
        # The probe's sensitivity depends on public facts only, so its epsilon of 1 does not matter.
        multiplier = noise / probe.sensitivity.value
        return probe.at_epsilon(gaussian_epsilon(multiplier * (1 - 1e-8), probe.delta * (1 - 1e-8)))

    def at_epsilon(self, epsilon: float) -> Self:
        """The same at another price; model and rows are taken as they were read."""
        games = self.games
        return replace(self, model=games.bounded, background=games.records, epsilon=epsilon)

    def at_total_epsilon(self, epsilon: float, rows: int) -> Self:
        """The same where so many explained rows cost no more than `epsilon` together.

        The price of each row is rounded down to a few digits: it is part of the question that a
        stored answer is found by, and must be the same wherever it is computed.
        """
        whole = self.at_epsilon(epsilon)
        if positive("rows", rows) == 1:
            return whole
        multiplier = whole.noise.event().noise_multiplier * math.sqrt(rows)
        most, step = gaussian_epsilon(multiplier, self.delta), _STEP
        with warnings.catch_warnings():  # what is only tried promises nothing to anybody
            warnings.simplefilter("ignore", WeakPrivacyWarning)
            while True:
                found = self.at_epsilon(_rounded_down(most * (1 - step)))
                if found.noise_guarantee(rows).epsilon <= epsilon:
                    return found
                step *= 2

    # --- public facts ---------------------------------------------------------------------------

    @property
    def players(self) -> int:
        return self.games.game.players.count

    @property
    def released(self) -> int:
        """How many numbers an explained row gets for each output."""
        return self.players + 1

    @property
    def background_rows(self) -> int:
        return len(self.games.records)

    @property
    def outputs(self) -> OutputSet:
        return self.games.bounded.declared

    @property
    def sensitivity(self) -> Sensitivity:
        """Of all that is released about one explained row."""
        return self.sensitivity_of_values

    @cached_property
    def sensitivity_of_values(self) -> Sensitivity:
        """Of the values and the base value of one explained row together."""
        designs, outputs = self.games.designs, self.outputs
        facts: dict[str, Any] = {
            "features": self.players,
            "background_rows": self.background_rows,
            "output_width": outputs,
            "relation": self.protected.relation,
        }
        if designs is None:
            bound = shapley_background_with_base(**facts)
            stretch = full_stretch(self.players)
        else:
            bound = sampled_shapley_background_with_base(**facts, stretch=designs.stretch)
            stretch = designs.stretch
        # All other rows' answers may change in their last digits: the mean game moves by so much in
        # every coalition, the values by `stretch` and 2/√d times that, the base value by once.
        rounding = SAME_ANSWER * outputs.diameter * (1 + 2 / math.sqrt(self.players) + stretch)
        conditions = (*bound.conditions, *self.games.bounded.conditions)
        return replace(bound, value=bound.value + rounding, conditions=conditions)

    @cached_property
    def sampling(self) -> SamplingError:
        """Of one value, from public facts."""
        designs = self.games.designs
        if designs is None:
            return NO_SAMPLING
        return sampling_error(
            harmonic=designs.harmonic,
            players=designs.players,
            pairs=designs.pairs,
            background_rows=designs.background_rows,
            width=self.outputs.diameter,
        )

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        digest = self.games.bounded.model.digest
        return digest, f"{self.explains} over a private background", self.level

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "background": self.protected.dataset,
            "background rows": self.background_rows,
            "conditions": list(self.sensitivity_of_values.conditions),
            "delta": self.delta,
            "epsilon": self.epsilon,
            "groups": None if self.groups is None else {k: list(v) for k, v in self.groups.items()},
            "origins": origins_v1(self.origins),
            "output names": list(self.games.bounded.names),
            "outputs": outputs_v1(self.games.bounded.model.outputs),
            "pairs": None if self.games.designs is None else self.games.designs.pairs,
            "relation": self.protected.relation,
            "schema": self.schema.digest,
            "seed": self.seed,
        }

    @property
    def settings(self) -> dict[str, object]:
        bounded, designs = self.games.bounded, self.games.designs
        return {
            "background": self.protected.dataset,
            "background_rows": self.background_rows,
            "batches": bounded.batches,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "groups": None if self.groups is None else {k: list(v) for k, v in self.groups.items()},
            "origins": origins_identity(self.origins),
            "output_names": list(bounded.names),
            "outputs": outputs_identity(bounded.model.outputs),
            "pairs": None if designs is None else designs.pairs,
            "relation": str(self.protected.relation),
            "schema": self.schema.digest,
            "seed": self.seed,
        }

    # --- what it costs and promises -------------------------------------------------------------

    def cost(self, rows: int) -> PrivacyEvent:
        return event_of_repeated(self.noise, rows)

    def noise_guarantee(self, rows: int) -> Guarantee:
        epsilon = epsilon_of_repeated(self.noise, self.epsilon, self.delta, rows)
        together = "" if rows == 1 else f", {rows} explained rows by exact composition"
        return self.promise(
            epsilon=epsilon,
            mechanism=f"Gaussian noise of standard deviation {self.noise.sigma:.6g} on "
            f"{self.columns} over {self.background_rows} background rows",
            composition=f"({self.epsilon:g}, {self.delta:g}) for each explained row{together}",
            public_facts=(
                "schema",
                "model",
                "explained rows",
                f"number of background rows: {self.background_rows}",
                f"number of players: {self.players}",
            ),
            assumptions=(*self.sensitivity.conditions, MODEL_OUTPUT_UNPUBLISHED),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        words = str(self.noise.preview())
        if self.sampling != NO_SAMPLING:
            most = f"{self.sampling.deviation:.4g}"
            words += f"; sampled coalitions add a standard error of at most {most}"
        once = break_even(
            self.schema,
            rows=self.background_rows,
            relation=self.protected.relation,
            noise=self.noise,
            outputs=self.outputs,
            players=self.players,
        )
        return Accuracy(words, *self._errors, (once, *self.games.remarks))

    @cached_property
    def _errors(self) -> tuple[float, float]:
        """Standard error and half width of one value."""
        sigma = self.noise.sigma
        return standard_error(sigma, self.sampling), half_width(sigma, self.sampling)

    def _noise_for(self, rows: int) -> GaussianMechanism:
        """The same noise on several explained rows at once; sampling many values is faster."""
        # Sigma stays: r rows with independent noise are r releases, and `cost` charges all of them.
        stacked = self.sensitivity.stacked(rows)
        shape = (rows, *self.noise.shape)
        return replace(self.noise, sensitivity=stacked, shape=shape)

    # --- explaining -----------------------------------------------------------------------------

    def before_noise(self, rows: Rows) -> Joint:
        """Values and base value, for what adds noise to them."""
        return joint(self.games, rows, self._background_outputs)

    @cached_property
    def _background_outputs(self) -> Outputs:
        return background_outputs(self.games)

    def draw(self, rows: Any) -> Explanation:
        explained = self.games.read(rows)
        # Values and base value get noise together. Everything below follows from them or is public.
        noisy = self._noise_for(len(explained)).randomise(self.before_noise(explained))
        values, players = noisy[:, :-1], self.games.game.players
        deviation, width = self._errors
        return Explanation(
            values=values,
            base_values=noisy[:, -1],
            feature_names=players.names,
            output_names=self.games.bounded.names,
            data=explained if players.single else None,
            standard_errors=np.full(values.shape, deviation),
            half_widths=np.full(values.shape, width),
            guarantees=self.guarantees(len(values)),
            notes=self.notes(),
        )
