"""Which networks are known to treat the rows of a batch one by one, and which are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from voile.core.errors import InvalidInput
from voile.models import RowWise, row_wise, wrap

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


def test_a_part_in_training_mode_is_neither_known_nor_asked() -> None:
    from torch import nn

    network = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval()
    network[1].train()
    model = wrap(network)
    assert row_wise(model) is None
    with pytest.raises(InvalidInput, match="training mode"):
        model.predict(ROWS)
