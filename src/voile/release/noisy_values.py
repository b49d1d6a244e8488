"""`NoisyValues`: noise on your own values, with a sensitivity that you declare.

Other releases derive how far one record can move their values. This one relies on what you declare.
The guarantee lists that among its assumptions, and is worth as much as the declaration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation import Explanation
from voile.core.explanation_checks import distinct_names
from voile.core.guarantee import Guarantee, ProtectedUnit, RowPart
from voile.core.schema.cells import read_numbers
from voile.privacy.events import PrivacyEvent
from voile.privacy.mechanisms import GaussianMechanism, LaplaceMechanism
from voile.privacy.mechanisms.parameters import checked_target
from voile.privacy.sensitivity import Sensitivity
from voile.privacy.sensitivity.bound import check_bounds, positive
from voile.release.charged import Accuracy, ChargedRelease

DECLARED: Final = "the sensitivity was declared by the user, not derived"
_LARGEST: Final = 1e300


@dataclass(frozen=True, eq=False)
class NoisyValues(ChargedRelease):
    """Laplace noise (delta = 0) or Gaussian noise on values of shape (rows, features, outputs).

    Guarantees
        1. (epsilon, delta) for each unit of the declared sensitivity, if the declaration is true.
        2. Values that are not finite count as 0; base values and data of an explanation that is
           handed in are not in the result.

    Args (in addition to those of `ChargedRelease`):
        sensitivity: of all values of one call together; for the unit "explained row", of the values
            of one row. In the l1 norm for Laplace noise.
        epsilon, delta: of one call.
        protected: what the values were computed from; unit and relation of the sensitivity.
        feature_names: what the values are about.
        name: where the values come from: another source is another question.
        model: digest of what they explain; of another model they are another question.
        output_names: one for each output.

    >>> from voile.core.guarantee import Protected
    >>> release = NoisyValues(
    ...     Sensitivity(value=0.01, norm="l1", unit="row", relation="blank one"),
    ...     epsilon=1.0, delta=0.0, protected=Protected("row", "blank one", "patients"),
    ...     feature_names=("age", "bmi"), name="our importance", model="sha256:ab12")
    >>> release.draw([[0.3, 0.1]]).shape, release.guarantees(1)[0].assumptions[0]
    ((1, 2, 1), 'the sensitivity was declared by the user, not derived')
    """

    sensitivity: Sensitivity
    _: KW_ONLY
    feature_names: Sequence[str]
    name: str
    model: str
    tag: ClassVar = "noisy-values"
    output_names: Sequence[str] = ("output",)

    def prepare(self) -> None:
        for which, given in (
            ("feature_names", self.feature_names),
            ("output_names", self.output_names),
        ):
            object.__setattr__(self, which, distinct_names(which, given, len(tuple(given))))
        if not self.feature_names or not self.output_names:
            raise InvalidInput("at least one feature and one output are needed")
        checked_target(self.epsilon, self.delta, pure=True)
        check_bounds(self.sensitivity, self.protected)
        self._noise(1)

    @property
    def identity_parts(self) -> tuple[str, str, str]:
        return self.model, f"noisy {self.name}", "detailed"

    @property
    def settings_v1(self) -> dict[str, object]:
        return {
            "dataset": self.protected.dataset,
            "delta": self.delta,
            "epsilon": self.epsilon,
            "features": list(self.feature_names),
            "norm": str(self.sensitivity.norm),
            "outputs": list(self.output_names),
            "relation": self.protected.relation,
            "sensitivity": self.sensitivity.value,
            "unit": self.protected.texts["unit"],
        }

    @property
    def settings(self) -> dict[str, object]:
        return {**super().settings, "source": self.name}

    @property
    def part(self) -> RowPart:
        return RowPart.EXPLAINED if self._by_row else RowPart.POPULATION

    @property
    def _by_row(self) -> bool:
        return self.protected.unit is ProtectedUnit.EXPLAINED_ROW

    def _noise(self, rows: int) -> LaplaceMechanism | GaussianMechanism:
        positive("rows", rows)
        together = 1 if self._by_row else rows
        shape = (together, len(self.feature_names), len(self.output_names))
        if self.delta:
            return GaussianMechanism.calibrated(
                self.sensitivity, epsilon=self.epsilon, delta=self.delta, shape=shape
            )
        return LaplaceMechanism.calibrated(self.sensitivity, epsilon=self.epsilon, shape=shape)

    def cost(self, rows: int) -> PrivacyEvent:
        return self._noise(rows).event()

    def noise_guarantee(self, rows: int) -> Guarantee:  # noqa: ARG002
        law = "Gaussian" if self.delta else "Laplace"
        each = "one release of each row; different rows in parallel"
        return self.promise(
            mechanism=f"{law} noise for a declared {self.sensitivity.norm} sensitivity of "
            f"{self.sensitivity.value:g}",
            composition=each if self._by_row else "one release",
            public_facts=("number and names of the values",),
            assumptions=(DECLARED, *self.sensitivity.conditions),
        )

    def accuracy(self, rows: int) -> Accuracy:
        return Accuracy.from_noise(self._noise(rows).preview(), DECLARED)

    def draw(self, rows: Any) -> Explanation:
        """Noise on an array of values, or on the values of an explanation."""
        values = self._read(rows)
        noise = self._noise(len(values))
        # Every value has its own noise, of a law that does not depend on how many there are.
        noisy = replace(noise, shape=values.shape).randomise(values)
        shown = noise.preview()
        return Explanation(
            values=noisy,
            base_values=np.zeros(noisy.shape[2]),
            feature_names=tuple(self.feature_names),
            output_names=tuple(self.output_names),
            standard_errors=np.full(noisy.shape, shown.standard_deviation),
            half_widths=np.full(noisy.shape, shown.half_width),
            guarantees=self.guarantees(len(noisy)),
            notes=self.notes(DECLARED, "the base value is left out (0)"),
        )

    def _read(self, given: Any) -> NDArray[np.float64]:
        array = _array(given.values if isinstance(given, Explanation) else given)
        if array.ndim not in (2, 3):
            raise InvalidInput(
                "expected an explanation, or numbers of shape (rows, features[, outputs]), found "
                f"the shape {array.shape}"
            )
        numbers = read_numbers(array.ravel()).values  # each by itself: what is none becomes 0
        values = numbers.reshape(*array.shape[:2], math.prod(array.shape[2:]))
        wanted = (len(self.feature_names), len(self.output_names))
        if not len(values) or values.shape[1:] != wanted:
            raise InvalidInput(
                f"expected at least one row of (features, outputs) = {wanted}, found {array.shape}"
            )
        return np.clip(np.where(np.isfinite(values), values, 0.0), -_LARGEST, _LARGEST)


def _array(given: Any) -> NDArray[Any]:
    """The cells as they are: a list is given no common type."""
    try:
        return np.asarray(given, dtype=None if hasattr(given, "__array__") else object)
    except ValueError:
        return np.empty((), dtype=object)
