"""What every release offers. It knows neither ledger nor log: `voile.app.explain` joins them.

A release is built from public settings and whatever it protects. `cost`, `guarantees` and `preview`
depend on public facts alone, so they can be asked before anything is computed or charged. `draw`
computes and randomises; what it returns is marked as not charged until it is paid for.
Most releases give an `Explanation`, some an artefact; a `Codec` says how either is kept.

Guarantees of every release
    1. Everything in what `draw` returns is covered by `guarantees(rows)`.
    2. The noise in it costs at most `cost(rows)`.
    3. Protected rows never make `draw` raise or warn, nor change a shape: they are clamped to the
       schema, and outputs that are not finite become the middle of the declared set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, RowPart
from voile.privacy.events import PrivacyEvent, event_in_words

Made = TypeVar("Made")


@dataclass(frozen=True)
class ReleaseIdentity:
    """Everything except the rows that decides what would be released, from public facts.

    A stored answer is found again by a digest of this, and a question that is not found is charged.
    So it consists of tags, figures, digests and names that people gave: never of a class name, a
    `repr` or a sentence, which change when the code is improved. A tag never changes its meaning.
    A new spelling is a new version; the old one stays in `earlier`, so old answers are found.

    Args:
        model: digest of the model.
        explainer: tag and version of the release, such as `clipped-values/2`.
        level: the transparency level; "none" where a release has none.
        parameters: all settings, as canonical text (`parameters`).
        earlier: how earlier versions of voile spelled the same question.

    >>> settings = parameters({"epsilon": 1.0, "bound": 0.5})
    >>> one = ReleaseIdentity("sha256:ab12", "clipped-values/2", "detailed", settings)
    >>> one.parameters
    '{"bound":0.5,"epsilon":1.0}'
    """

    model: str
    explainer: str
    level: str
    parameters: str
    earlier: tuple[ReleaseIdentity, ...] = ()


def parameters(settings: Mapping[str, object]) -> str:
    """Settings as canonical text: equal settings give equal text.

    Raises `TypeError` for a value without a JSON form: what identifies a stored answer is spelled
    out by the release, not left to `str`.
    """
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class ExplainerName:
    """What an explainer is called.

    Args:
        words: for people, in logs and reports.
        tag: for identities; the words themselves for an explainer that a user named.
    """

    words: str
    tag: str

    @classmethod
    def read(cls, given: str | ExplainerName) -> ExplainerName:
        return given if isinstance(given, cls) else cls(str(given), str(given))


@dataclass(frozen=True)
class Preview:
    """What a release will be like, said before anything is spent. Depends on public facts only.

    Args:
        event: what it costs; None if nothing.
        guarantees: what it promises.
        accuracy: how much noise there will be, in words (from the mechanism's own preview).
        standard_error: of one released value, noise and sampling together; None where values are
            not numbers with noise on them.
        half_width: a released value lies within ± this of the true one with 95 %; None as above.
        remarks: what else to know, such as a cheaper way.

    >>> print(Preview(event=None, guarantees=(), accuracy="no noise is added"))
    costs nothing
    no noise is added
    """

    event: PrivacyEvent | None
    guarantees: tuple[Guarantee, ...]
    accuracy: str
    standard_error: float | None = None
    half_width: float | None = None
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        promises = [f"guarantee: {guarantee}" for guarantee in self.guarantees]
        price = "costs nothing" if self.event is None else f"costs {event_in_words(self.event)}"
        return "\n".join([price, *promises, self.accuracy, *self.remarks])


@dataclass(frozen=True)
class Codec(Generic[Made]):
    """How what was released is kept, to be given again; equal things have equal bytes.

    Args:
        pack: to bytes.
        unpack: its inverse; raises `UnreadableFile` for anything else.

    >>> one = Explanation(values=[[0.2, -0.1]], base_values=0.3, feature_names=("age", "bmi"))
    >>> EXPLANATIONS.unpack(EXPLANATIONS.pack(one)).values.ravel().tolist()
    [0.2, -0.1]
    """

    pack: Callable[[Made], bytes]
    unpack: Callable[[bytes], Made]


EXPLANATIONS: Final = Codec(Explanation.to_bytes, Explanation.from_bytes)


@runtime_checkable
class Release(Protocol[Made]):
    """An explanation, or an artefact, with a guarantee; see the module for what all promise.

    >>> from voile.release import PUBLIC, PostProcessed
    >>> free = PostProcessed(lambda rows: None, [PUBLIC], model="sha256:ab12", name="mine")
    >>> isinstance(free, Release), free.cost(1_000)
    (True, None)
    """

    @property
    def title(self) -> str:
        """What is released, in words; for the log and for readers."""

    @property
    def identity(self) -> ReleaseIdentity: ...

    @property
    def part(self) -> RowPart:
        """Which part the protected rows play; so it says how a question is recognised.

        Public rows (of the parts training and background) by their values; a population by its
        name; a protected record by its identifier. What is made once takes no rows at all.
        """

    @property
    def codec(self) -> Codec[Made]: ...

    def cost(self, rows: int) -> PrivacyEvent | None:
        """What explaining this many rows costs one unit, from public facts; None: nothing."""

    def guarantees(self, rows: int) -> tuple[Guarantee, ...]:
        """What an explanation of this many rows promises; the first is the one that is charged."""

    def preview(self, rows: int = 1) -> Preview:
        """What a call with this many rows would cost and be like."""

    def draw(self, rows: Any) -> Made:
        """Compute and randomise; the result is marked as not charged."""
