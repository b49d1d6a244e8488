"""Clipped sums the slow and obvious way: one backward pass for each record, in double precision."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from voile.training import Batch, Loss


def gradients(network: nn.Module, loss: Loss, batch: Batch) -> Tensor:
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
        found.append(torch.cat([part.reshape(-1) for part in parts]))
    return torch.stack(found)


def clipped(rows: Tensor, norm: float) -> Tensor:
    """The sum of rows, each scaled down to the norm; rows that are not finite add nothing."""
    rows = rows[rows.isfinite().all(1)]
    factors = (norm / rows.norm(dim=1)).clamp(max=1)
    total: Tensor = (rows * factors[:, None]).sum(0)
    return total
