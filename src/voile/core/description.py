"""What an explanation says, as plain data: the one source of pictures, pages and terminal tables.

`describe` decides once what a reader may see: the value of a row or "missing", the label of a
category, the ± of a contribution, and whether it can be told from zero. Views draw or print what
stands in a `Description` and compute none of it again.

Everything is read from the explanation, a public schema and published estimates: to describe is
post-processing. Where the explained row is protected, neither its values nor a prediction are in
the description.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from voile.core.errors import InvalidInput
from voile.core.explanation_checks import Attributions, BaseValues, RowData
from voile.core.guarantee import Guarantee, ProtectedUnit
from voile.core.row_note import KnownNote, Note, was_filled
from voile.core.schema import Categories, Feature, Schema

WIDTH: Final = 2.0
"""Of an estimated ±, in typical deviations."""
_LEAST: Final = 0.001
"""Nearer to 0 or 1, a model's probability is not worth its digits."""
_LARGEST_WRITTEN_OUT: Final = 1e9
"""An exact amount beyond it is written with a power of ten."""
_MOST_PLACES: Final = 6
"""After the point; beyond that, powers of ten are easier to read."""
_ROUNDING: Final = 1e-12
"""Share of the largest amount; a smaller exact amount is rounding of the machine, not a finding."""
_SETTLED: Final = 0.1
"""Under this share of values that can be told from zero, noise is what there is to see: of pure
noise, one 95 % interval in twenty misses zero."""


class Uncertainty(StrEnum):
    """What a ± means."""

    EXACT = "exact"
    """There is none: no noise was added and nothing was sampled."""
    INTERVAL = "95 % interval"
    ESTIMATE = "rough estimate"
    """How far contributions moved when the model was trained again with other noise."""


@dataclass(frozen=True)
class FeatureContribution:
    """What one feature adds to one output.

    Args:
        feature: its name; for the sum of the weakest features, how many there are.
        amount: what it adds; a size where the description is not signed.
        text: the amount with its ±, for people.
        low, high: where the amount lies with its uncertainty; None where it is exact.
        value: what the row holds, with label or unit; empty where it is not shown.
        missing: whether the row holds nothing, so that `value` was filled in.
    """

    feature: str
    amount: float
    text: str
    low: float | None = None
    high: float | None = None
    value: str = ""
    missing: bool = False

    @property
    def distinguishable(self) -> bool:
        """Whether it can be told from zero."""
        return self.low is None or self.high is None or self.low > 0 or self.high < 0

    @property
    def value_text(self) -> str:
        """The value for people; a value that was filled in is never shown as the row's own."""
        filled = f"missing ({self.value} was filled in)" if self.value else "missing"
        return filled if self.missing else self.value

    @property
    def named(self) -> str:
        """The feature with its value: `age = 71 years`."""
        return f"{self.feature} = {self.value_text}" if self.value_text else self.feature


@dataclass(frozen=True)
class Prediction:
    """How contributions lead from a base value to a prediction.

    Args:
        base, value: both numbers; texts are for people.
        noise: the ± of the prediction where privacy noise was added.
    """

    base: float
    base_text: str
    value: float
    value_text: str
    noise: float | None = None


@dataclass(frozen=True)
class OutputDescription:
    """What is said about one output.

    Args:
        name: as in the explanation.
        title: what it is: `probability of readmission = yes`.
        prediction: None where contributions lead to none that may be shown.
        contributions: in one order for all outputs, the strongest feature first.
    """

    name: str
    title: str
    prediction: Prediction | None
    contributions: tuple[FeatureContribution, ...]

    def contribution(self, feature: str) -> FeatureContribution:
        """That of one feature."""
        return next(each for each in self.contributions if each.feature == feature)

    @property
    def strongest_first(self) -> tuple[FeatureContribution, ...]:
        """Ordered for this output alone."""
        return tuple(sorted(self.contributions, key=lambda each: -abs(each.amount)))


@dataclass(frozen=True)
class Description:
    """What an explanation says about one row, or on average about several.

    Args:
        rows: how many rows it is about.
        signed: contributions of one row; else mean sizes, never below 0.
        measure: what an amount is, for an axis or a heading.
        uncertainty: what ± means.
        shows_values: whether values of the row are shown.
        outputs: at least one.
        guarantees, notes: those of the explanation.
        alarms: why the numbers are of no use, where they are not; every view says it first.
    """

    rows: int
    signed: bool
    measure: str
    uncertainty: Uncertainty
    shows_values: bool
    outputs: tuple[OutputDescription, ...]
    guarantees: tuple[Guarantee, ...]
    notes: tuple[Note, ...]
    alarms: tuple[str, ...] = ()

    @property
    def is_public(self) -> bool:
        """Whether it was made from public artefacts only, so that no guarantee is needed."""
        return KnownNote.ALL_PUBLIC in self.notes

    @property
    def some_missing(self) -> bool:
        """Whether a value was missing and filled in."""
        return any(each.missing for each in self.outputs[0].contributions)


