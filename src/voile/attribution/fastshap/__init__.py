"""Learned explainers (FastSHAP): Shapley values in one pass of a network.

Train:
    `train_surrogate` imitates a model on coalitions (`Surrogate`, with its `Fidelity`);
    `train_explainer` learns the surrogate's Shapley values from typical rows (`FastShap`), by
    `KernelRegression` or another `Objective`; plans: `SURROGATE_PLAN`, `EXPLAINER_PLAN`.

Train without data:
    `distil` learns on rows drawn from a public schema (`DistilledExplainer`, `draw_rows`), most of
    them such that the surrogate agrees with itself (`consistent_rows`), with frequencies that it
    reveals (`inferred_marginals`, `Marginals`).

Judge:
    `quality` against exact or sampled values (`Quality`, `exact_values`, `sampled`); `check` tells
    for single explanations whether they can be believed (`Check`).

Keep:
    `save`, `load_explainer`, `load_surrogate` (safetensors), `export_onnx`.

All networks are perceptrons in numpy (`voile.training`).
"""

from voile.attribution.fastshap.checking import (
    Check,
    Quality,
    check,
    exact_values,
    quality,
    sampled,
)
from voile.attribution.fastshap.distil import (
    EXPLAINER_PLAN,
    DistilledExplainer,
    consistent_rows,
    distil,
    inferred_marginals,
    train_explainer,
)
from voile.attribution.fastshap.explainer import LEARNED, FastShap
from voile.attribution.fastshap.files import export_onnx, load_explainer, load_surrogate, save
from voile.attribution.fastshap.objectives import KernelRegression, Objective
from voile.attribution.fastshap.surrogate import SURROGATE_PLAN, Surrogate, train_surrogate
from voile.core.schema.schema import draw_rows

__all__ = [
    "EXPLAINER_PLAN",
    "LEARNED",
    "SURROGATE_PLAN",
    "Check",
    "DistilledExplainer",
    "FastShap",
    "KernelRegression",
    "Objective",
    "Quality",
    "Surrogate",
    "check",
    "consistent_rows",
    "distil",
    "draw_rows",
    "exact_values",
    "export_onnx",
    "inferred_marginals",
    "load_explainer",
    "load_surrogate",
    "quality",
    "sampled",
    "save",
    "train_explainer",
    "train_surrogate",
]
