"""The artefact of a federation: one folder with everything that may be shown, and nothing else.

    artefact.json            format, version, name, clients, settings, digest of every other file
    schema.toml              what rows look like; public
    black_box.safetensors    the private network, calibrated (absent where somebody brought a
                             trained one); inside, its last layer as it was trained
    model.safetensors        the private model where it is no network; its tag says what it is
    curves.json              of an additive model, the same for people
    image_model.safetensors  a classifier of images, and images.toml, what these look like
    recommender.json         a recommender (`voile.app.recommend`), with catalogue.json and
                             moments.safetensors
    importance.voile         what matters to somebody's model over the rows of all parties
    surrogate.safetensors    the private surrogate
    explainer.safetensors    the distilled explainer with its surrogate
    explainer.onnx           the same for programs that know nothing of voile
    reference.parquet        public rows that interventional explanations are compared with, where
                             the model has no background of its own
    guarantees.json          what is promised, what the same noise amounts to in other readings, and
                             what is not covered
    figures.json             figures measured on rows that are listed as unprotected
    history.parquet          who took part in which round, and what was charged for it
    logs/NAME/               for the server and each client: records, signed checkpoint, policy
    report.html              the report, if it was written

The manifest is written last: a folder without it is a run that was not finished.

Compatibility promise: an artefact of version n is read by every later voile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from voile.app.alarms import alarms
from voile.app.artefact_manifest import (
    CATALOGUE,
    LOGS,
    MANIFEST,
    MOMENTS,
    RECOMMENDER,
    Figures,
    Statement,
    check_files,
    files_of_logs,
    log_place,
    read_form,
    read_manifest,
    write_json,
    write_manifest,
)
from voile.app.model_files import (
    BLACK_BOX,
    REFERENCE,
    SCHEMA,
    Files,
    read_network,
    trained_arrays,
    wrapped_additive,
    wrapped_network,
)
from voile.attribution import FastShap, Surrogate
from voile.attribution.fastshap import export_onnx, load_explainer, load_surrogate, save
from voile.core.atomic_file import check_output, check_output_folder, replace_file
from voile.core.errors import InvalidInput, Refused
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee
from voile.core.optional import optional
from voile.core.schema import Rows, Schema, is_table
from voile.datasets.tables import read_table
from voile.federation import HistoryRow, read_history, write_history
from voile.federation.arrays import Arrays
from voile.federation.history import without_times
from voile.models import Outputs, WrappedModel
from voile.models.additive import AdditiveModel
from voile.pipelines.image_classifier import ImageModel
from voile.pipelines.images import ImageSchema
from voile.pipelines.tables import NetworkModel, OutputHead
from voile.release import Origin, trained_privately
from voile.training import arrays_of

SURROGATE: Final = "surrogate.safetensors"
EXPLAINER: Final = "explainer.safetensors"
EXPLAINER_ONNX: Final = "explainer.onnx"
GUARANTEES: Final = "guarantees.json"
FIGURES: Final = "figures.json"
HISTORY: Final = "history.parquet"
REPORT: Final = "report.html"
MODEL: Final = "model.safetensors"
CURVES: Final = "curves.json"
IMPORTANCE: Final = "importance.voile"
IMAGES: Final = "images.toml"
IMAGE_MODEL: Final = "image_model.safetensors"
_ALWAYS: Final = frozenset({GUARANTEES, FIGURES, HISTORY})
_OF_A_TABLE: Final = frozenset({SCHEMA, REFERENCE})
_PARTS: Final = {
    BLACK_BOX: _OF_A_TABLE | {BLACK_BOX},
    SURROGATE: _OF_A_TABLE | {SURROGATE, EXPLAINER, EXPLAINER_ONNX},
    MODEL: frozenset({SCHEMA, MODEL, CURVES}),
    IMPORTANCE: frozenset({SCHEMA, IMPORTANCE}),
    IMAGE_MODEL: frozenset({IMAGES, IMAGE_MODEL}),
    RECOMMENDER: frozenset({RECOMMENDER, CATALOGUE, MOMENTS}),
}
"""By one file of the format, all that are there together with it."""
_OPTIONAL: Final = frozenset[str]().union(*_PARTS.values())


def surrogate_files(surrogate: Surrogate, explainer: FastShap, example: Rows) -> Files:
    """What imitates a model, and the fast explainer that was made from it."""
    return {
        SURROGATE: partial(save, surrogate),
        EXPLAINER: partial(save, explainer),
        EXPLAINER_ONNX: partial(export_onnx, explainer, example=example[:16]),
    }


def additive_files(model: AdditiveModel) -> Files:
    """An additive model, which holds its own schema and background."""
    return {
        SCHEMA: partial(_write_schema, model.schema),
        MODEL: model.save,
        CURVES: lambda path: replace_file(path, model.to_json().encode()),
    }


def importance_files(schema: Schema, importance: Explanation) -> Files:
    """What matters to a model, with its guarantee; the model itself is elsewhere."""
    return {SCHEMA: partial(_write_schema, schema), IMPORTANCE: importance.save}


def image_files(model: ImageModel) -> Files:
    """A classifier of images, and what they look like."""
    return {IMAGES: partial(_write_schema, model.schema), IMAGE_MODEL: model.save}


def check_place(folder: Path) -> None:
    """Refuse a place where no artefact could be written, before anything is charged for it."""
    for package in ("pyarrow.parquet", "onnx", "onnxruntime"):
        optional(package, extra="explain")
    check_output_folder(folder)
    check_output_folder(folder / LOGS)
    files = (*_ALWAYS, *_OPTIONAL, MANIFEST, REPORT)
    for name in files if folder.exists() else ():
        check_output(folder / name)


def write_artefact(
    folder: Path,
    files: Files,
    *,
    guarantees: Iterable[Guarantee],
    statement: Mapping[str, Any],
    figures: Mapping[str, Any],
    history: Iterable[HistoryRow],
) -> None:
    """Write everything but the logs and the manifest; `finish` makes it an artefact.

    Args:
        files: of the pipeline, such as its model.
        guarantees: what is promised about everything here; one that covers all.
        statement: other readings of the same noise, and what is not covered; plain values.
        figures: measured on unprotected rows; plain values.
        history: of all rounds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (MANIFEST, *_OPTIONAL):  # of an earlier run, which had others
        (folder / name).unlink(missing_ok=True)
    for name, write in files.items():
        write(folder / name)
    promised = {"guarantees": [guarantee.to_dict() for guarantee in guarantees]}
    write_json(folder / GUARANTEES, {**promised, **statement})
    write_json(folder / FIGURES, figures)
    write_history(without_times(tuple(history)), folder / HISTORY)


