"""DP-SGD for torch modules: the quick way for known layers in a row, the general way for any other.

Only what one record adds is computed in torch; draw, noise, optimiser and promise are those of
`fit_privately`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from voile.core.randomness import GeneratorSource
from voile.training.optimisers import Optimiser
from voile.training.private.convolutions import LayerSum, known_layers
from voile.training.private.loop import SPEED, private_steps
from voile.training.private.module_sums import ModuleLoss, ModuleSum, Tensors
from voile.training.private.settings import PrivateRun, PrivateSteps, TrainingSpeed

if TYPE_CHECKING:
    from torch import nn


def fit_module_privately(
    network: nn.Module,
    records: Tensors,
    loss: ModuleLoss,
    privacy: PrivateSteps,
    *,
    optimiser: Optimiser,
    source: GeneratorSource | None = None,
    prepare: Callable[[Tensors], Tensors] | None = None,
    speed: TrainingSpeed = SPEED,
) -> PrivateRun:
    """`fit_privately` for a torch module, unless its layers mix records.

    A `torch.nn.Sequential` of torch's own convolutions, linear layers, group norms, poolings and
    activations takes the quick way (`LayerSum`), any other network the general one (`ModuleSum`).

    Args:
        network: its float32 parameters that require gradients are changed when the run is complete.
        records: tensors whose first axis is the record.
        loss: one figure for each record; of the network it may only use the answers.
        privacy, optimiser, source, prepare, speed: as there.
    """
    way = ModuleSum if known_layers(network) is None else LayerSum
    sums = way(network, loss, speed.chunk)
    run = private_steps(sums, records, privacy, optimiser, source, prepare, speed)
    sums.write_back()
    return run
