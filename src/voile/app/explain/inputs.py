"""From a specification to what it names: model, schema, background, origins, and rows to explain.

Origins are what every promise rests on: there is no default for them, and nothing overrides what an
artefact records about itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from voile.app.commands.explain import ExplanationSpec
from voile.app.commands.fields import InMemory
from voile.app.explain.files import origin_from
from voile.app.explain.released import ReleasedExplanation
from voile.app.explain.rows import RowsToExplain, read_rows, rows_of_table
from voile.attribution import FastShap, Groups, Speed
from voile.attribution.fastshap import load_explainer
from voile.core.errors import InvalidInput, Refused, UnreadableFile
from voile.core.explanation_checks import or_numbered
from voile.core.guarantee import RowPart
from voile.core.input_file import read_json
from voile.core.schema import Categories, Rows, Schema, is_table
from voile.core.transparency import Level, Method
from voile.models import Box, Simplex, WrappedModel, load_model, wrap
from voile.pipelines.objectives import SURROGATE
from voile.release import PUBLIC, Origin
from voile.release.feature_clusters import CLUSTERS, Clusters, declared_clusters, public_clusters
from voile.release.levels import groups_at

if TYPE_CHECKING:
    from voile.models.additive import AdditiveModel

# --- What is explained from a folder, whichever command wrote it ----------------------------------


class ModelFolder(Protocol):
    """A model that records what it was made from: of `voile federate` or `voile train`."""

    @property
    def folder(self) -> Path: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def model(self) -> WrappedModel: ...

    @property
    def surrogate_model(self) -> WrappedModel | None:
        """What imitates the model, if it has one."""

    @property
    def origin(self) -> Origin: ...

    @property
    def reference(self) -> Rows | None:
        """Public rows to compare with, if there are any."""

    @property
    def reference_invented(self) -> bool:
        """Whether they were invented from the schema."""

    @property
    def additive(self) -> AdditiveModel | None:
        """The model, where a closed formula explains it over a background of its own."""

    @property
    def deviations(self) -> Mapping[str, float] | None:
        """By feature, how far contributions may be off for the noise in training, if estimated."""

    @property
    def charged_events(self) -> set[str]:
        """What its training charged, as texts."""

    def alarms(self, *, unused: Collection[str] = ()) -> tuple[str, ...]:
        """Why it should not be used, if so."""


# --------------------------------------------------------------------------------------------------


INVENTED: Final = "reference rows invented from the schema, each feature by itself"


@dataclass(frozen=True, kw_only=True)
class ExplanationInputs:
    """A specification, and what it names.

    Args:
        model: what is explained, with one output where a release asks for that.
        schema: what is public about rows.
        model_origin: of the model and, if there is one, of the learned explainer.
        background: rows that absent features take their values from.
        background_origin: of these; there is no default, because the promise rests on it. Not
            needed if they are what is protected.
        learned: an explainer that was trained for this model.
        additive: the model, where a closed formula explains it over a background of its own.
        declared: clusters that were declared or paid for.
        remarks: what is to be said about the background rows.
        hints: what a preview says about public background rows.
        deviations: by feature, how far contributions may be off for the noise in training the
            model; an estimate, where its artefact holds one.
        alarms: what makes the model useless, as its artefact says.
        output_labels: what readers see for outputs that have a number for a name.
    """

    spec: ExplanationSpec
    model: WrappedModel
    schema: Schema
    model_origin: Origin
    background: Any = field(default=None, repr=False)
    background_origin: Origin | None = None
    learned: FastShap | None = None
    additive: AdditiveModel | None = None
    declared: Clusters | None = None
    remarks: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    deviations: Mapping[str, float] | None = None
    alarms: tuple[str, ...] = ()
    output_labels: Mapping[str, str] = field(default_factory=dict)
    speed: Speed = field(default_factory=Speed)

    def __post_init__(self) -> None:
        if self.spec.level is Level.AGGREGATE and self.declared is not None:
            self.declared.check_paid()
        if self._public_background is not None and self.background_origin is None:
            raise InvalidInput(
                "say where the background rows come from: background_origin, --background-origin "
                "public"
            )

    @cached_property
    def clusters(self) -> Clusters | None:
        """Of the level aggregate: declared, paid for, or found in a background anybody may see."""
        if self.spec.level is not Level.AGGREGATE or self.declared is not None:
            return self.declared
        if self._public_background is None:
            raise Refused(
                "clusters found in protected rows cost budget, which this command does not "
                "charge. Declare groups without looking at protected data (--clusters), or use "
                "voile.app.explain.paid_clusters in Python"
            )
        assert self.background_origin is not None
        count = min(CLUSTERS, len(self.schema.features))
        found = public_clusters(self.background, schema=self.schema, count=count)
        return replace(found, found_in=self.background_origin)

    @property
    def groups(self) -> Groups | None:
        return groups_at(self.spec.level, self.schema, self.clusters)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Of everything that is used besides what is protected."""
        used = self.clusters if self.spec.level is Level.AGGREGATE else None
        return (*self.origins_but_clusters, *(() if used is None else (used.origin,)))

    @property
    def origins_but_clusters(self) -> tuple[Origin, ...]:
        """Of the model and of background rows that are not protected."""
        if self._public_background is None or self.background_origin is None:
            return (self.model_origin,)
        return (self.model_origin, self.background_origin)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was stated and cannot be checked, and what was filled in."""
        if self._public_background is None or self.background_origin is None:
            return self.remarks
        labels = sorted(self.background_origin.datasets)
        made = f"made from {', '.join(labels)}" if labels else "public"
        return (f"it is assumed, as stated, that the background rows are {made}", *self.remarks)

    def add_context(self, explained: ReleasedExplanation) -> ReleasedExplanation:
        """With what is known here, for whoever reads it out."""
        return replace(
            explained,
            schema=self.schema,
            deviations=self.deviations,
            model_alarms=self.alarms,
            # The closed formula states its own errors, those of the noise in training.
            trained_with_noise=bool(self.model_origin.guarantees) and self.additive is None,
            output_labels=self.output_labels,
        )

    def read_rows(self, given: Any) -> RowsToExplain:
        """Rows to explain: of a file, of standard input (`-`), or handed in.

        What stands in protected ones is for the release to read, and never told.

        Args:
            given: the name of a file, a table (a DataFrame, a dict of columns), an array in the
                schema's numbers, or `RowsToExplain`.
        """
        source = str(given) if isinstance(given, str | PathLike) else ""
        if source:
            self.spec.check_apart(source)
        read = self._handed_in(given, source)
        if read.count == 0:
            raise InvalidInput(f"{source or 'rows'}: expected at least one row, found none")
        hints = (*self.hints, *read.hints)
        return replace(read, notes=(*self.notes, *read.notes), hints=hints)

    def _handed_in(self, given: Any, source: str) -> RowsToExplain:
        protected, column = self.spec.protect.is_explained, self.spec.id_column
        if source:
            return read_rows(source, self.schema, column, protected=protected)
        if is_table(given):
            return rows_of_table(given, self.schema, column, protected=protected)
        rows = RowsToExplain.from_rows(given)
        if column is not None and rows.identifiers is None:
            raise InvalidInput(
                f"this release reads identifiers from the column {column!r}: pass a table, or "
                "RowsToExplain with identifiers"
            )
        return rows

    @property
    def _public_background(self) -> Any:
        """Background rows, unless they are what is protected."""
        return None if self.spec.protect is RowPart.BACKGROUND else self.background


def load_inputs(
    spec: ExplanationSpec,
    artefact: ModelFolder | None = None,
    speed: Speed | None = None,
    *,
    modules: Path | None = None,
    schema: Schema | None = None,
) -> ExplanationInputs:
    """Read what a specification names.

    Args:
        artefact: what `spec.model` names, if that is an artefact (`find_artefact`).
        modules: where a module with the model is looked for first; the current folder if not
            stated.
        schema: of the rows, where the specification does not name it.
    """
    schema = _schema(spec, artefact) if schema is None else schema
    background = _background(spec, schema, artefact)
    model, labels = _model(spec, schema, artefact, modules)
    return ExplanationInputs(
        spec=spec,
        model=model,
        schema=schema,
        model_origin=model_origin(spec, artefact),
        background=background.rows,
        background_origin=background_origin(spec, artefact),
        learned=None if spec.explainer is None else _learned(spec.explainer, speed),
        additive=_additive(spec, artefact),
        declared=None if spec.clusters is None else _clusters(spec.clusters),
        remarks=tuple(f"background: {note}" for note in background.notes),
        hints=background.hints,
        deviations=_deviations(spec, artefact),
        alarms=_alarms(spec, artefact),
        output_labels=labels,
        speed=speed or Speed(),
    )


def _additive(spec: ExplanationSpec, artefact: ModelFolder | None) -> AdditiveModel | None:
    """The closed formula is for training rows, over the background that was released with them."""
    own = spec.background is None and spec.explainer is None and spec.method is None
    if not own or spec.protect is not RowPart.TRAINING:
        return None
    return None if artefact is None else artefact.additive


def _deviations(spec: ExplanationSpec, artefact: ModelFolder | None) -> Mapping[str, float] | None:
    """They were estimated over the reference rows, and say nothing about other backgrounds."""
    if artefact is None or spec.background is not None or spec.explainer is not None:
        return None
    if spec.method is not None and not spec.method.is_shapley:
        return None
    return artefact.deviations


def _alarms(spec: ExplanationSpec, artefact: ModelFolder | None) -> tuple[str, ...]:
    """Of the surrogate only where it, or a learned explainer that was made from it, explains."""
    if artefact is None:
        return ()
    is_used = spec.explainer is not None or spec.method is Method.SURROGATE
    unused = () if is_used else (SURROGATE,)
    return artefact.alarms(unused=unused)


def find_artefact(model: str | InMemory) -> ModelFolder | None:
    """The folder of a trained model that a name stands for, if it is one."""
    if isinstance(model, InMemory):
        return None
    if not Path(model).is_dir():
        if not Path(model).exists() and ":" not in model:
            raise InvalidInput(
                f"{model}: no such model or artefact. Expected a folder of `voile federate` or "
                "`voile train`, an ONNX file, or package.module:object"
            )
        return None
    from voile.app.artefact import is_artefact, load_artefact
    from voile.app.trained_folder import FOLDER
    from voile.app.trained_model import load_trained_model

    if FOLDER.is_at(Path(model)):
        return load_trained_model(Path(model))
    if not is_artefact(Path(model)):
        raise InvalidInput(
            f"{model}: this folder is not a finished artefact of `voile federate`, nor a model of "
            "`voile train`"
        )
    return load_artefact(Path(model))


# --- what every promise rests on ------------------------------------------------------------------


def model_origin(spec: ExplanationSpec, artefact: ModelFolder | None) -> Origin:
    """As stated; of an artefact, as it was recorded when it was made."""
    if artefact is None and spec.model_origin is None:
        raise InvalidInput(
            "say what the model was trained on: --model-origin public, trained-on:LABEL, or a "
            "JSON file with the guarantees of its training"
        )
    if artefact is None:
        assert spec.model_origin is not None
        return origin_from(spec.model_origin)
    if spec.model_origin is None:
        return artefact.origin
    from voile.app.trained_folder import FOLDER

    if not FOLDER.is_at(artefact.folder):  # an artefact brings the signed logs of its parties
        raise InvalidInput("leave out --model-origin: an artefact records what it was made from")
    return origin_from(spec.model_origin)


def background_origin(spec: ExplanationSpec, artefact: ModelFolder | None) -> Origin | None:
    """As stated, for a file that is not protected; reference rows of an artefact are public."""
    if spec.background is None or spec.protect is RowPart.BACKGROUND:
        return None if artefact is None else PUBLIC
    return None if spec.background_origin is None else origin_from(spec.background_origin)


# --- files ----------------------------------------------------------------------------------------


def _schema(spec: ExplanationSpec, artefact: ModelFolder | None) -> Schema:
    if spec.schema_file is not None and artefact is not None and artefact.additive is not None:
        raise InvalidInput("leave out --schema: an additive model holds its own schema")
    if isinstance(spec.schema_file, InMemory):
        declared: Schema = spec.schema_file.value
        return declared
    if spec.schema_file is not None:
        return Schema.load(spec.schema_file)
    if artefact is None:
        raise InvalidInput("no schema given: describe the rows with --schema FILE")
    return artefact.schema


def _model(
    spec: ExplanationSpec, schema: Schema, artefact: ModelFolder | None, modules: Path | None
) -> tuple[WrappedModel, Mapping[str, str]]:
    """The model with names for its outputs, and labels where the names are numbers.

    Of two classes one is explained: the other is its complement.
    """
    wrapped = _whole_model(spec, artefact, modules)
    if spec.output_range is not None:
        wrapped = wrap(wrapped, outputs=Box(*spec.output_range))
    labels: Mapping[str, str] = {}
    if wrapped.output_names is None:
        count = wrapped.predict(schema.null_row[None].copy()).shape[1]
        numbered = or_numbered(None, "output", count)
        labels = _output_labels(wrapped, numbered, schema)
        wrapped = wrap(wrapped, output_names=numbered)
    names, output = wrapped.output_names or (), spec.output_name
    if output is None and isinstance(wrapped.outputs, Simplex) and len(names) == 2:
        output = names[-1]
    return (wrapped if output is None else wrapped.only(output)), labels


def _whole_model(
    spec: ExplanationSpec, artefact: ModelFolder | None, modules: Path | None
) -> WrappedModel:
    if spec.method is Method.SURROGATE:
        if artefact is None or artefact.surrogate_model is None:
            raise InvalidInput("the method surrogate explains an artefact of `voile federate`")
        return artefact.surrogate_model
    if artefact is not None:
        return artefact.model
    given = spec.model
    return wrap(given.value if isinstance(given, InMemory) else load_model(given, modules))


def _output_labels(
    model: WrappedModel, numbered: tuple[str, ...], schema: Schema
) -> Mapping[str, str]:
    """The schema's categories for numbered outputs; none where the order cannot be known.

    Only readers see them: the numbered names are part of stored answers.
    """
    label, stated = schema.label, model.class_labels
    if label is None or stated is None or not isinstance(model.outputs, Simplex):
        return {}
    values = tuple(map(str, label.domain.values)) if isinstance(label.domain, Categories) else ()
    if len(values) != len(numbered):
        return {}
    if set(stated) == set(values):
        return dict(zip(numbered, stated, strict=True))
    codes = tuple(map(str, range(len(values))))
    return dict(zip(numbered, values, strict=True)) if stated in ((), codes) else {}


def _background(
    spec: ExplanationSpec, schema: Schema, artefact: ModelFolder | None
) -> RowsToExplain:
    """Rows of a file, or the public reference rows of an artefact."""
    if spec.background is None:
        if artefact is None:
            return RowsToExplain(None)
        invented = artefact.reference_invented
        return RowsToExplain(artefact.reference, notes=(INVENTED,) if invented else ())
    given, protected = spec.background, spec.protect is RowPart.BACKGROUND
    if isinstance(given, InMemory):
        return rows_of_table(given.value, schema, None, given.name, protected=protected)
    return read_rows(given, schema, None, protected=protected)


def _learned(path: Path, speed: Speed | None) -> FastShap:
    found = load_explainer(path)
    return found if speed is None else replace(found, progress=speed.progress)


def _clusters(path: Path) -> Clusters:
    groups = read_json(path)
    try:
        return declared_clusters({name: tuple(members) for name, members in groups.items()})
    except (ValueError, AttributeError, TypeError) as error:
        raise UnreadableFile(
            f"{path}: expected JSON, names with lists of features: {error}"
        ) from error
