"""What an artefact was made from: the difference between a guarantee and a wish.

Noise on explanations protects background rows, populations and explained rows. It cannot protect
the rows a model was trained on: those are protected by training with differential privacy, or not
at all. So every release asks where the model, surrogate, explainer or background came from.

Identities hold what is known about that. What version 1 wrote into them must never change, whatever
classes are called now: stored answers are found by digests of it (`ReleaseIdentity`).

Differential privacy is closed under post-processing. If the model, the surrogate, the explainer and
the background are each public or were made with differential privacy, then explaining any number of
rows, exactly, by sampling or with a network, reveals no more about the training rows than the
artefacts did, and carries their joint guarantee: `PostProcessed`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, TypeAlias

from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, RowPart
from voile.core.row_note import KnownNote
from voile.models.outputs import Box, DeclaredOutputs, Simplex
from voile.release.contract import (
    EXPLANATIONS,
    ExplainerName,
    Preview,
    ReleaseIdentity,
    parameters,
)

_ALTERNATIVES: Final = (
    "train it with differential privacy, explain a surrogate that was, or use rows that had no "
    "part in training"
)


@dataclass(frozen=True)
class Origin:
    """Where an artefact comes from.

    Artefacts that were made together and carry one joint guarantee have one origin, which is given
    once. Origins that are given separately are added up.

    Args:
        datasets: version labels of all private data sets it depends on; none if it is public.
        guarantees: what differential privacy promises about them, at most one for each.

    >>> Origin(frozenset({"patients 2026"})).unprotected
    frozenset({'patients 2026'})
    """

    datasets: frozenset[str] = frozenset()
    guarantees: tuple[Guarantee, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.datasets, str):
            raise InvalidInput("datasets is a set of labels, found one text")
        object.__setattr__(self, "datasets", frozenset(self.datasets))
        object.__setattr__(self, "guarantees", tuple(self.guarantees))
        labels = [guarantee.protected.dataset for guarantee in self.guarantees]
        if len(set(labels)) < len(labels):
            raise InvalidInput(
                f"an origin has one joint guarantee for a data set, found several: {labels}; "
                "compose them first"
            )
        if not set(labels) <= self.datasets:
            raise InvalidInput(
                f"guarantees are about {sorted(labels)}, but the artefact depends on "
                f"{sorted(self.datasets)}"
            )

    @property
    def unprotected(self) -> frozenset[str]:
        """Data sets that it depends on without a guarantee."""
        return self.datasets - {guarantee.protected.dataset for guarantee in self.guarantees}


PUBLIC: Final = Origin()
"""Made from public data only."""


def trained_on(*datasets: str) -> Origin:
    """Made from private data, without differential privacy.

    Releases refuse to protect these rows: noise on an explanation cannot hide what a model learned.

    >>> joint_guarantees([trained_on("patients 2026")])
    Traceback (most recent call last):
    voile.core.errors.Refused: nothing can be promised about ['patients 2026']: ...
    """
    return Origin(frozenset(datasets))


def trained_privately(*guarantees: Guarantee) -> Origin:
    """Made from private data, each set covered by a guarantee; at least one is needed.

    An artefact without a guarantee (seeded noise, training without noise) is refused: that does not
    make it public.

    >>> from voile.core.guarantee import Protected
    >>> promise = Guarantee(epsilon=1.0, delta=1e-6, against=("the public",), computational=False,
    ...                     protected=Protected("row", "blank one", "patients 2026"),
    ...                     mechanism="DP-SGD", composition="one training run")
    >>> trained_privately(promise).unprotected
    frozenset()
    """
    if not guarantees:
        raise InvalidInput(
            "something trained privately carries a guarantee, found none; say PUBLIC or "
            "trained_on(label)"
        )
    datasets = frozenset(guarantee.protected.dataset for guarantee in guarantees)
    return Origin(datasets, tuple(guarantees))


def stated(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """Origins as they were given; refused if none was: "public" has to be stated."""
    given = tuple(origins)
    if not given or not all(isinstance(origin, Origin) for origin in given):
        raise InvalidInput(
            "say what every artefact was made from: origins=[PUBLIC], trained_on(label) or "
            f"trained_privately(guarantee), at least one; found {list(given)}"
        )
    return given


def refuse_unprotected(dataset: str, origins: Iterable[Origin], *, role: str) -> None:
    """Refuse protected rows that an artefact was made from without differential privacy.

    Args:
        dataset: the label of the rows that a release wants to protect.
        origins: of everything that it computes with.
        role: what the rows are to the release, for the message.
    """
    if any(dataset in origin.unprotected for origin in origins):
        raise Refused(
            f"the {role} is {dataset!r}, on which an artefact was trained without differential "
            f"privacy: noise on explanations cannot hide what it learned; {_ALTERNATIVES}"
        )


def joint_guarantees(origins: Sequence[Origin]) -> tuple[Guarantee, ...]:
    """What is promised about everything that was computed from these artefacts, and no more.

    Guarantees of separate origins about one data set, or about one and a part of it, are added up
    (basic composition); those of one origin are joint already. Refused if anything is not covered.
    """
    uncovered = frozenset[str]().union(*(origin.unprotected for origin in origins))
    if uncovered:
        raise Refused(
            f"nothing can be promised about {sorted(uncovered)}: an artefact was trained on it "
            f"without differential privacy; {_ALTERNATIVES}"
        )
    return together([guarantee for origin in origins for guarantee in origin.guarantees])


def together(guarantees: Sequence[Guarantee]) -> tuple[Guarantee, ...]:
    """For each data set what all of them say about its records, those of its parts included."""
    datasets = dict.fromkeys(guarantee.protected.dataset for guarantee in guarantees)
    return tuple(added_up(_about(dataset, guarantees)) for dataset in datasets)


def _about(dataset: str, guarantees: Sequence[Guarantee]) -> list[Guarantee]:
    """Those about the data set first, then those that share a part with it."""
    own = [guarantee for guarantee in guarantees if guarantee.protected.dataset == dataset]
    labels = frozenset[str]().union(*(guarantee.labels for guarantee in own))
    others = (guarantee for guarantee in guarantees if guarantee.protected.dataset != dataset)
    return own + [guarantee for guarantee in others if guarantee.labels & labels]


def added_up(parts: Sequence[Guarantee]) -> Guarantee:
    """One statement about the first one's data set, by basic composition."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    dataset = first.protected.dataset
    about = repr(dataset)
    if any(part.protected.in_dataset(dataset) != first.protected for part in parts):
        raise Refused(
            f"guarantees about {about} speak of different units or relations and do not add up: "
            + "; ".join(str(part.protected) for part in parts)
        )
    common = set(first.against).intersection(*(part.against for part in parts))
    against = tuple(adversary for adversary in Adversary if adversary in common)
    if not against:
        raise Refused(f"guarantees about {about} hold against nobody in common")
    delta = sum(part.delta for part in parts)
    if delta >= 1:
        raise Refused(f"guarantees about {about} add up to delta = {delta:g}: nothing")
    return Guarantee(
        epsilon=sum(part.epsilon for part in parts),
        delta=delta,
        protected=first.protected,
        against=against,
        computational=any(part.computational for part in parts),
        mechanism=" and ".join(dict.fromkeys(part.mechanism for part in parts)),
        composition="basic composition: " + " + ".join(part.composition for part in parts),
        public_facts=distinct_texts(part.public_facts for part in parts),
        assumptions=distinct_texts(part.assumptions for part in parts),
        parts=distinct_texts(part.parts for part in parts if part.protected.dataset == dataset),
        records_per_person=_agreed_maximum(parts),
    )


