"""The artefact of a federation: one folder with everything that may be shown, and nothing else.

    artefact.json            format, version, name, clients, settings, digest of every other file
    schema.toml              what rows look like; public
    black_box.safetensors    the private model, calibrated (absent where somebody brought a trained
                             one); inside, its last layer as it was trained
    surrogate.safetensors    the private surrogate
    explainer.safetensors    the distilled explainer with its surrogate
    explainer.onnx           the same for programs that know nothing of voile
    reference.parquet        public rows that interventional explanations are compared with
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

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from voile.app.alarms import alarms
from voile.app.artefact_manifest import (
    LOGS,
    MANIFEST,
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
from voile.attribution import FastShap, Surrogate
from voile.attribution.fastshap import export_onnx, load_explainer, load_surrogate, save
from voile.core import array_file
from voile.core.atomic_file import check_output, check_output_folder, replace_file
from voile.core.errors import InvalidInput, Refused, VerificationFailed
from voile.core.guarantee import Guarantee
from voile.core.input_file import damaged
from voile.core.optional import optional
from voile.core.schema import Rows, Schema, is_table
from voile.datasets.tables import read_table
from voile.federation import HistoryRow, read_history, write_history
from voile.federation.arrays import Arrays
from voile.federation.history import without_times
from voile.federation.stored_text import write_arrays
from voile.models import Outputs, WrappedModel
from voile.pipelines.calibration import Calibration, last_layer
from voile.pipelines.tables import NetworkModel, NetworkModelForward, OutputHead
from voile.release import Origin, trained_privately
from voile.training import arrays_of

SCHEMA: Final = "schema.toml"
BLACK_BOX: Final = "black_box.safetensors"
SURROGATE: Final = "surrogate.safetensors"
EXPLAINER: Final = "explainer.safetensors"
EXPLAINER_ONNX: Final = "explainer.onnx"
REFERENCE: Final = "reference.parquet"
GUARANTEES: Final = "guarantees.json"
FIGURES: Final = "figures.json"
HISTORY: Final = "history.parquet"
REPORT: Final = "report.html"
_ALWAYS: Final = frozenset({SCHEMA, REFERENCE, GUARANTEES, FIGURES, HISTORY})
_OF_A_SURROGATE: Final = frozenset({SURROGATE, EXPLAINER, EXPLAINER_ONNX})
_BLACK_BOX_FILE: Final = "voile black box"
_CALIBRATION: Final = "calibration"
_TRAINED: Final = "trained"


@dataclass(frozen=True, eq=False)
class Contents:
    """What goes into an artefact.

    Args:
        name: of the federation, and label of the version of its data.
        schema, reference: public.
        black_box: the private model; None where somebody brought a trained one.
        trained, calibration: the arrays as the rounds left them, and what was done to them.
        surrogate, explainer: of it, where the pipeline has them: both or none.
        guarantees: what is promised about everything here; one that covers all.
        statement: other readings of the same noise, and what is not covered; plain values.
        figures: measured on unprotected rows; plain values.
        settings: public settings and sizes; plain values.
        history: of all rounds.
    """

    name: str
    schema: Schema
    reference: Rows
    black_box: NetworkModel | None
    surrogate: Surrogate | None
    explainer: FastShap | None
    guarantees: tuple[Guarantee, ...]
    statement: Mapping[str, Any]
    figures: Mapping[str, Any]
    settings: Mapping[str, Any]
    history: tuple[HistoryRow, ...]
    trained: Arrays = field(default_factory=dict)
    calibration: Calibration | None = None


def check_place(folder: Path) -> None:
    """Refuse a place where no artefact could be written, before anything is charged for it."""
    for package in ("pyarrow.parquet", "onnx", "onnxruntime"):
        optional(package, extra="explain")
    check_output_folder(folder)
    check_output_folder(folder / LOGS)
    files = (*_ALWAYS, *_OF_A_SURROGATE, BLACK_BOX, MANIFEST, REPORT)
    for name in files if folder.exists() else ():
        check_output(folder / name)


def write_artefact(contents: Contents, folder: Path) -> Path:
    """Write everything but the logs and the manifest; `finish` makes it an artefact."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (MANIFEST, BLACK_BOX, *_OF_A_SURROGATE):  # of an earlier run, which had others
        (folder / name).unlink(missing_ok=True)
    replace_file(folder / SCHEMA, contents.schema.dumps().encode())
    if contents.black_box is not None:
        arrays = arrays_of(contents.black_box.network)
        write_arrays(folder / BLACK_BOX, _BLACK_BOX_FILE, arrays, _as_trained(contents))
    if contents.surrogate is not None and contents.explainer is not None:
        save(contents.surrogate, folder / SURROGATE)
        save(contents.explainer, folder / EXPLAINER)
        export_onnx(contents.explainer, folder / EXPLAINER_ONNX, example=contents.reference[:16])
    _write_rows(contents.schema, contents.reference, folder / REFERENCE)
    promised = {"guarantees": [guarantee.to_dict() for guarantee in contents.guarantees]}
    write_json(folder / GUARANTEES, {**promised, **contents.statement})
    write_json(folder / FIGURES, contents.figures)
    write_history(without_times(contents.history), folder / HISTORY)
    return folder