class Describable(Protocol):
    """An explanation, alone or with what is known about its rows and its model."""

    def describe(
        self,
        row: int | None = None,
        *,
        output: str | None = None,
        most: int | None = None,
        schema: Schema | None = None,
    ) -> Description:
        """See `voile.core.explanation.Explanation.describe`."""


class ReadableExplanation(Protocol):
    """What is read of an `Explanation`, which describes itself and so comes after this module."""

    @property
    def values(self) -> Attributions: ...

    @property
    def base_values(self) -> BaseValues: ...

    @property
    def data(self) -> RowData | None: ...

    @property
    def half_widths(self) -> Attributions | None: ...

    @property
    def reach(self) -> Attributions | None: ...

    @property
    def feature_names(self) -> tuple[str, ...]: ...

    @property
    def output_names(self) -> tuple[str, ...]: ...

    @property
    def guarantees(self) -> tuple[Guarantee, ...]: ...

    @property
    def notes(self) -> tuple[Note, ...]: ...

    @property
    def shape(self) -> tuple[int, int, int]: ...

    def carries(self, note: KnownNote) -> bool: ...

    def __len__(self) -> int: ...

    def __getitem__(self, selection: int) -> Self: ...


def describe(
    explanation: ReadableExplanation,
    *,
    most: int | None = None,
    schema: Schema | None = None,
    deviations: Mapping[str, float] | None = None,
) -> Description:
    """Describe the contributions in one row, or the mean of their sizes over several.

    Errors of different features are taken to be independent, as privacy noise is: those of the
    weakest features add up in quadrature. The error of a mean of sizes is at most the mean of the
    errors.

    Args:
        most: how many features stand by themselves, at least one; the others are added up.
        schema: of the rows, for units, labels of categories and titles of outputs.
        deviations: for each feature, how far a contribution typically is off because the model was
            trained with noise. Used where nothing else is known about uncertainty.
    """
    if most is not None and most < 1:
        raise InvalidInput(f"at least one feature must be shown, found most={most}")
    absolute = explanation.carries(KnownNote.ABSOLUTE)
    signed = len(explanation) == 1 and not absolute
    spread, uncertainty = _spread(explanation, deviations)
    return Description(
        rows=len(explanation),
        signed=signed,
        measure=_measure(explanation, signed=signed),
        uncertainty=uncertainty,
        shows_values=len(explanation) == 1 and explanation.data is not None,
        outputs=_outputs(explanation, _amounts(explanation, spread, most, signed=signed), schema),
        guarantees=explanation.guarantees,
        notes=explanation.notes,
        alarms=noise_alarms(explanation),
    )


def noise_alarms(explanation: ReadableExplanation) -> tuple[str, ...]:
    """Say when privacy noise hides nearly every value.

    Only released values and the published width of their noise decide: this is post-processing.
    """
    if explanation.half_widths is None:
        return ()
    noisy = explanation.half_widths > 0
    hidden = int(np.sum(noisy & (np.abs(explanation.values) <= explanation.half_widths)))
    count = int(np.sum(noisy))
    if not count or count - hidden >= _SETTLED * count:
        return ()
    said = f"{hidden:,} of {count:,} cannot be told from zero"
    return (f"These numbers are mostly noise: {said}. Try {_remedies(explanation)}.",)


def _remedies(explanation: ReadableExplanation) -> str:
    """What would help: names of features cost less, and a mean over more rows needs less noise."""
    units = {each.protected.unit for each in explanation.guarantees}
    one_person = not units.isdisjoint({ProtectedUnit.EXPLAINED_ROW, ProtectedUnit.USER})
    population = explanation.carries(KnownNote.ABSOLUTE)
    named = ProtectedUnit.EXPLAINED_ROW in units or population
    found = ["the strongest features by name (--top)"] if named else []
    found += [] if one_person else ["more rows" if population else "more background rows"]
    return ", ".join([*found, "fewer features", "a coarser level", "or a larger epsilon"])


