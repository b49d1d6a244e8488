"""Both ways of clipping equal one backward pass per record, and Opacus."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.unit.training.private.reference import clipped, gradients
from tests.unit.training.twins import Lines, lines, module_of, network, tensors
from torch import nn

from voile.training import Batch, Softmax, TargetLoss
from voile.training.private import ModuleSum, PerceptronSum


def one_line(module: nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return nn.functional.cross_entropy(module(batch[0]), batch[1], reduction="none")


def batch_of(seed: int, lines: int | None, count: int = 23) -> Batch:
    draw = np.random.default_rng(seed)
    shape = (count,) if lines is None else (count, lines)
    wanted = draw.random((*shape, 3)).astype(np.float32)
    return (2 * draw.normal(size=(*shape, 5))).astype(np.float32), Softmax().means(4 * wanted)


@pytest.mark.parametrize("way", ["perceptron", "any module"])
@pytest.mark.parametrize("count", [None, 1, 6], ids=["one line", "one of one", "six lines"])
@pytest.mark.parametrize("widths", [(5, 8, 6, 3), (5, 3), (5, 1, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_sums_equal_one_backward_pass_per_record(
    way: str, count: int | None, widths: tuple[int, ...], seed: int
) -> None:
    made, batch = network(seed, *widths), batch_of(seed, count)
    module, twin = module_of(made), one_line if count is None else lines
    exact = gradients(module, twin, tensors(batch))
    ours = PerceptronSum(made, TargetLoss(Softmax()) if count is None else Lines())
    theirs = ModuleSum(module, twin, chunk=7)
    wanted = np.linalg.norm(exact, axis=1)
    for share in (0.2, 0.8):
        norm = float(np.quantile(wanted, share))
        if way == "perceptron":
            norms, total = ours.add_up(batch, norm), ours.total
        else:
            norms, total = theirs.add_up(tensors(batch), norm), theirs.total
        assert np.linalg.norm(total - clipped(exact, norm)) <= 1e-6 * len(batch[0]) * norm
        np.testing.assert_allclose(norms, wanted, rtol=1e-5, atol=1e-6)


def test_batches_of_changing_size_do_not_see_each_other() -> None:
    """Buffers are kept from step to step, and grow."""
    made = network(0, 5, 8, 3)
    sums = PerceptronSum(made, TargetLoss(Softmax()))
    for count in (7, 30, 2, 30):
        batch = batch_of(count, None, count)
        sums.add_up(batch, 0.5)
        alone = PerceptronSum(made, TargetLoss(Softmax()))
        alone.add_up(batch, 0.5)
        assert np.array_equal(sums.total, alone.total)


@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_opacus_agrees() -> None:
    opacus = pytest.importorskip("opacus")
    made, draw = network(0, 12, 64, 64, 2, size=0.2), np.random.default_rng(1)
    labels = np.arange(64) % 2
    batch = (draw.normal(size=(64, 12)).astype(np.float32), np.eye(2, dtype=np.float32)[labels])
    sums = PerceptronSum(made, TargetLoss(Softmax()))
    sums.add_up(batch, 1.0)
    module = module_of(made)
    wrapped = opacus.GradSampleModule(module, loss_reduction="sum")
    torch.autograd.backward(one_line(wrapped, tensors(batch)).sum())
    rows = torch.cat([vars(p)["grad_sample"].flatten(1) for p in module.parameters()], 1)
    wanted = clipped(rows.double().numpy(), 1.0)
    np.testing.assert_allclose(sums.total, wanted, rtol=0, atol=1e-5)
