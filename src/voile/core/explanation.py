"""`Explanation`: feature attributions together with the guarantees that cover them."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from voile.core import array_file
from voile.core.array_file import Json
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.explanation_checks import (
    Attributions,
    BaseValues,
    RowData,
    Selection,
    all_of,
    base_values_for,
    counted,
    distinct_names,
    errors_for,
    group_members,
    numbers,
    or_numbered,
    positions,
    row_data_for,
    same_bits,
    shap_arrays,
    shortened,
)
from voile.core.guarantee import Guarantee
from voile.core.input_file import damaged, read_file
from voile.core.once_each import once_each
from voile.core.optional import optional
from voile.core.rendering import render_html
from voile.core.row_note import (
    KnownNote,
    Note,
    note_from_plain,
    note_to_plain,
    notes_among,
    notes_for,
)

# --- The file an `Explanation` is saved in: arrays and labels, see `array_file` ------------------
# Version 1 was a plain zip of one JSON text and one .npy file an array. It is still read: members
# are stored uncompressed and side by side, so that a file allocates no more than its own size.

FORMAT = "voile explanation"
VERSION = 2
_ZIP = b"PK"
_LABELS = "explanation.json"
_LISTS = ("feature_names", "output_names", "guarantees", "notes")


def unpack(content: bytes, path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Labels and arrays of any version; `path` names the content in errors."""
    if content.startswith(_ZIP):
        arrays, labels = _unzipped(content, path)
    else:
        arrays, labels = array_file.unpack(content, path, FORMAT, VERSION)
    if unknown := sorted(set(labels) - {"format", "version", *_LISTS}):
        raise UnreadableFile(f"{path}: holds what no saved explanation does: {unknown!r:.100}")
    for name in _LISTS:
        if not isinstance(labels.get(name), list):
            raise UnreadableFile(f"{path}: {name} must be a list, found {labels.get(name)!r:.100}")
    return labels, arrays


@once_each
def _names_as_json(names: tuple[str, ...]) -> Json:
    return Json.write(names)


@once_each
def _guarantee_as_json(guarantee: Guarantee) -> Json:
    return Json.write(guarantee.to_dict())


def is_saved(content: bytes) -> bool:
    """Whether these may be the bytes of a saved explanation."""
    return content.startswith(_ZIP) or array_file.is_saved(content)


# --- version 1 ------------------------------------------------------------------------------------