def finish(folder: Path, name: str, settings: Mapping[str, Any]) -> Artefact:
    """Write the manifest over the files of the format; the report may be written anew any time."""
    found = {name for name in _OPTIONAL if (folder / name).exists()}
    write_manifest(folder, name, settings, _expected(settings["logs"], found))
    return load_artefact(folder)


@dataclass(frozen=True, eq=False)
class Artefact:
    """A finished artefact, every file of which is what its manifest says."""

    folder: Path
    name: str
    settings: Mapping[str, Any]
    files: frozenset[str]
    """The files of the format that are there."""
    _home: Path = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Files are read when they are needed, wherever the process has gone meanwhile."""
        object.__setattr__(self, "_home", self.folder.absolute())

    @property
    def has_model(self) -> bool:
        """Whether a model was trained by the federation, and is here."""
        return BLACK_BOX in self.files or MODEL in self.files

    @property
    def has_surrogate(self) -> bool:
        """Whether there are a surrogate and a fast explainer."""
        return SURROGATE in self.files

    @cached_property
    def schema(self) -> Schema:
        """Of the rows that the model takes."""
        return Schema.load(self._home / SCHEMA)

    @cached_property
    def network(self) -> NetworkModel:
        """The private black box, where it is a network."""
        arrays, _ = self._black_box
        return NetworkModel.from_arrays(self.schema, OutputHead.of_label(self.schema), arrays)

    @cached_property
    def _black_box(self) -> tuple[Arrays, dict[str, Any]]:
        if BLACK_BOX not in self.files:
            if self.has_model:
                raise Refused("this artefact holds no network, but a model of another kind")
            if RECOMMENDER in self.files:
                raise Refused("this artefact holds a recommender: see `voile recommend list`")
            if IMAGE_MODEL in self.files:
                raise Refused("this artefact classifies images: use `image_model` in Python")
            if IMPORTANCE in self.files:
                raise Refused("this artefact holds what matters to a model, and not the model")
            raise Refused(
                "this artefact explains an external model; it holds the surrogate, not the model"
            )
        return read_network(self._home / BLACK_BOX)

    @property
    def trained(self) -> Arrays:
        """The black box as the rounds left it, before it was calibrated.

        `VerificationFailed` if the model is not what its own calibration makes of these arrays.
        """
        arrays, (_, label) = arrays_of(self.network.network), self._black_box
        return trained_arrays(arrays, label, self.folder / BLACK_BOX)

    @cached_property
    def additive(self) -> AdditiveModel | None:
        """The model, where a closed formula explains it over a background of its own."""
        return AdditiveModel.load(self._home / MODEL) if MODEL in self.files else None

    @cached_property
    def importance(self) -> Explanation | None:
        """What matters to a model that is elsewhere, over the rows of all parties."""
        return Explanation.load(self._home / IMPORTANCE) if IMPORTANCE in self.files else None

    @cached_property
    def image_model(self) -> ImageModel | None:
        """The private classifier, where records are images."""
        if IMAGE_MODEL not in self.files:
            return None
        return ImageModel.load(self._home / IMAGE_MODEL, ImageSchema.load(self._home / IMAGES))

    @cached_property
    def model(self) -> WrappedModel:
        """The private model, as every part of voile takes it."""
        if self.additive is not None:
            return wrapped_additive(self.additive)
        return wrapped_network(self.network)

    def predict(self, rows: Any) -> Outputs:
        """What the private model says, (n, outputs): the probability of each category of the
        label in the schema's order, or the number that is expected.

        Args:
            rows: a DataFrame or another table by column name, or an array in the schema's numbers;
                values outside the schema are clamped, missing ones are its defaults.
        """
        inside = self.schema.rows(rows) if is_table(rows) else self.schema.clamp(rows)
        return self.model.predict(inside)

    @cached_property
    def surrogate(self) -> Surrogate:
        """Refused where the pipeline has none."""
        self._check_surrogate()
        return load_surrogate(self._home / SURROGATE)

    @cached_property
    def surrogate_model(self) -> WrappedModel | None:
        """The surrogate, as every part of voile takes a model."""
        if self.additive is not None:
            return None
        surrogate = self.surrogate
        return WrappedModel(
            forward=surrogate.predict,
            identity=lambda: surrogate.digest,
            width=len(surrogate.feature_names),
            feature_names=surrogate.feature_names,
            output_names=surrogate.output_names,
            outputs=OutputHead.of_label(self.schema).outputs,
            source=surrogate,
        )

    @cached_property
    def explainer(self) -> FastShap:
        """The distilled explainer; refused where the pipeline has none."""
        self._check_surrogate()
        return load_explainer(self._home / EXPLAINER)

    def _check_surrogate(self) -> None:
        if not self.has_surrogate:
            raise Refused("this artefact holds a model only: it has no surrogate and no explainer")

    @cached_property
    def reference(self) -> Any:
        """Public rows to compare with; None where the model has a background of its own."""
        if REFERENCE not in self.files:
            return None
        return self.schema.rows(read_table(self._home / REFERENCE))

    @cached_property
    def statement(self) -> dict[str, Any]:
        """Everything in `guarantees.json`."""
        return read_form(self._home / GUARANTEES, Statement)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return tuple(Guarantee.from_dict(each) for each in self.statement["guarantees"])

    @property
    def reference_invented(self) -> bool:
        """Whether the public rows were invented from the schema."""
        return REFERENCE in self.files and bool(self.settings.get("reference_invented", False))

    @property
    def charged_events(self) -> set[str]:
        """What its training charged, as texts."""
        return {row.event for row in self.history if row.outcome.counts}

    def alarms(self, *, unused: Collection[str] = ()) -> tuple[str, ...]:
        """Why it should not be used, if so; see `voile.app.alarms`."""
        return tuple(alarms(self.figures, unused=unused))

    @property
    def deviations(self) -> Mapping[str, float] | None:
        """By feature, how far contributions moved when it was trained again; None if not known."""
        found: Mapping[str, float] | None = self.figures.get("stability", {}).get("deviations")
        return found

    @property
    def origin(self) -> Origin:
        """What everything here was made from: one origin, because the guarantee is joint."""
        if not self.guarantees:
            return Origin(frozenset({self.name}))
        return trained_privately(*self.guarantees)

    @cached_property
    def figures(self) -> dict[str, Any]:
        return read_form(self._home / FIGURES, Figures)

    @cached_property
    def history(self) -> list[HistoryRow]:
        return list(read_history(self._home / HISTORY))

    def log_folder(self, party: str) -> Path:
        """Where a party's exported log lies; the server's is called `server`."""
        if party not in self.settings["logs"]:
            raise InvalidInput(f"{self.folder}: {party!r} is not a party of this federation")
        return self._home / log_place(party)


def is_artefact(folder: Path) -> bool:
    """Whether a finished artefact lies there."""
    return (folder / MANIFEST).is_file()


def load_artefact(folder: Path | str) -> Artefact:
    """Open an artefact; `VerificationFailed` if a file is not what the manifest says.

    The manifest is not signed: it finds damage, not an adversary. Against one, compare what the
    signed logs say.
    """
    folder = Path(folder)
    head = read_manifest(folder)
    files, settings = head["files"], head["settings"]
    check_files(folder, files, _expected(settings["logs"], files))
    return Artefact(folder, head["name"], settings, frozenset(files))


def _expected(logs: Mapping[str, str], files: Collection[str]) -> frozenset[str]:
    """All files of an artefact that has these, but the manifest and the report."""
    parts = [part for name, part in _PARTS.items() if name in files] or [_PARTS[SURROGATE]]
    return _ALWAYS.union(files_of_logs(logs), *parts)


def _write_schema(schema: Schema | ImageSchema, path: Path) -> None:
    replace_file(path, schema.dumps().encode())
