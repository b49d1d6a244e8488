"""Small networks and how they are trained; with privacy: `voile.training.private`.

Make one: `perceptron`; its answers are read through a head: `Softmax` (probabilities of classes),
`Sigmoid` (numbers between bounds), `Identity` (any numbers), all a `Head`.

Train one: `fit` takes a network, a source of batches and a per-record `Loss`, follows a
`TrainingPlan` (steps, batch, one-cycle rate) and returns a `TrainingHistory`. Losses of surrogates:
`divergence`, `squared_distance`.

Draw coalitions: `uniform_sizes` (surrogates), `kernel_pairs` (Shapley regressions),
`CoalitionChains` (unbiased Shapley estimates from permutations).

Randomness always comes in as a numpy generator of a `voile.core.randomness` source; torch's global
generator is neither read nor changed. torch is imported when a network is made, not before.
"""

from voile.training.coalitions import CoalitionChains, kernel_pairs, uniform_sizes
from voile.training.heads import Head, Identity, Sigmoid, Softmax, divergence, squared_distance
from voile.training.loop import Batch, Batches, Loss, fit
from voile.training.networks import arrays_of, perceptron, with_arrays
from voile.training.plan import Progress, TrainingHistory, TrainingPlan, TrainingPoint
from voile.training.schedule import one_cycle

__all__ = [
    "Batch",
    "Batches",
    "CoalitionChains",
    "Head",
    "Identity",
    "Loss",
    "Progress",
    "Sigmoid",
    "Softmax",
    "TrainingHistory",
    "TrainingPlan",
    "TrainingPoint",
    "arrays_of",
    "divergence",
    "fit",
    "kernel_pairs",
    "one_cycle",
    "perceptron",
    "squared_distance",
    "uniform_sizes",
    "with_arrays",
]