def _unzipped(content: bytes, path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    with damaged(path), zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(info.file_size for info in archive.infolist()) > len(content):
            raise ValueError("its members overlap")
        members = {info.filename: _stored(archive, info) for info in archive.infolist()}
    labels = array_file.label_from(members.pop(_LABELS, b""))
    array_file.check_kind(path, labels, FORMAT, 1)
    with damaged(path):
        names = labels.pop("arrays")
        # The list is under a checksum, the directory of the zip is not: an entry could get lost.
        if sorted(members) != [f"{name}.npy" for name in names]:
            raise ValueError(f"it should hold {names}, found {sorted(members)}")
        return {name: _array(members[f"{name}.npy"]) for name in names}, labels


def _stored(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError("a saved explanation holds uncompressed members only")
    return archive.read(info)


def _array(member: bytes) -> NDArray[Any]:
    stream = io.BytesIO(member)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("an array has a header of another version")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    # Over the bytes that are there: a header may declare any size, and numpy makes room for it.
    flat: NDArray[Any] = np.frombuffer(member, dtype, offset=stream.tell())
    if len(flat) != math.prod(shape):
        raise ValueError(f"an array of shape {shape} has {len(flat)} values")
    return flat.reshape(shape, order="F" if by_columns else "C").copy()


# --------------------------------------------------------------------------------------------------


if TYPE_CHECKING:
    from voile.core.description import Description
    from voile.core.schema import Schema

NO_GUARANTEE = "no privacy guarantee"
_OPTIONAL = ("data", "standard_errors", "half_widths")
_MOST_OUTPUTS = 3
"""In one line of a `repr`."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Explanation:
    """Attributions of one or more outputs for one or more rows.

    Immutable: the arrays are private copies that refuse to be written to. `guarantees` covers
    everything in it; without one, nothing is promised about anybody's data.

    Args:
        values: attributions, shape (rows, features, outputs). One output may be given as
            (rows, features).
        base_values: shape (rows, outputs), or anything that broadcasts to it without a doubt: one
            number, or one number per output.
        feature_names: one name per feature, all different.
        output_names: one name per output, all different.
        data: the explained rows, shape (rows, features); absent when they are protected.
        standard_errors: same shape as `values`; how uncertain each attribution is.
        half_widths: same shape as `values`; with 95 % each attribution lies within ± this, whatever
            the law of its error (privacy noise and sampling together).
        guarantees: what is promised about everything in here; empty if nothing is.
        notes: what must travel with the values: free words, a `KnownNote` that decisions rest on,
            or a `RowNote`, which goes with its rows only.

    >>> one = Explanation(values=[[0.2, -0.1]], base_values=0.3, feature_names=("age", "bmi"))
    >>> one.shape, one.guarantees
    ((1, 2, 1), ())
    >>> float(one.base_values[0, 0] + one.values.sum())  # base + attributions = prediction
    0.4
    """

    view: ClassVar[str] = "explanation"

    values: Attributions
    base_values: BaseValues
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...] = ("output",)
    data: RowData | None = None
    standard_errors: Attributions | None = None
    half_widths: Attributions | None = None
    guarantees: tuple[Guarantee, ...] = ()
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        values = numbers("values", self.values)
        if values.ndim == 2:
            values = values[:, :, np.newaxis]
        if values.ndim != 3 or 0 in values.shape:
            raise InvalidInput(
                "values must have shape (rows, features, outputs) with at least one of each, "
                f"found {np.shape(self.values)}"
            )
        rows, features, outputs = values.shape
        self._freeze("values", values)
        self._freeze("base_values", base_values_for(self.base_values, rows, outputs))
        self._keep("feature_names", distinct_names("feature_names", self.feature_names, features))
        self._keep("output_names", distinct_names("output_names", self.output_names, outputs))
        if self.data is not None:
            self._freeze("data", row_data_for(self.data, (rows, features)))
        for name in ("standard_errors", "half_widths"):
            given = getattr(self, name)
            if given is not None:
                self._freeze(name, errors_for(name, given, values.shape))
        self._keep("guarantees", all_of(Guarantee, "guarantees", self.guarantees))
        self._keep("notes", notes_for(self.notes, rows))

    def _keep(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _freeze(self, name: str, array: NDArray[Any]) -> None:
        own = np.array(array, order="C", copy=True)
        own.flags.writeable = False
        self._keep(name, own)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A deep copy, or one that came from another process, refuses to be written to as well."""
        for name, value in state.items():
            self._freeze(name, value) if isinstance(value, np.ndarray) else self._keep(name, value)

    def with_notes(self, notes: Sequence[Note]) -> Self:
        """The same with these notes; all else was checked before, and nobody can write to it."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._keep("notes", notes_for(notes, len(self)))
        return other

    # --- looking at parts -----------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, features, outputs)."""
        rows, features, outputs = self.values.shape
        return rows, features, outputs

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Those that are there, by name."""
        names = ("values", "base_values", *_OPTIONAL)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def reach(self) -> Attributions | None:
        """With 95 % each attribution lies within ± this; None if nothing is uncertain, or known.

        Half widths where somebody derived them; else errors are taken to be normal.
        """
        if self.half_widths is not None or self.standard_errors is None:
            return self.half_widths
        reach: Attributions = 1.96 * self.standard_errors
        return reach

    def carries(self, note: KnownNote) -> bool:
        """Whether this is noted about it."""
        return any(each is note for each in self.notes)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    def output(self, name: str) -> Self:
        """The explanation of one output, still of shape (rows, features, 1)."""
        return self[:, :, name]

    def __getitem__(self, selection: Selection | tuple[Selection, ...]) -> Self:
        """Rows, features and outputs, in this order; every axis stays, even with one entry left.

        `explanation[0]`, `explanation[:10, "age"]`, `explanation[:, ["age", "bmi"], "risk"]`.
        Choosing is post-processing: the guarantees stay as they are. What is noted about rows that
        are not chosen goes with them.
        """
        if not isinstance(selection, tuple):
            return self._rows(positions("row", selection, len(self), ()))
        parts: list[Selection] = list(selection)
        if len(parts) > 3:
            raise InvalidInput(f"at most rows, features and outputs can be chosen, found {parts}")
        everything: list[Selection] = [slice(None)] * (3 - len(parts))
        rows, features, outputs = parts + everything
        row = positions("row", rows, len(self), ())
        feature = positions("feature", features, self.shape[1], self.feature_names)
        output = positions("output", outputs, self.shape[2], self.output_names)
        block = np.ix_(row, feature, output)
        return replace(
            self,
            values=self.values[block],
            base_values=self.base_values[np.ix_(row, output)],
            feature_names=tuple(self.feature_names[i] for i in feature),
            output_names=tuple(self.output_names[i] for i in output),
            data=None if self.data is None else self.data[np.ix_(row, feature)],
            standard_errors=None if self.standard_errors is None else self.standard_errors[block],
            half_widths=None if self.half_widths is None else self.half_widths[block],
            notes=notes_among(self.notes, row.tolist()),
        )

    def _rows(self, chosen: NDArray[np.intp]) -> Self:
        """Some of the rows; all else was checked before, and nobody can write to it."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        for name, array in self.arrays.items():
            some = array[chosen]  # a copy
            if name == "data":
                some = row_data_for(some, some.shape)
            some.flags.writeable = False
            other._keep(name, some)
        other._keep("notes", notes_among(self.notes, chosen.tolist()))
        return other

    def group(self, groups: Mapping[str, Sequence[str]]) -> Self:
        """Add up the attributions of each group of features; other features stay by themselves.

        The result is noted as "sum of attributions": it is not the Shapley value of a game whose
        players are the groups. Errors of features may be correlated in an unknown way, so the
        standard error of a sum is given as the sum of the standard errors, an upper bound. Half
        widths of 95 % do not add up to one of 95 %, and a group has no single data value: both are
        dropped.
        """
        members = group_members(groups, self.feature_names)
        single = [n for n in self.feature_names if not any(n in m for m in members.values())]
        columns = members | {name: (name,) for name in single}
        if len(columns) != len(members) + len(single):
            clash = sorted(set(members) & set(single))
            raise InvalidInput(
                f"group names must differ from ungrouped features, both have {clash}"
            )
        belongs = np.array([[n in m for n in self.feature_names] for m in columns.values()], float)

        def summed(per_feature: Attributions) -> Attributions:
            total: Attributions = np.einsum("gf,rfo->rgo", belongs, per_feature)
            return total

        errors = self.standard_errors
        return replace(
            self,
            values=summed(self.values),
            feature_names=tuple(columns),
            data=None,
            standard_errors=None if errors is None else summed(errors),
            half_widths=None,
            notes=self.notes if self.carries(KnownNote.SUMMED) else (*self.notes, KnownNote.SUMMED),
        )

    # --- comparing ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Equal in every field, bit for bit."""
        # Not `isinstance`: what passes for an explanation without being one answers for itself.
        if not issubclass(type(other), Explanation):
            return NotImplemented
        theirs = cast("Explanation", other)
        return self._labels() == theirs._labels() and self._agrees(theirs, same_bits)

    __hash__ = None  # type: ignore[assignment]  # equality is about arrays, which do not hash

    def allclose(self, other: Explanation, *, rtol: float = 1e-7, atol: float = 1e-12) -> bool:
        """Same labels and guarantees, and numbers equal up to the tolerances."""

        def close(mine: NDArray[Any], theirs: NDArray[Any]) -> bool:
            if mine.dtype.kind != theirs.dtype.kind or mine.dtype.kind == "U":
                return same_bits(mine, theirs)
            return bool(np.allclose(mine, theirs, rtol=rtol, atol=atol, equal_nan=True))

        return self._labels() == other._labels() and self._agrees(other, close)

    def _labels(self) -> tuple[object, ...]:
        return (self.shape, self.feature_names, self.output_names, self.guarantees, self.notes)

    def _agrees(
        self, other: Explanation, equal: Callable[[NDArray[Any], NDArray[Any]], bool]
    ) -> bool:
        mine, theirs = self.arrays, other.arrays
        return mine.keys() == theirs.keys() and all(
            mine[name] is theirs[name] or equal(mine[name], theirs[name]) for name in mine
        )

    # --- leaving and coming back ----------------------------------------------------------------

    def to_shap(self) -> Any:
        """As a `shap.Explanation`, for every plot of shap; a single output axis is dropped.

        shap has no place for guarantees: they stay behind, and `from_shap` does not invent them.
        """
        shap = optional("shap", extra="explain")
        one = self.shape[2] == 1
        return shap.Explanation(
            values=(self.values[:, :, 0] if one else self.values).copy(),
            base_values=(self.base_values[:, 0] if one else self.base_values).copy(),
            data=None if self.data is None else self.data.copy(),
            feature_names=list(self.feature_names),
            output_names=self.output_names[0] if one else list(self.output_names),
        )

    @classmethod
    def from_shap(cls, explanation: Any) -> Self:
        """From a `shap.Explanation` of one or more rows; it carries no privacy guarantee."""
        values, base, data = shap_arrays(explanation)
        return cls(
            values=values,
            base_values=base,
            feature_names=or_numbered(explanation.feature_names, "feature", values.shape[1]),
            output_names=or_numbered(explanation.output_names, "output", values.shape[2]),
            data=data,
        )

    def save(self, path: str | Path) -> Path:
        """Write one file, without pickle; `load` gives back every bit. Replaces atomically."""
        mode = 0o644 if self.data is None else 0o600  # values of rows are for their owner only
        return replace_file(Path(path), self.to_bytes(), mode=mode)

    def to_bytes(self) -> bytes:
        """The content of the file that `save` writes, to be kept in a database."""
        labels = {
            "feature_names": _names_as_json(self.feature_names),
            "output_names": _names_as_json(self.output_names),
            "guarantees": Json(f"[{', '.join(map(_guarantee_as_json, self.guarantees))}]"),
            "notes": [note_to_plain(note) for note in self.notes],
        }
        return array_file.pack(FORMAT, self.arrays, labels, VERSION)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; anything else is an `UnreadableFile`."""
        return cls._restored(Path(path), read_file(Path(path)))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """The inverse of `to_bytes`."""
        return cls._restored(Path("stored explanation"), content)

    @classmethod
    def _restored(cls, path: Path, content: bytes) -> Self:
        labels, arrays = unpack(content, path)
        with damaged(path):
            return cls(
                feature_names=tuple(labels["feature_names"]),
                output_names=tuple(labels["output_names"]),
                guarantees=tuple(Guarantee.from_dict(item) for item in labels["guarantees"]),
                notes=tuple(note_from_plain(note) for note in labels["notes"]),
                values=arrays["values"],
                base_values=arrays["base_values"],
                **{name: arrays[name] for name in _OPTIONAL if name in arrays},
            )

    # --- reading --------------------------------------------------------------------------------

    def __repr__(self) -> str:
        """Guarantees first: what may be done with the numbers comes before the numbers."""
        rows, features, outputs = self.shape
        promises = [f"guarantee: {g}" for g in self.guarantees] or [NO_GUARANTEE]
        notes = [f"note: {note}" for note in self.notes]
        size = (
            f"{counted(rows, 'row')} × {counted(features, 'feature')} × "
            f"{counted(outputs, 'output')} ({shortened(self.output_names)})"
        )
        return "\n  ".join(["Explanation", *promises, *notes, size, *self._largest()])

    def describe(
        self,
        row: int | None = None,
        *,
        output: str | None = None,
        most: int | None = None,
        schema: Schema | None = None,
        deviations: Mapping[str, float] | None = None,
    ) -> Description:
        """What it says, as data for every view: one row, or mean sizes over all rows.

        Args:
            row: which row; all of them if not given.
            output: which output; all of them if not given.
            most, schema, deviations: see `voile.core.description.describe`.
        """
        from voile.core.description import describe

        chosen = self if row is None else self[row]
        chosen = chosen if output is None else chosen.output(output)
        return describe(chosen, most=most, schema=schema, deviations=deviations)

    @property
    def alarms(self) -> tuple[str, ...]:
        """Why the numbers are of no use, where they are not; every view says it first."""
        from voile.core.description import noise_alarms

        return noise_alarms(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return render_html(self)

    def _largest(self, count: int = 5) -> list[str]:
        described = self.describe()
        heading = "attributions" if described.signed else described.measure
        shown = [output.contributions[:count] for output in described.outputs[:_MOST_OUTPUTS]]
        width = max(len(each.feature) for each in shown[0])
        lines = [
            f"  {each[0].feature:<{width}}  {', '.join(part.text for part in each)}"
            for each in zip(*shown, strict=True)
        ]
        rest = len(self.feature_names) - len(lines)
        return [f"largest {heading}:", *lines, *([f"  and {rest} more"] if rest else [])]
