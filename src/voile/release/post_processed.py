"""`PostProcessed`: whatever is computed from private artefacts alone costs nothing.

Differential privacy is closed under post-processing. If the model, the surrogate, the explainer and
the background are each public or were made with differential privacy, then explaining any number of
rows, exactly, by sampling or with a network, reveals no more about the training rows than the
artefacts did, and carries their joint guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee, RowPart
from voile.core.row_note import KnownNote
from voile.release.contract import (
    EXPLANATIONS,
    ExplainerName,
    Preview,
    ReleaseIdentity,
    parameters,
)
from voile.release.origin import Origin, joint_guarantees, origins_identity, stated

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
