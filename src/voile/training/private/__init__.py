"""DP-SGD: training whose result is private for each record.

Train: `fit_privately` takes a perceptron, records, a per-record loss and `PrivateSteps` (everything
the guarantee depends on) and returns a `PrivateRun` with the event that an account is charged.
Parameters move by `Sgd` or `Adam`; `Proximal` draws them to where they began (FedProx).
`TrainingSpeed` changes no promise.

Train a torch module of your own: `fit_module_privately`, the one place of training that needs
torch. Convolutions, linear layers, group norms and poolings in a row take a quick way, any other
module a general one; both promise the same.

Protect declared columns of a row only, with less noise: `fit_attributes_privately` clips the
difference that `PrivateColumns` make; `AttributeSteps` is what it promises.

Choose the clipping norm: `classifier_norm` and `surrogate_norm` follow from the declared rows of a
client.

A record with a NaN is the null record of "zero-out" and adds nothing: `blank_records`.

Sums of clipped gradients, `PerceptronSum`, `LayerSum` and `ModuleSum`, are a `ClippedSum`; what
they promise is written there.
"""

from voile.training.optimisers import Adam, Optimiser, Proximal, Sgd
from voile.training.private.attributes import (
    AttributeSteps,
    PrivateColumns,
    fit_attributes_privately,
)
from voile.training.private.loop import PerceptronSum, Prepare, blank_records, fit_privately
from voile.training.private.modules import LayerSum, ModuleSum, fit_module_privately
from voile.training.private.settings import (
    PrivateSteps,
    TrainingSpeed,
    classifier_norm,
    surrogate_norm,
)

__all__ = [
    "Adam",
    "AttributeSteps",
    "LayerSum",
    "ModuleSum",
    "Optimiser",
    "PerceptronSum",
    "Prepare",
    "PrivateColumns",
    "PrivateSteps",
    "Proximal",
    "Sgd",
    "TrainingSpeed",
    "blank_records",
    "classifier_norm",
    "fit_attributes_privately",
    "fit_module_privately",
    "fit_privately",
    "surrogate_norm",
]
