"""Models, whatever made them, behind one protocol.

Wrap what you have:
    `wrap` takes scikit-learn estimators, torch modules, ONNX files and sessions, XGBoost and
    LightGBM, and any callable; the result is a `WrappedModel`. `WrappedModel.only` keeps some of
    the outputs. `compare_predictions` gives its owner a `PredictionComparison` of a wrapped
    pipeline with the pipeline itself.

    `raw_scores` makes a model of a classifier's scores, before they become probabilities.

Say where outputs lie (a guarantee needs it):
    `Simplex` (derived for classifiers), `Box`, `Unbounded`; all are `DeclaredOutputs`. Outputs
    outside are clamped and counted in `WrappedModel.diagnostics`, which never leaves its owner.

Say whether rows are treated one by one (guarantees about them need that, too):
    `row_wise` tells whether that is known (`RowWise.KNOWN`) or declared. All other models get one
    protected row in a call.

Load one by name:
    `load_model("model.onnx")`, `load_model("package.module:object")`; pickles are refused.
    `names_model` and `names_object` tell what a text is called like.

Write an adapter of your own:
    anything that satisfies `Model` is one; `DifferentiableModel` for gradient methods,
    `CoalitionModel` for surrogates that know absent features. `digest_of` gives it an identity.
"""

from voile.models.digests import digest_of
from voile.models.loading import load_file, load_model, names_model, names_object
from voile.models.outputs import Box, DeclaredOutputs, Outputs, Simplex, Unbounded
from voile.models.wrapped import (
    CoalitionModel,
    Diagnostics,
    DifferentiableModel,
    Model,
    Presence,
    Rows,
    RowWise,
    WrappedModel,
    known_model,
    row_wise,
)
from voile.models.wrapping import compare_predictions, raw_scores, wrap

__all__ = [
    "Box",
    "CoalitionModel",
    "DeclaredOutputs",
    "Diagnostics",
    "DifferentiableModel",
    "Model",
    "Outputs",
    "Presence",
    "RowWise",
    "Rows",
    "Simplex",
    "Unbounded",
    "WrappedModel",
    "compare_predictions",
    "digest_of",
    "known_model",
    "load_file",
    "load_model",
    "names_model",
    "names_object",
    "raw_scores",
    "row_wise",
    "wrap",
]
