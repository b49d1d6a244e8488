"""`FederatedAggregate`: one explanation out of those of several silos, noised at the source.

The privacy guide's aggregator. Every silo draws its own release from its own rows and charges its
own account before anything leaves; averaging is post-processing. What the average promises depends
on who is where:

- a unit in one silo only: what that silo promised, so the largest over silos (parallel
  composition), not the sum that the guide states;
- a unit that several silos hold pays in each of them: the largest, over the sets of silos that may
  hold one unit, of the sum.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee
from voile.core.row_note import KnownNote
from voile.privacy.sensitivity.bound import positive
from voile.release.charged import with_earlier
from voile.release.origin import PUBLIC, Origin, distinct_texts

NORMAL: Final = 1.959964
WEIGHTED: Final = "mean over silos, weighted by their declared sizes"


@dataclass(frozen=True, eq=False)
class Silo:
    """What one party sends.

    Args:
        explanation: with its guarantee about the party's own rows first.
        size: the declared public number of its records; the weight in the mean.

    >>> plain = Explanation(values=[[0.3]], base_values=0.0, feature_names=("age",))
    >>> Silo(plain, size=500)
    Traceback (most recent call last):
    voile.core.errors.Refused: a silo's explanation carries no privacy guarantee; ...
    """

    explanation: Explanation
    size: int

    def __post_init__(self) -> None:
        positive("size", self.size)
        if not self.explanation.guarantees or self.explanation.carries(KnownNote.SEEDED_NOISE):
            raise Refused(
                "a silo's explanation carries no privacy guarantee; noise has to be added at the "
                "source, by a release, before it leaves the silo"
            )

    @property
    def own(self) -> Guarantee:
        return self.explanation.guarantees[0]


@dataclass(frozen=True, eq=False)
class SecretTotals:
    """Means over silos that were taken elsewhere, such as by a secure sum.

    Args:
        silos: whose values are in them.
        values, base_values: weighted by declared sizes.
        rounding: how far a mean is off at most for being made of integers.
        secrecy: the assumptions under which the values of single silos stayed secret; none where
            somebody saw them.
    """

    silos: tuple[str, ...]
    values: NDArray[np.float64]
    base_values: NDArray[np.float64]
    rounding: float
    secrecy: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FederatedAggregate:
    """The mean of the silos' explanations, weighted by declared public sizes.

    Args:
        silos: by name; the same features, outputs and number of rows everywhere.
        dataset: version label for all silos together.
        overlaps: each a set of names of silos that may hold the same unit; none: disjoint.
        shared: of artefacts that all silos used (such as one model trained with differential
            privacy): its guarantees are counted once; one about the silos' own data is added to
            what the mean promises.
        totals: the means of just these silos, where they were taken in secret; the silos'
            explanations then hold no values.

    >>> from voile.core.guarantee import Protected
    >>> def silo(dataset, value):
    ...     promise = Guarantee(epsilon=1.0, delta=1e-6, against=("the public",),
    ...                         protected=Protected("row", "blank one", dataset), mechanism="noise",
    ...                         computational=False, composition="one release")
    ...     return Silo(Explanation(values=[[value]], base_values=0.0, feature_names=("age",),
    ...                             guarantees=(promise,)), size=500)
    >>> both = FederatedAggregate({"north": silo("n", 0.2), "south": silo("s", 0.4)}, dataset="all")
    >>> both.guarantees[0].epsilon, float(both.explanation().values[0, 0, 0].round(6))
    (1.0, 0.3)
    """

    silos: Mapping[str, Silo]
    _: KW_ONLY
    dataset: str
    overlaps: Sequence[Collection[str]] = ()
    shared: Origin = PUBLIC
    totals: SecretTotals | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "silos", dict(self.silos))
        if not self.silos:
            raise InvalidInput("at least one silo is needed, found none")
        if self.totals is not None and set(self.totals.silos) != set(self.silos):
            raise InvalidInput("means that were taken in secret belong to other silos")
        object.__setattr__(self, "overlaps", tuple(self._known(names) for names in self.overlaps))
        self._check_alike()
        self._check_others()
        self.guarantees  # noqa: B018  # what does not add up is said now

    def _known(self, names: Collection[str]) -> frozenset[str]:
        chosen = frozenset([names] if isinstance(names, str) else names)
        unknown = sorted(chosen - set(self.silos))
        if unknown or not chosen:
            raise InvalidInput(
                f"an overlap names silos of {sorted(self.silos)}, found {sorted(chosen)}"
            )
        return chosen

    def _check_alike(self) -> None:
        first = next(iter(self.silos.values())).explanation
        for name, silo in self.silos.items():
            other = silo.explanation
            if (other.shape, other.feature_names, other.output_names) != (
                first.shape,
                first.feature_names,
                first.output_names,
            ):
                raise InvalidInput(f"the explanation of silo {name!r} has another shape or names")
        if len({silo.own.protected.in_dataset(self.dataset) for silo in self.silos.values()}) > 1:
            raise Refused(
                "the silos protect different units or relations, which do not join: "
                + "; ".join(sorted(str(silo.own.protected) for silo in self.silos.values()))
            )
        if not self._against:
            raise Refused("the silos' guarantees hold against nobody in common")

    def _check_others(self) -> None:
        """Beside its own rows, a silo may only have used what all of them shared."""
        for name, silo in self.silos.items():
            rest = [g for g in silo.explanation.guarantees[1:] if g not in self.shared.guarantees]
            if rest:
                other = rest[0].protected.dataset
                raise Refused(
                    f"silo {name!r} also promises something about {other!r}; if all silos used "
                    "that one artefact, say so: shared=trained_privately(guarantee)"
                )

    @property
    def _against(self) -> tuple[Adversary, ...]:
        common = set(Adversary).intersection(*(silo.own.against for silo in self.silos.values()))
        if common and self._secrecy:
            common.add(Adversary.SERVER_SEEING_SUMS)  # a sum shows less than a silo's values
        return tuple(adversary for adversary in Adversary if adversary in common)

    @property
    def _labels(self) -> frozenset[str]:
        """Every data set that the silos speak about."""
        return frozenset[str]().union(*(silo.own.labels for silo in self.silos.values()))

    @property
    def _held_together(self) -> tuple[frozenset[str], ...]:
        """Every set of silos that may hold one unit: single ones, overlaps, one data set twice.

        Silos that speak of one data set hold the same units: an overlap with one is an overlap with
        all. So do those of an aggregate among them, at whatever depth.
        """
        sharing = _sharing({name: silo.own.labels for name, silo in self.silos.items()})
        overlaps = (
            frozenset[str]().union(*(sharing[name] for name in names)) for names in self.overlaps
        )
        single = (frozenset({name}) for name in self.silos)
        return tuple(dict.fromkeys([*single, *sharing.values(), *overlaps]))

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """What the mean promises: the largest sum over any set of silos that may hold one unit."""
        own = {name: silo.own for name, silo in self.silos.items()}
        sums = [
            (sum(own[name].epsilon for name in names), sum(own[name].delta for name in names))
            for names in self._held_together
        ]
        epsilon, delta = max(e for e, _ in sums), max(d for _, d in sums)
        if delta >= 1:
            raise Refused(f"the silos' guarantees add up to delta = {delta:g}: nothing")
        several = [names for names in self._held_together if len(names) > 1]
        first = next(iter(own.values()))
        promise = Guarantee(
            epsilon=epsilon,
            delta=delta,
            protected=first.protected.in_dataset(self.dataset),
            against=self._against,
            computational=bool(self._secrecy) or any(g.computational for g in own.values()),
            mechanism=" and ".join(dict.fromkeys(g.mechanism for g in own.values())),
            composition=f"{len(own)} silos in parallel"
            + (", those that may hold one unit added up" if several else ""),
            public_facts=(
                *distinct_texts(g.public_facts for g in own.values()),
                "sizes of the silos",
            ),
            assumptions=(
                *distinct_texts(g.assumptions for g in own.values()),
                _who_is_where(several),
                *self._secrecy,
            ),
            parts=tuple(sorted(self._labels - {self.dataset})),
        )
        return with_earlier(promise, self._shared)

    @property
    def _shared(self) -> tuple[Guarantee, ...]:
        """What all silos used; made from the rows of one of them, it is about all together."""
        here = self._labels | {self.dataset}
        return tuple(
            replace(guarantee, protected=guarantee.protected.in_dataset(self.dataset))
            if guarantee.labels & here
            else guarantee
            for guarantee in self.shared.guarantees
        )

    def explanation(self) -> Explanation:
        """The weighted mean; base values are averaged in the same way."""
        parts = [silo.explanation for silo in self.silos.values()]
        sizes = np.array([silo.size for silo in self.silos.values()], dtype=np.float64)
        weights = sizes / sizes.sum()
        values, base = self._means(parts, weights)
        errors = _joint_errors(parts, weights)
        notes = dict.fromkeys(note for part in parts for note in part.notes)
        return replace(
            parts[0],
            values=values,
            base_values=base,
            data=None,
            standard_errors=errors,
            half_widths=NORMAL * errors if errors is not None and _normal(parts) else None,
            guarantees=self.guarantees,
            notes=(WEIGHTED, *self._in_secret, *notes),
        )

    def _means(
        self, parts: Sequence[Explanation], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.totals is not None:
            return self.totals.values, self.totals.base_values
        values, base = (
            np.tensordot(weights, np.stack(each), 1)
            for each in ([p.values for p in parts], [p.base_values for p in parts])
        )
        return values, base

    @property
    def _secrecy(self) -> tuple[str, ...]:
        return () if self.totals is None else self.totals.secrecy

    @property
    def _in_secret(self) -> tuple[str, ...]:
        if self.totals is None or not self._secrecy:
            return ()
        return (f"added up in secret; rounded by at most {self.totals.rounding:.1e}",)


def _sharing(labels: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """For each silo all that speak of a data set with it, directly or through others.

    Through others, because an aggregate no longer says which of its parts may hold one unit.
    """
    groups: dict[frozenset[str], frozenset[str]] = {}
    for name, own in labels.items():
        met = [each for each in groups if each & own]
        names = frozenset({name}).union(*(groups.pop(each) for each in met))
        groups[own.union(*met)] = names
    return {name: names for names in groups.values() for name in names}


def _joint_errors(
    parts: Sequence[Explanation], weights: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """The silos' noise is independent: variances add up."""
    errors = [part.standard_errors for part in parts if part.standard_errors is not None]
    if len(errors) < len(parts):
        return None
    return np.sqrt(np.tensordot(weights**2, np.stack(errors) ** 2, 1))


def _normal(parts: Sequence[Explanation]) -> bool:
    """Whether every silo states the half width of normal noise: their mean is normal again."""
    return all(
        part.half_widths is not None
        and part.standard_errors is not None
        and np.allclose(part.half_widths, NORMAL * part.standard_errors, rtol=1e-6)
        for part in parts
    )


def _who_is_where(several: Sequence[frozenset[str]]) -> str:
    if not several:
        return "silos are disjoint: no unit is held by two of them"
    listed = "; ".join(", ".join(sorted(names)) for names in several)
    return f"a unit is held by one silo, or by the silos of one of these sets: {listed}"
