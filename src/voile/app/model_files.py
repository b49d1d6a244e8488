"""Models as files of an artefact and of a trained model's folder, and as voile takes a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from voile.core import array_file
from voile.core.atomic_file import replace_file
from voile.core.errors import VerificationFailed
from voile.core.input_file import damaged
from voile.core.optional import optional
from voile.core.schema import Rows, Schema
from voile.federation.arrays import Arrays
from voile.federation.stored_text import write_arrays
from voile.models import Outputs, WrappedModel
from voile.models.additive import AdditiveModel
from voile.models.wrapped import Forward, InspectedForward
from voile.pipelines.calibration import Calibration, last_layer
from voile.pipelines.tables import NetworkModel, NetworkModelForward
from voile.training import arrays_of

SCHEMA: Final = "schema.toml"
BLACK_BOX: Final = "black_box.safetensors"
REFERENCE: Final = "reference.parquet"
_BLACK_BOX_FILE: Final = "voile black box"
_CALIBRATION: Final = "calibration"
_TRAINED: Final = "trained"

Writer: TypeAlias = Callable[[Path], object]
"""Writes one file, whole or not at all."""
Files: TypeAlias = Mapping[str, Writer]
"""What a pipeline leaves in its artefact, by the name of the file."""
Label: TypeAlias = dict[str, Any]
"""What stands in the file of a network beside its arrays."""


# --- tables ---------------------------------------------------------------------------------------


def table_files(schema: Schema, reference: Rows) -> Files:
    """What rows look like, and public ones to compare with."""
    return {
        SCHEMA: lambda path: replace_file(path, schema.dumps().encode()),
        REFERENCE: partial(_write_rows, schema, reference),
    }


def _write_rows(schema: Schema, rows: Rows, path: Path) -> None:
    pyarrow = optional("pyarrow", extra="explain")
    parquet = optional("pyarrow.parquet", extra="explain")
    columns = {name: np.asarray(column).tolist() for name, column in schema.table(rows).items()}
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(columns), sink)
    replace_file(path, sink.getvalue().to_pybytes())


# --- networks -------------------------------------------------------------------------------------


def network_files(
    model: NetworkModel, trained: Arrays, calibration: Calibration | None = None
) -> Files:
    """A network.

    Args:
        trained, calibration: the arrays as they were trained, and what was done to them.
    """
    label = {} if calibration is None else _as_trained(trained, calibration)
    arrays = arrays_of(model.network)
    return {BLACK_BOX: lambda path: write_arrays(path, _BLACK_BOX_FILE, arrays, label)}


def read_network(path: Path) -> tuple[Arrays, Label]:
    """What `network_files` wrote."""
    return array_file.read(path, _BLACK_BOX_FILE)


def trained_arrays(arrays: Arrays, label: Label, path: Path) -> Arrays:
    """The arrays before calibration.

    `VerificationFailed` if the model is not what its own calibration makes of these.
    """
    if _CALIBRATION not in label:
        return arrays
    with damaged(path):
        calibration, layer = Calibration.from_plain(label[_CALIBRATION]), label[_TRAINED]
        before = {name: np.array(layer[name], np.float32) for name in last_layer(arrays)}
        after = calibration.fold({**arrays, **before})
    if not all(np.array_equal(after[name], arrays[name]) for name in arrays):
        raise VerificationFailed(f"{path}: the model is not the trained one after calibration")
    return {**arrays, **before}


def _as_trained(trained: Arrays, calibration: Calibration) -> Label:
    """What leads from the saved model back to the trained one, whose digest is in the log."""
    layer = {name: trained[name].tolist() for name in last_layer(trained)}
    return {_CALIBRATION: calibration.plain, _TRAINED: layer}


def wrapped_network(network: NetworkModel) -> WrappedModel:
    """What a network says, as every part of voile takes a model."""
    return _wrapped(network, NetworkModelForward(network))


def _wrapped(model: NetworkModel | AdditiveModel, forward: Forward) -> WrappedModel:
    return WrappedModel(
        forward=forward,
        identity=lambda: model.digest,
        width=len(model.feature_names),
        feature_names=model.feature_names,
        output_names=model.output_names,
        outputs=model.outputs,
        source=model,
    )


# --- additive models ------------------------------------------------------------------------------


@dataclass(frozen=True)
class AdditiveForward(InspectedForward):
    """What an additive model says, for `WrappedModel`: each row is looked up by itself."""

    model: AdditiveModel

    def __call__(self, rows: Any) -> Outputs:
        return self.model.predict(rows)

    def steady(self) -> Forward | None:
        return self if type(self.model) is AdditiveModel else None


def wrapped_additive(additive: AdditiveModel) -> WrappedModel:
    """The probabilities of an additive model, as every part of voile takes a model."""
    return _wrapped(additive, AdditiveForward(additive))