def _agreed_maximum(parts: Sequence[Guarantee]) -> int | None:
    """Of one data set, as all declare it; of several, a person may have records in each."""
    stated = {(part.protected.dataset, part.records_per_person) for part in parts}
    return parts[0].records_per_person if len(stated) == 1 else None


def distinct_texts(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for several in texts for text in several))


# --- How values are spelled inside identities: as tags and figures, and as version 1 did ----------


_WORDS: Final = frozenset({"mechanism", "composition", "public_facts", "assumptions"})
"""What a guarantee says in sentences."""


def outputs_identity(outputs: DeclaredOutputs) -> dict[str, object]:
    """A declared output set: its tag and its bounds."""
    match outputs:
        case Box(lower, upper):
            return {"set": "box", "lower": lower, "upper": upper}
        case Simplex():
            return {"set": "simplex"}
    raise TypeError(f"{outputs!r} has no tag: name it in voile.release.origin")


def outputs_v1(outputs: DeclaredOutputs) -> str:
    """The same as version 1 spelled it."""
    match outputs:
        case Box(lower, upper):
            return f"Box(lower={lower!r}, upper={upper!r})"
        case Simplex():
            return "Simplex()"
    raise TypeError(f"{outputs!r} did not exist in version 1")


def origins_identity(origins: Iterable[Origin]) -> str:
    """A digest of what origins promise and leave open.

    Two releases that differ in what is known about their artefacts are two questions: the answer to
    the one must not be given again, with its guarantees, as an answer to the other. What a
    guarantee says in words (mechanism, assumptions) does not count: its figures do.
    """
    return _digest(origins, _promise)


