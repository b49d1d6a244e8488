"""Small networks and how they are trained; with privacy: `voile.training.private`.

Make one: `perceptron` (a `Perceptron`, in numpy); its answers are read through a head: `Softmax`
(probabilities of classes), `Sigmoid` (numbers between bounds), `Identity` (any numbers), all a
`Head`. Parameters by name: `arrays_of`, and back: `with_arrays`.

Train one: `fit` takes a network, a source of batches and a per-record `Loss`, follows a
`TrainingPlan` (steps, batch, one-cycle rate) and returns a `TrainingHistory`. `TargetLoss` compares
outputs with targets by a `Distance`: `divergence` or `squared_distance`. Single steps: `PlainSteps`
with an optimiser of `voile.training.private`.

Randomness always comes in as a numpy generator of a `voile.core.randomness` source. Nothing here
needs torch; whoever trains a network of their own with privacy finds the way in
`voile.training.private`.
"""

from voile.training.loop import (
    PlainSteps,
    Progress,
    TrainingHistory,
    TrainingPlan,
    fit,
    mean_loss,
    one_cycle,
)
from voile.training.losses import (
    Batch,
    Distance,
    Head,
    Identity,
    Loss,
    Sigmoid,
    Softmax,
    TargetLoss,
    divergence,
    squared_distance,
)
from voile.training.perceptron import Array, Perceptron, arrays_of, perceptron, with_arrays

__all__ = [
    "Array",
    "Batch",
    "Distance",
    "Head",
    "Identity",
    "Loss",
    "Perceptron",
    "PlainSteps",
    "Progress",
    "Sigmoid",
    "Softmax",
    "TargetLoss",
    "TrainingHistory",
    "TrainingPlan",
    "arrays_of",
    "divergence",
    "fit",
    "mean_loss",
    "one_cycle",
    "perceptron",
    "squared_distance",
    "with_arrays",
]
