"""What all releases that cost privacy budget have in common stands here, once.

`ChargedRelease` holds what every one of them is told and puts together identity, guarantees,
preview and notes; `ModelRelease` adds what the model and all else that it computes with was made
from; `ExplainerRelease` takes protected rows through any explainer. A release is left with its own
argument: a bound, noise, and what it draws.

Some releases make an artefact from protected records, once, to be used for ever
(`ArtefactRelease`). What is made (`OneTimeArtefact`) states what was promised and names its charge;
nothing takes it before. Nothing is paid for by say-so: only what a ledger keeps under a charge has
one (`paid_artefact`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar

from voile.core.errors import Refused
from voile.core.guarantee import Adversary, Guarantee, Protected, Relation, RowPart
from voile.core.row_note import KnownNote, Note
from voile.core.schema import Schema
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms.parameters import NoisePreview
from voile.privacy.sensitivity.bound import positive
from voile.release.contract import (
    EXPLANATIONS,
    Codec,
    ExplainerName,
    Preview,
    Release,
    ReleaseIdentity,
    parameters,
)
from voile.release.origin import (
    Explainer,
    Origin,
    joint_guarantees,
    origins_identity,
    refuse_unprotected,
    stated,
    together,
    trained_privately,
)
from voile.release.records import PerRow, Records

# --- What a release of some data says about other data that its artefacts were made from ---------


def carried_forward(origins: Sequence[Origin]) -> tuple[Guarantee, ...]:
    """What training promised, as it is: a release of other rows takes nothing from it."""
    covered = [trained_privately(*origin.guarantees) for origin in origins if origin.guarantees]
    return joint_guarantees(covered)


def with_earlier(charged: Guarantee, earlier: Sequence[Guarantee]) -> tuple[Guarantee, ...]:
    """`charged`, with those of `earlier` that are about its records added; then the others.

    Artefacts that were made from the protected rows themselves have told something about them
    already: the first guarantee is about both together (basic composition). What is charged for the
    release stays what its own noise costs; the artefacts were paid for when they were made. Refused
    if the two speak of different units or relations.
    """
    return together([charged, *earlier])


def notes_on_unprotected_data(origins: Sequence[Origin]) -> tuple[str, ...]:
    """A note about each data set that an artefact was made from without a guarantee."""
    uncovered = frozenset[str]().union(*(origin.unprotected for origin in origins))
    return tuple(
        f"nothing is promised about {label!r}, on which an artefact was trained without "
        "differential privacy"
        for label in sorted(uncovered)
    )


# --------------------------------------------------------------------------------------------------


ROLES: Final = {
    RowPart.BACKGROUND: "background",
    RowPart.POPULATION: "population",
    RowPart.EXPLAINED: "data set of the explained rows",
}
IDENTITY_VERSION: Final = 2
"""Version 1 put class names and sentences into identities."""


@dataclass(frozen=True)
class Accuracy:
    """How good a release will be; see `Preview`."""

    words: str
    standard_error: float | None = None
    half_width: float | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def from_noise(cls, noise: NoisePreview, *remarks: str) -> Self:
        return cls(str(noise), noise.standard_deviation, noise.half_width, remarks)


@dataclass(frozen=True, eq=False, kw_only=True)
class ChargedRelease(ABC):
    """A release that costs privacy budget.

    Args:
        protected: what is protected; refused if the bound of the release is about something else.
        epsilon, delta: the price; a release says of what (a call, or each explained row).
    """

    protected: Protected
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        self.prepare()
        self.guarantees(1)  # what does not add up is said now

    # --- what a release says --------------------------------------------------------------------

    @property
    @abstractmethod
    def part(self) -> RowPart:
        """Which part the protected rows play."""

    @abstractmethod
    def prepare(self) -> None:
        """Check the settings against the bound, and derive the noise."""

    tag: ClassVar[str]
    """Names the kind of release in stored identities; never changes."""

    @property
    @abstractmethod
    def identity_parts(self) -> tuple[str, str, str]:
        """Digest of the model, the release in words, and the level, as version 1 spelled them."""

    @property
    @abstractmethod
    def settings_v1(self) -> dict[str, object]:
        """All that tells it from another release of that kind, from public facts, as version 1
        spelled it: the text must never change."""

    @property
    def settings(self) -> dict[str, object]:
        """The same in tags and figures."""
        return self.settings_v1

    @abstractmethod
    def cost(self, rows: int) -> PrivacyEvent: ...

    @abstractmethod
    def noise_guarantee(self, rows: int) -> Guarantee:
        """Of the noise alone, whatever artefacts were made from; see `promise`."""

    @abstractmethod
    def accuracy(self, rows: int) -> Accuracy: ...

    # --- what follows ---------------------------------------------------------------------------

    @property
    def codec(self) -> Codec[Any]:
        return EXPLANATIONS

    @property
    def title(self) -> str:
        """What is released, in words; for the log and for readers."""
        return self.identity_parts[1]

    @property
    def identity(self) -> ReleaseIdentity:
        model, _, _ = self.identity_parts
        first = ReleaseIdentity(*self.identity_parts, parameters(self.settings_v1))
        return ReleaseIdentity(
            model,
            f"{self.tag}/{IDENTITY_VERSION}",
            getattr(self, "level", "none"),
            parameters(self.settings),
            earlier=(first,),
        )

    def promise(
        self,
        *,
        mechanism: str,
        composition: str,
        public_facts: tuple[str, ...],
        assumptions: tuple[str, ...],
        epsilon: float | None = None,
    ) -> Guarantee:
        """About what is protected, at the stated price unless another one follows."""
        return Guarantee(
            epsilon=self.epsilon if epsilon is None else epsilon,
            delta=self.delta,
            protected=self.protected,
            against=(Adversary.PUBLIC,),
            computational=False,
            mechanism=mechanism,
            composition=composition,
            public_facts=public_facts,
            assumptions=assumptions,
        )

    def guarantees(self, rows: int) -> tuple[Guarantee, ...]:
        return (self.noise_guarantee(positive("rows", rows)),)

    def preview(self, rows: int = 1) -> Preview:
        shown = self.accuracy(rows)
        return Preview(
            event=self.cost(rows),
            guarantees=self.guarantees(rows),
            accuracy=shown.words,
            standard_error=shown.standard_error,
            half_width=shown.half_width,
            remarks=shown.remarks,
        )

    def notes(self, *own: Note) -> tuple[Note, ...]:
        """What is noted about everything that is drawn, after what a release has to say itself."""
        return (*own, KnownNote.NOT_CHARGED)


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelRelease(ChargedRelease):
    """An explanation of a model, which was made from data itself.

    Args (in addition to those of `ChargedRelease`):
        origins: of everything that it computes with.
        level: the transparency level, for the record.
    """

    origins: Sequence[Origin]
    level: str = "detailed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "origins", stated(self.origins))
        refuse_unprotected(self.protected.dataset, self.origins, role=ROLES[self.part])
        super().__post_init__()

    def guarantees(self, rows: int) -> tuple[Guarantee, ...]:
        """Its own first, then what the artefacts promise about other data.

        An explained row is a record of its own, whatever the artefacts were made from.
        """
        (own,) = super().guarantees(rows)
        if self.part is RowPart.EXPLAINED:
            return own, *self._carried_forward
        return with_earlier(own, self._carried_forward)

    @property
    def settings(self) -> dict[str, object]:
        return {**self.settings_v1, "origins": origins_identity(self.origins)}

    @cached_property
    def _carried_forward(self) -> tuple[Guarantee, ...]:
        return carried_forward(self.origins)

    def notes(self, *own: Note) -> tuple[Note, ...]:
        return super().notes(*own, *notes_on_unprotected_data(self.origins))


@dataclass(frozen=True, eq=False)
class ExplainerRelease(ModelRelease):
    """Protected rows through any explainer, each by itself (`PerRow`).

    Args (in addition to those of `ModelRelease`):
        explainer: any; all that it holds must be covered by `origins`.
        schema: rows are clamped to it.
        model: digest of what is explained, for the record.
        name: of the explainer, for the record.
    """

    explainer: Explainer
    _: KW_ONLY
    schema: Schema
    model: str
    name: str | ExplainerName
    way: ClassVar[str]
    """How the explainer is used, in words."""
    _inner: PerRow = field(init=False, repr=False)

    def prepare(self) -> None:
        object.__setattr__(self, "_inner", PerRow(self.explainer, self.schema))

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.model, f"{self.way} {ExplainerName.read(self.name).words}", self.level

    @property
    def settings(self) -> dict[str, object]:
        return {**super().settings, "explainer": ExplainerName.read(self.name).tag}


# --- Artefacts that are made from protected records once, paid for, and then used for ever --------


STORED: Final = Path("stored answer")
"""What a damaged one is called in errors."""


@dataclass(frozen=True, kw_only=True)
class OneTimeArtefact:
    """Something that can be used for ever, once it is paid for.

    Args:
        event: what has to be charged before it is used; None if it is public.
        charge: the ledger's name for the charge that paid for it. A changed copy has none.
    """

    event: PrivacyEvent | None
    charge: str | None = field(default=None, init=False)
    what: ClassVar[str]
    paid_with: ClassVar[str]
    """What makes and charges it, in `voile`."""

    def check_paid(self) -> None:
        """Refuse what came from protected records and was not paid for."""
        if self.event is not None and not self.charge:
            raise Refused(
                f"these {self.what} were made from protected records and nobody was charged for "
                f"them: voile.{self.paid_with} makes and charges them"
            )


Artefact = TypeVar("Artefact", bound=OneTimeArtefact)


class PaidCharges(Protocol):
    """A ledger that can be asked what a charge paid for."""

    def paid_answer(self, charge: str, event: PrivacyEvent | None, protected: Protected) -> bytes:
        """The answer that is kept under this charge; `Refused` if there is none, or if another
        event or something else than `protected` was charged."""


def paid_artefact(release: Release[Artefact], charge: str, charges: PaidCharges) -> Artefact:
    """What a charge paid for, as the ledger keeps it and not as anybody holds it.

    So an artefact that was drawn and not charged never has an origin with an epsilon.
    """
    protected = release.guarantees(1)[0].protected
    made = release.codec.unpack(charges.paid_answer(charge, release.cost(1), protected))
    object.__setattr__(made, "charge", charge)
    return made


@dataclass(frozen=True, eq=False)
class ArtefactRelease(ChargedRelease):
    """Makes an artefact from protected records; `draw` takes no rows.

    Args (in addition to those of `ChargedRelease`):
        records: a table or an array.
        schema: what is public about them.
    """

    records: Any = field(repr=False)
    schema: Schema
    name: ClassVar[str]
    _read: Records = field(init=False, repr=False)

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.schema.digest, self.name, self.name

    @property
    def public_size(self) -> int | None:
        """How many records there are, or nothing where their number is protected as well."""
        private = self.protected.relation is Relation.ADD_OR_REMOVE_ONE
        return None if private else len(self._read)