def origins_v1(origins: Iterable[Origin]) -> str:
    """The same as version 1 spelled it: guarantees with all their words."""
    return _digest(origins, Guarantee.to_dict)


def _promise(guarantee: Guarantee) -> dict[str, Any]:
    return {name: each for name, each in guarantee.to_dict().items() if name not in _WORDS}


def _digest(origins: Iterable[Origin], told: Callable[[Guarantee], dict[str, Any]]) -> str:
    said = sorted(
        parameters(
            {
                "guarantees": sorted(parameters(told(each)) for each in origin.guarantees),
                "unprotected": sorted(origin.unprotected),
            }
        )
        for origin in origins
        if origin.datasets
    )
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:32]


# --- What is computed from private artefacts alone costs nothing ----------------------------------


Explainer: TypeAlias = Callable[[Any], Explanation]
"""Any explainer of `voile.attribution`: rows in, an explanation without guarantee out."""


@dataclass(frozen=True, eq=False)
class PostProcessed:
    """Explanations that carry forward what training promised: zero cost, unlimited.

    Args:
        explainer: how to explain; everything it holds must be covered by `origins`.
        origins: of model, surrogate, explainer network and background. Artefacts of one training
            run with a joint guarantee share one origin, given once.
        model: digest of what is explained, for the record.
        name: of the explainer, for the record.

    >>> from voile.attribution import ExactShapley
    >>> from voile.release import PUBLIC
    >>> explainer = ExactShapley(lambda x: x.sum(axis=1), [[0.0, 0.0]], feature_names=("a", "b"))
    >>> release = PostProcessed(explainer, [PUBLIC], model="sha256:ab12", name="exact")
    >>> release.cost(1_000_000), release.draw([[3.0, 2.0]]).values.ravel().tolist()
    (None, [3.0, 2.0])
    """

    explainer: Explainer
    origins: Sequence[Origin]
    model: str
    name: str | ExplainerName
    level: str = "detailed"
    _promised: tuple[Guarantee, ...] = field(init=False, repr=False)
    part: ClassVar = RowPart.TRAINING
    codec: ClassVar = EXPLANATIONS

    def __post_init__(self) -> None:
        object.__setattr__(self, "origins", stated(self.origins))
        object.__setattr__(self, "_promised", joint_guarantees(self.origins))

    @property
    def title(self) -> str:
        return f"post-processed {ExplainerName.read(self.name).words}"

    @property
    def identity(self) -> ReleaseIdentity:
        """There are no earlier spellings: what costs nothing is computed anew each time."""
        settings = {
            "explainer": ExplainerName.read(self.name).tag,
            "origins": origins_identity(self.origins),
        }
        return ReleaseIdentity(self.model, "post-processed/2", self.level, parameters(settings))

    def cost(self, rows: int) -> None:  # noqa: ARG002
        return None

    def guarantees(self, rows: int) -> tuple[Guarantee, ...]:  # noqa: ARG002
        return self._promised

    def preview(self, rows: int = 1) -> Preview:
        return Preview(
            event=None,
            guarantees=self.guarantees(rows),
            accuracy="no noise is added: all of it is in the artefacts",
        )

    def draw(self, rows: Any) -> Explanation:
        explained = self.explainer(rows)
        public = () if self._promised else (KnownNote.ALL_PUBLIC,)
        notes = (*explained.notes, *public, KnownNote.NOT_CHARGED)
        return replace(explained, guarantees=self._promised, notes=notes)
