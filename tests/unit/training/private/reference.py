"""Clipped sums the slow and obvious way: one backward pass for each record, in double precision."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from voile.training.private.modules import ModuleLoss


def gradients(
    network: nn.Module, loss: ModuleLoss, batch: tuple[Tensor, ...]
) -> NDArray[np.float64]:
    """One flat gradient for each record, shape (n, parameters)."""
    network = copy.deepcopy(network).double()
    found = []
    for place in range(len(batch[0])):
        record = tuple(t[place : place + 1] for t in batch)
        record = tuple(t.double() if t.is_floating_point() else t for t in record)
        network.zero_grad()
        torch.autograd.backward(loss(network, record).sum())
        parameters = [p for p in network.parameters() if p.requires_grad]
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        found.append(torch.cat([part.reshape(-1) for part in parts]).numpy())
    return np.stack(found)


def clipped(rows: NDArray[np.float64], norm: float) -> NDArray[np.float64]:
    """The sum of rows, each scaled down to the norm; rows that are not finite add nothing."""
    rows = rows[np.isfinite(rows).all(axis=1)]
    factors = np.minimum(norm / np.linalg.norm(rows, axis=1), 1.0)
    total: NDArray[np.float64] = (rows * factors[:, np.newaxis]).sum(axis=0)
    return total