# --- numbers --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Amounts:
    """Amounts and their ±, shape (entries, outputs); a last entry without a place is the rest."""

    places: tuple[int, ...]
    rest: int
    centre: NDArray[np.float64]
    reach: NDArray[np.float64] | None
    signed: bool

    def text(self, amount: float, reach: float | None) -> str:
        """For people; an exact amount that is nothing but rounding is 0."""
        sign = "+" if self.signed else ""
        if reach is not None:
            return _text(amount, reach, sign)
        if abs(amount) <= _ROUNDING * np.abs(self.centre).max():
            return "0"
        return _exact_text(amount, self.decimals, sign)

    @cached_property
    def decimals(self) -> int | None:
        """How many digits after the point all exact amounts are written with; None: powers of ten.

        Three digits of the largest, so that a column lines up; zeros that all end in are left out.
        """
        largest = float(np.abs(self.centre).max())
        most = max(2 - math.floor(math.log10(largest)), 0) if largest else 0
        if most > _MOST_PLACES or largest >= _LARGEST_WRITTEN_OUT:
            return None
        written = [np.round(self.centre, decimals) for decimals in range(most + 1)]
        return next(d for d, each in enumerate(written) if np.array_equal(each, written[most]))


def _amounts(
    explanation: ReadableExplanation,
    spread: Attributions | None,
    most: int | None,
    *,
    signed: bool,
) -> _Amounts:
    absolute = explanation.carries(KnownNote.ABSOLUTE)
    sizes = explanation.values if absolute else np.abs(explanation.values)
    centre = explanation.values[0] if signed else sizes.mean(axis=0)
    reach = None if spread is None else spread.mean(axis=0)
    order = np.argsort(-np.abs(centre).sum(axis=1), kind="stable")
    shown, rest = order[:most], order[len(order) if most is None else most :]
    found = [centre[shown]]
    errors = None if reach is None else [reach[shown]]
    if len(rest):
        found.append(centre[rest].sum(axis=0, keepdims=True))
        if reach is not None and errors is not None:
            errors.append(np.sqrt((reach[rest] ** 2).sum(axis=0, keepdims=True)))
    return _Amounts(
        tuple(shown.tolist()),
        len(rest),
        np.vstack(found),
        None if errors is None else np.vstack(errors),
        signed,
    )


def _spread(
    explanation: ReadableExplanation, deviations: Mapping[str, float] | None
) -> tuple[Attributions | None, Uncertainty]:
    """The ± of every attribution, and what it means."""
    if explanation.reach is not None:
        return explanation.reach, Uncertainty.INTERVAL
    if deviations is None or not set(explanation.feature_names) <= set(deviations):
        return None, Uncertainty.EXACT
    widths = WIDTH * np.array([deviations[name] for name in explanation.feature_names])
    spread = np.broadcast_to(widths[np.newaxis, :, np.newaxis], explanation.shape)
    return spread, Uncertainty.ESTIMATE


def _noise_of_sum(explanation: ReadableExplanation, output: int) -> float | None:
    """Of privacy noise, which is independent and as strong on the base value as on the others.

    Errors of sampling cancel out in the sum, so standard errors alone say nothing about it.
    """
    if explanation.half_widths is None:
        return None
    widths = explanation.half_widths[0, :, output]
    return float(np.sqrt(np.sum(widths**2) + np.max(widths) ** 2))


# --- words ----------------------------------------------------------------------------------------


def _outputs(
    explanation: ReadableExplanation, amounts: _Amounts, schema: Schema | None
) -> tuple[OutputDescription, ...]:
    words = _Words(explanation, schema)
    return tuple(
        OutputDescription(
            name,
            words.title(place),
            words.prediction(place),
            tuple(
                _contribution(words, amounts, entry, place) for entry in range(len(amounts.centre))
            ),
        )
        for place, name in enumerate(explanation.output_names)
    )


def _contribution(words: _Words, amounts: _Amounts, entry: int, output: int) -> FeatureContribution:
    centre = float(amounts.centre[entry, output])
    reach = None if amounts.reach is None else float(amounts.reach[entry, output])
    # Noise moves a small mean of sizes below 0; the nearest size that there can be is 0.
    least = -math.inf if amounts.signed else 0.0
    amount = max(centre, least)
    low = None if reach is None else max(centre - reach, least)
    high = None if reach is None else max(centre + reach, least)
    text = amounts.text(amount, reach)
    if entry == len(amounts.places):
        rest = f"{amounts.rest} other{'s' if amounts.rest > 1 else ''}"
        return FeatureContribution(rest, amount, text, low, high)
    place = amounts.places[entry]
    value, missing = words.value(place), words.is_missing(place)
    return FeatureContribution(words.feature_names[place], amount, text, low, high, value, missing)


