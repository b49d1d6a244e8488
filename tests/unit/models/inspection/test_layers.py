"""Which networks are known to treat the rows of a batch one by one, and which are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from voile.core.errors import InvalidInput
from voile.models import RowWise, known_model, row_wise, wrap

ROWS = np.random.default_rng(3).normal(size=(60, 4))


def networks() -> tuple[list[Any], list[Any]]:
    from torch import nn

    class Own(nn.Module):
        def forward(self, x: Any) -> Any:
            return x - x.mean(dim=0)

    class OwnLinear(nn.Linear):
        pass

    line = nn.Linear(4, 3)
    known = [
        nn.Sequential(line, nn.ReLU(), nn.Sequential(nn.Linear(3, 2), nn.Softmax(dim=1))),
        nn.Sequential(line, nn.BatchNorm1d(3), nn.Dropout(), nn.LayerNorm(3), nn.Flatten()),
        nn.Sequential(line, nn.GELU(), nn.Linear(3, 2), nn.LogSoftmax(dim=-1)),
        line,
    ]
    unknown = [
        Own(),
        nn.Sequential(line, Own()),
        nn.Sequential(OwnLinear(4, 3)),
        nn.Sequential(line, nn.Softmax(dim=0)),
        nn.Sequential(line, nn.Softmax()),
        nn.Sequential(line, nn.BatchNorm1d(3, track_running_stats=False)),
        nn.Sequential(line, nn.LayerNorm((60, 3))),
        nn.Sequential(line, nn.Flatten(0)),
        nn.Sequential(line, nn.Conv1d(60, 1, 1)),
        nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))),
        nn.Sequential(line, nn.InstanceNorm1d(3)),
        nn.Sequential(line, nn.Threshold(0.0, 1.0)),
        nn.Sequential(line, nn.Hardshrink()),
        nn.Sequential(line, nn.Softplus(threshold=0.0)),
        nn.Sequential(line, nn.LayerNorm(3, eps=0.0)),
    ]
    hooked = nn.Sequential(nn.Linear(4, 3))
    hooked[0].register_forward_hook(lambda *seen: seen[2] - seen[2].mean(0))
    replaced = nn.Sequential(nn.Linear(4, 3))
    replaced[0].forward = lambda x: x - x.mean(0)
    return [each.eval() for each in known], [each.eval() for each in (*unknown, hooked, replaced)]


def test_networks_of_listed_layers_are_known_and_no_others() -> None:
    known, unknown = networks()
    for network in known:
        model = wrap(network)
        assert row_wise(model) is RowWise.KNOWN, network
        alone = [model.predict(row[np.newaxis])[0] for row in ROWS]
        assert np.allclose(model.predict(ROWS), alone, atol=1e-5)
    for network in unknown:
        assert row_wise(wrap(network)) is None, network


def test_a_linear_layer_with_a_vector_for_its_weight_drops_the_features() -> None:
    """What follows would take the batch for them: a softmax over all rows."""
    import torch
    from torch import nn

    for kind in (nn.Softmax, nn.LogSoftmax):
        vector = nn.Linear(4, 1, bias=False)
        vector.weight = nn.Parameter(torch.ones(4))
        network = nn.Sequential(vector, kind(dim=-1)).eval()
        assert row_wise(wrap(network)) is None
    biased = nn.Linear(4, 1)
    biased.bias = nn.Parameter(torch.ones(60, 1))
    assert row_wise(wrap(biased.eval())) is None


@pytest.mark.parametrize("name", ["_call_impl", "_compiled_call_impl", "forward", "note"])
def test_whatever_was_put_on_a_module_is_seen(name: str) -> None:
    from torch import nn

    for place in (0, None):
        network = nn.Sequential(nn.Linear(4, 3)).eval()
        part = network if place is None else network[place]
        part.__dict__[name] = lambda x: x - x.mean(0)
        assert row_wise(wrap(network)) is None


def test_hooks_on_all_modules_are_seen() -> None:
    from torch import nn

    model = wrap(nn.Sequential(nn.Linear(4, 3)).eval())
    hook = nn.modules.module.register_module_forward_hook(lambda *seen: seen[2] - seen[2].mean(0))
    try:
        assert row_wise(model) is None
    finally:
        hook.remove()
    assert row_wise(model) is RowWise.KNOWN


def test_a_known_network_is_asked_in_double_precision() -> None:
    """In single precision answers differ from place to place by more than the slack."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    line = nn.Linear(4, 1)
    with torch.no_grad():
        line.weight *= 1e4
    network = nn.Sequential(line, nn.Sigmoid()).eval()
    known = known_model(wrap(network))
    assert known is not None
    alone = np.concatenate([known.predict(row[np.newaxis]) for row in ROWS])
    assert np.abs(known.predict(ROWS) - alone).max() < 1e-11
    assert line.weight.dtype == torch.float32  # somebody else's object
    for bare in (nn.Sequential(nn.Softmax(dim=1)).eval(), network.half()):
        asked = known_model(wrap(bare))
        assert asked is not None
        assert asked.forward(ROWS).dtype == np.float64


def test_a_part_in_training_mode_is_neither_known_nor_asked() -> None:
    from torch import nn

    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval()
    network[1].train()
    model = wrap(network)
    assert row_wise(model) is None
    with pytest.raises(InvalidInput, match="training mode"):
        model.predict(ROWS)
