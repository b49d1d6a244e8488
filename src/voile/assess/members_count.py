"""How many members a model gives away, as a release like any other: with noise, and charged.

A record scores minus the loss of the private model at it: models know by heart what they were
trained on. A threshold is fixed on rows that nobody protects, then members above it are counted.

Guarantees
    1. A score is computed from its record alone and from a model that was charged to the same
       account; so one record moves the count by at most one, under every relation.
    2. A record in which nothing, or no label, can be read is not counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from voile.core.atomic_file import replace_file
from voile.core.errors import Refused
from voile.core.guarantee import Guarantee, Relation, RowPart
from voile.core.input_file import damaged
from voile.evaluation import measures
from voile.pipelines.tables import NetworkModel, TableRecords
from voile.privacy.events import PureDp
from voile.privacy.mechanisms import DiscreteLaplace
from voile.privacy.sensitivity import count
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import STORED, Accuracy, ModelRelease, OneTimeArtefact
from voile.release.contract import Codec, ReleaseIdentity
from voile.release.origin import origins_v1
from voile.release.silence import silenced
from voile.training import TargetLoss

# --- What an attack has found, and about whom: provenance is a type -------------------------------
# A finding on members of a protected data set is data about them: it is a class of its own, which
# prints nothing, has no way into a report, a log or a program's output, and is written to one
# folder only.


NOT_FOR_RELEASE: Final = "evaluation-not-for-release"


@dataclass(frozen=True)
class MembersFinding:
    """What an attack has found about members of a protected data set.

    Args:
        attack: what was attempted.
        dataset: whose members.
        figures: never printed, logged or shown; see `write`.
    """

    attack: str
    dataset: str
    figures: Mapping[str, float] = field(repr=False)

    @staticmethod
    def check_place(run: Path) -> Path:
        """Where it is written; refused if that is no folder of its own, or leads elsewhere."""
        folder = run / NOT_FOR_RELEASE
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise Refused(
                f"{folder}: findings on members go into this folder and nowhere else, and it is a "
                "link or a file; move it away"
            )
        return folder

    def write(self, run: Path) -> Path:
        """To the folder of what must not be released, inside the folder of a run; for its owner."""
        folder = self.check_place(run)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = {"attack": self.attack, "dataset": self.dataset, "figures": dict(self.figures)}
        path = folder / f"{self.attack.replace(' ', '-')}.json"
        return replace_file(path, (json.dumps(content, indent=2) + "\n").encode(), mode=0o600)

    def __reduce__(self) -> Any:
        raise TypeError("a finding on members is written with `write`, and in no other way")


# --- Was a row used in training? By losses -------------------------------------------------------


Floats: TypeAlias = NDArray[np.float64]


def losses(model: NetworkModel, records: TableRecords) -> Floats:
    """Of each record with a label."""
    known = records.only(~np.isnan(records.labels))
    loss = TargetLoss(model.output_head.head)
    found = loss.values(model.network(known.columns), (known.columns, known.targets))
    return np.asarray(found, dtype=np.float64)


def area_under_curve(members: Floats, others: Floats) -> float:
    """The chance that a member's score lies above somebody else's; equal ones count one half."""
    both = np.concatenate([members, others])[:, np.newaxis]
    return measures.area_under_curve(both, np.repeat([0, 1], [len(members), len(others)]))


def advantage_of(members: Floats, others: Floats) -> dict[str, float]:
    """Area under the curve, and the largest gap between true and false positive rates."""
    cuts = np.unique(np.concatenate([members, others]))
    true = 1 - np.searchsorted(np.sort(members), cuts) / len(members)
    false = 1 - np.searchsorted(np.sort(others), cuts) / len(others)
    return {
        "area_under_curve": area_under_curve(members, others),
        "largest_gap": float(np.max(true - false)),
    }


# --------------------------------------------------------------------------------------------------


_GRID: Final = 0.5
"""Steps between two thresholds, in powers of two of the loss."""
_LOSSES: Final = (-20, 6)
"""Powers of two between which thresholds lie."""
SHARE_ABOVE: Final = 0.05
"""Of rows that nobody protects. Where a model remembers nothing, as many members lie above."""
_OPEN: Final = "the rows that the threshold was fixed on are nobody's protected rows"


def count_noise(epsilon: float, relation: Relation) -> DiscreteLaplace:
    """Of a count that costs at most epsilon."""
    bound = count(relation=relation)
    return DiscreteLaplace(scale=bound.value / epsilon * (1 + 1e-9), sensitivity=bound, shape=())


def count_event(epsilon: float, relation: Relation) -> PureDp:
    """What the count costs: this is what an account reserves and is charged with."""
    return count_noise(epsilon, relation).event()


@dataclass(frozen=True)
class OpenThreshold:
    """Fixed on rows that nobody protects.

    That nobody protects them is what the party says. So a threshold is taken from a coarse grid,
    the same for everybody: an exact one would be the score of a single row.

    Args:
        value: a score above it speaks for a member.
        above: the share of these rows that lie above, in percent rounded up.
        rows: how many there were.
        exact: as earlier versions published it; only keyed digests are made of it.
    """

    value: float
    above: float
    rows: int
    exact: OpenThreshold | None = field(default=None, compare=False, repr=False)

    @classmethod
    def on(cls, model: NetworkModel, others: TableRecords, share: float = SHARE_ABOVE) -> Self:
        """So that at most this share of unprotected rows lies above."""
        scores = -losses(model, others.readable())
        if len(scores) < 1 / share:
            raise Refused(
                f"a threshold that {share:.0%} of unprotected rows exceed needs at least "
                f"{math.ceil(1 / share)} of them with labels, found {len(scores)}"
            )
        value = float(np.quantile(scores, 1 - share, method="higher"))
        exact = cls(value, float(np.mean(scores > value)), len(scores))
        value = _on_grid(value)
        percent = math.ceil(100 * np.count_nonzero(scores > value) / len(scores))
        return cls(value, percent / 100, len(scores), exact)

    def to_dict(self) -> dict[str, Any]:
        """What is published of it."""
        return {"value": self.value, "above": self.above, "rows": self.rows}

    @classmethod
    def from_dict(cls, said: dict[str, Any]) -> Self:
        return cls(float(said["value"]), float(said["above"]), int(said["rows"]))


def _on_grid(score: float) -> float:
    """The next score of the grid that is not below, so that no more rows lie above."""
    least, most = _LOSSES
    if not score < -(2.0**least):
        return 0.0
    power = _GRID * math.floor(math.log2(min(-score, 2.0**most)) / _GRID)
    return -math.pow(2.0, power)


@dataclass(frozen=True, kw_only=True)
class MembersCount(OneTimeArtefact):
    """How many members lie above the threshold, with noise.

    Args: besides those of `OneTimeArtefact`:
        count: with noise, so it may lie below zero or above the number of members.
        members: how many there are; public.
        within: 95 % of the noise.
        guarantees: of the count and the model together first, then what else the model promises.
    """

    count: int
    members: int
    within: float
    threshold: OpenThreshold
    guarantees: tuple[Guarantee, ...]
    what: ClassVar = "figures"
    paid_with: ClassVar = "app.assess.MembersCounting"

    def __str__(self) -> str:
        share, within = self.count / self.members, self.within / self.members
        return (
            f"members above the threshold: {self.count:,} ± {self.within:g} of {self.members:,} "
            f"({share:.1%} ± {within:.1%}, 95 % of the noise); of {self.threshold.rows:,} rows "
            f"that nobody protects: {self.threshold.above:.1%}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for programs."""
        return {
            "count": self.count,
            "members": self.members,
            "within": self.within,
            "threshold": self.threshold.to_dict(),
            "guarantees": [guarantee.to_dict() for guarantee in self.guarantees],
        }

    def to_bytes(self) -> bytes:
        """As it is kept, and as the log commits to it."""
        return (json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True, eq=False, kw_only=True)