def finish(folder: Path, name: str, settings: Mapping[str, Any]) -> Artefact:
    """Write the manifest over the files of the format; the report may be written anew any time."""
    found = {name for name in (BLACK_BOX, SURROGATE) if (folder / name).exists()}
    listed = _expected(settings["logs"], found)
    write_manifest(folder, name, settings, listed)
    return load_artefact(folder)


@dataclass(frozen=True, eq=False)
class Artefact:
    """A finished artefact, every file of which is what its manifest says."""

    folder: Path
    name: str
    settings: Mapping[str, Any]
    has_model: bool
    """Whether the black box was trained by the federation, and is here."""
    has_surrogate: bool = True
    """Whether there are a surrogate and a fast explainer."""
    additive: ClassVar[None] = None
    _home: Path = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Files are read when they are needed, wherever the process has gone meanwhile."""
        object.__setattr__(self, "_home", self.folder.absolute())

    @cached_property
    def schema(self) -> Schema:
        return Schema.load(self._home / SCHEMA)

    @cached_property
    def network(self) -> NetworkModel:
        """The private black box."""
        arrays, _ = self._black_box
        return NetworkModel.from_arrays(self.schema, OutputHead.of_label(self.schema), arrays)

    @cached_property
    def _black_box(self) -> tuple[Arrays, dict[str, Any]]:
        if not self.has_model:
            raise Refused(
                "this artefact explains an external model; it holds the surrogate, not the model"
            )
        return array_file.read(self._home / BLACK_BOX, _BLACK_BOX_FILE)

    @property
    def trained(self) -> Arrays:
        """The black box as the rounds left it, before it was calibrated.

        `VerificationFailed` if the model is not what its own calibration makes of these arrays.
        """
        arrays, (_, label) = arrays_of(self.network.network), self._black_box
        if _CALIBRATION not in label:
            return arrays
        with damaged(self.folder / BLACK_BOX):
            calibration, layer = Calibration.from_plain(label[_CALIBRATION]), label[_TRAINED]
            before = {name: np.array(layer[name], np.float32) for name in last_layer(arrays)}
            after = calibration.fold({**arrays, **before})
        if not all(np.array_equal(after[name], arrays[name]) for name in arrays):
            raise VerificationFailed(
                f"{self.folder / BLACK_BOX}: the model is not the trained one after calibration"
            )
        return {**arrays, **before}

    @cached_property
    def model(self) -> WrappedModel:
        """The private black box, as every part of voile takes it."""
        network = self.network
        return WrappedModel(
            forward=NetworkModelForward(network),
            identity=lambda: network.digest,
            width=len(network.feature_names),
            feature_names=network.feature_names,
            output_names=network.output_names,
            outputs=network.outputs,
            source=network,
        )

    def predict(self, rows: Any) -> Outputs:
        """What the private black box says, (n, outputs): the probability of each category of the
        label in the schema's order, or the number that is expected.

        Args:
            rows: a DataFrame or another table by column name, or an array in the schema's numbers;
                values outside the schema are clamped, missing ones are its defaults.
        """
        inside = self.schema.rows(rows) if is_table(rows) else self.schema.clamp(rows)
        return self.network.predict(inside)

    @cached_property
    def surrogate(self) -> Surrogate:
        """Refused where the pipeline has none."""
        self._check_surrogate()
        return load_surrogate(self._home / SURROGATE)

    @cached_property
    def surrogate_model(self) -> WrappedModel:
        """The surrogate, as every part of voile takes a model."""
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
    def reference(self) -> Rows:
        """Public rows."""
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
        return bool(self.settings.get("reference_invented", False))

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
    return Artefact(folder, head["name"], settings, BLACK_BOX in files, SURROGATE in files)


def _expected(logs: Mapping[str, str], files: Collection[str]) -> frozenset[str]:
    """All files of an artefact with these networks, but the manifest and the report."""
    networks = frozenset({BLACK_BOX} & set(files))
    if SURROGATE in files or not networks:
        networks |= _OF_A_SURROGATE
    return _ALWAYS | files_of_logs(logs) | networks


def _as_trained(contents: Contents) -> dict[str, Any]:
    """What leads from the saved model back to the trained one, whose digest is in the log."""
    if contents.calibration is None:
        return {}
    layer = {name: contents.trained[name].tolist() for name in last_layer(contents.trained)}
    return {_CALIBRATION: contents.calibration.plain, _TRAINED: layer}


def _write_rows(schema: Schema, rows: Rows, path: Path) -> None:
    pyarrow = optional("pyarrow", extra="explain")
    parquet = optional("pyarrow.parquet", extra="explain")
    columns = {name: np.asarray(column).tolist() for name, column in schema.table(rows).items()}
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(columns), sink)
    replace_file(path, sink.getvalue().to_pybytes())