def _exact_text(value: float, decimals: int | None, sign: str) -> str:
    """One that would be written as zero is not: it keeps one digit."""
    if decimals is None:
        return f"{value:{sign}.3g}"
    written = f"{value:{sign},.{decimals}f}"
    return written if abs(value) >= 0.5 * 10**-decimals else f"{value:{sign}.1g}"


def _text(value: float, near: float, sign: str) -> str:
    """With as many digits as the uncertainty leaves: two of its own."""
    places = 1 - math.floor(math.log10(near)) if near > 0 else _MOST_PLACES + 1
    if places > _MOST_PLACES:
        return f"{value:{sign}.3g} ± {near:.2g}"
    return f"{value:{sign}.{max(places, 0)}f} ± {near:.{max(places, 0)}f}"


def _measure(explanation: ReadableExplanation, *, signed: bool) -> str:
    what = str(KnownNote.SUMMED) if explanation.carries(KnownNote.SUMMED) else "attribution"
    if explanation.carries(KnownNote.NAMES_ONLY):
        what = "named (+1 raises, -1 lowers)"
    return what if signed else f"mean |{what}|"


@dataclass(frozen=True, eq=False)
class _Words:
    """The words for an explanation, with those of a schema where there is one."""

    explanation: ReadableExplanation
    schema: Schema | None

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.explanation.feature_names

    def title(self, place: int) -> str:
        """What an output is: `probability of readmission = yes`, `income (EUR)`."""
        name = self.explanation.output_names[place]
        label = None if self.schema is None else self.schema.label
        if label is None:
            return name
        if isinstance(label.domain, Categories):
            known = self._is_probability(place)
            return f"probability of {label.name} = {name}" if known else name
        return f"{name} ({label.unit})" if label.unit and name == label.name else name

    def prediction(self, place: int) -> Prediction | None:
        """Where base value and attributions add up to a prediction that may be shown.

        Not where the explained row is what is protected: the sum would be a guess of what was
        hidden. Not for names, means of absolute values or slopes, which add up to nothing.
        """
        given = self.explanation
        hidden = any(g.protected.unit is ProtectedUnit.EXPLAINED_ROW for g in given.guarantees)
        nothing = (KnownNote.NAMES_ONLY, KnownNote.ABSOLUTE, KnownNote.NOT_ADDITIVE)
        adding = not any(map(given.carries, nothing))
        if hidden or not adding or len(given) != 1:
            return None
        base = float(given.base_values[0, place])
        value = base + float(given.values[0, :, place].sum())
        noise = _noise_of_sum(given, place)
        return Prediction(base, self._result(place, base), value, self._result(place, value), noise)

    def _result(self, place: int, value: float) -> str:
        """What an output amounts to; of a probability no powers of ten, and never quite 0 or 1."""
        if not self._is_probability(place):
            return f"{value:.4g}"
        noisy = self.explanation.half_widths is not None
        if noisy or _LEAST <= value <= 1 - _LEAST:
            return f"{value:.3f}"
        return f"below {_LEAST:g}" if value < _LEAST else f"above {1 - _LEAST:g}"

    def _is_probability(self, place: int) -> bool:
        label = None if self.schema is None else self.schema.label
        if label is None or not isinstance(label.domain, Categories):
            return False
        return self.explanation.output_names[place] in map(str, label.domain.values)

    def is_missing(self, place: int) -> bool:
        """Whether the one row held nothing there."""
        one = len(self.explanation) == 1
        return one and was_filled(self.explanation.notes, self.feature_names[place], row=0)

    def value(self, place: int) -> str:
        """What stands in the one row for a feature, with its unit; nothing if it is not shown."""
        data = self.explanation.data
        if data is None or len(data) != 1:
            return ""
        feature, cell = self._feature(self.feature_names[place]), data[0, place]
        if feature is None or data.dtype.kind == "U":
            return str(cell) if data.dtype.kind == "U" else f"{cell:.4g}"
        raw = feature.raw(np.array([cell]))[0]
        number = isinstance(raw, int | float | np.number)
        said = f"{raw:,.0f}" if number and abs(raw) >= 1e4 else f"{raw:.4g}" if number else str(raw)
        return f"{said} {feature.unit}" if feature.unit else said

    def _feature(self, name: str) -> Feature | None:
        if self.schema is None or name not in self.schema.feature_names:
            return None
        return self.schema.features[self.schema.feature_names.index(name)]