class PrivateMembersCount(ModelRelease):
    """The release; `draw` takes no rows, and gives a `MembersCount`.

    Args: besides those of `ModelRelease`:
        model: what is attacked, which `origins` are of.
        members: rows that it was trained on; protected, and public in number.
        threshold: fixed on other rows.
    """

    model: NetworkModel
    members: TableRecords = field(repr=False)
    threshold: OpenThreshold
    part: ClassVar = RowPart.POPULATION
    tag: ClassVar = "members-count"
    name: ClassVar = "count of members above a threshold"
    _noise: DiscreteLaplace = field(init=False, repr=False)

    def prepare(self) -> None:
        if self.protected.relation is Relation.ADD_OR_REMOVE_ONE:
            raise Refused("the number of members is private here, and a share of them is released")
        object.__setattr__(self, "_noise", count_noise(self.epsilon, self.protected.relation))
        check_bounds(self._noise.sensitivity, self.protected)
        positive("members", len(self.members))

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.model.digest, self.name, self.level

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "epsilon": self.epsilon,
            "members": len(self.members),
            "origins": origins_v1(self.origins),
            "value": self.threshold.value,
            "above": self.threshold.above,
            "rows": self.threshold.rows,
        }

    @property
    def identity(self) -> ReleaseIdentity:
        """Also found is what was asked when thresholds were exact: the plan has one count only."""
        found, exact = super().identity, self.threshold.exact
        if exact is None:
            return found
        before = replace(self, threshold=exact).identity
        spellings = (*found.earlier, replace(before, earlier=()), *before.earlier)
        return replace(found, earlier=spellings)

    def cost(self, rows: int) -> PureDp:
        positive("rows", rows)
        return self._noise.event()

    def noise_guarantee(self, rows: int) -> Guarantee:
        return self.promise(
            epsilon=self.cost(rows).epsilon,
            mechanism=f"discrete Laplace noise of scale {self._noise.scale:.6g} on a count",
            composition="one release",
            public_facts=("schema", f"number of members: {len(self.members)}", "the threshold"),
            assumptions=(
                *self._noise.sensitivity.conditions,
                _OPEN,
                "running time is not observed",
            ),
        )

    def accuracy(self, rows: int) -> Accuracy:  # noqa: ARG002
        return Accuracy.from_noise(self._noise.preview(), "the value is a number of members")

    def draw(self, rows: Any = None) -> MembersCount:  # noqa: ARG002
        return self._made(int(self._noise.randomise(np.array(self._above))), self.threshold)

    @cached_property
    def _above(self) -> int:
        """Exactly; it leaves with noise only."""
        return int(np.count_nonzero(self._scores() > self.threshold.value))

    def _scores(self) -> Floats:
        """Each record by itself: in a batch, its place would decide how a score is rounded."""
        alone = (self.members.only(np.array([place])) for place in range(len(self.members)))
        with silenced():
            return np.array([_score(self.model, record) for record in alone])

    def _made(self, noisy: int, threshold: OpenThreshold) -> MembersCount:
        return MembersCount(
            count=noisy,
            members=len(self.members),
            within=self._noise.preview().half_width,
            threshold=threshold,
            guarantees=self.guarantees(1),
            event=self.cost(1),
        )

    @property
    def codec(self) -> Codec[MembersCount]:
        """A text that says all of it: what a receipt proves is what people read."""
        return Codec(MembersCount.to_bytes, self._unpack)

    def _unpack(self, content: bytes) -> MembersCount:
        with damaged(STORED):
            said = json.loads(content)
            return self._made(int(said["count"]), OpenThreshold.from_dict(said["threshold"]))


def _score(model: NetworkModel, record: TableRecords) -> float:
    """Of one record; where nothing can be read, one that lies above no threshold."""
    found = losses(model, record.readable())
    return -float(found[0]) if len(found) else -math.inf
