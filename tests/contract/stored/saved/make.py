"""Makes what lies beside it: a saved file of every kind, as written before they had one format.

    python -m tests.contract.stored.saved.make

Run once, with the version whose files must stay readable. Never run it again.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.unit.core.test_explanation_file import COMPLETE, PLAIN, explain
from tests.unit.recommenders import examples as shops
from voile.app.recommend import save_recommender
from voile.attribution.fastshap import FastShap, save, train_explainer, train_surrogate
from voile.core.explanation import Explanation
from voile.core.randomness import Seeded
from voile.core.row_note import KnownNote, RowNote
from voile.federation.stored_text import write_arrays
from voile.models import wrap
from voile.training import TrainingPlan

FOLDER = Path(__file__).parent
EXPLANATIONS: dict[str, Explanation] = {
    "complete": COMPLETE,
    "plain": PLAIN,
    "text": explain(
        values=[[1.0, -0.0], [0.1, 5e-324]],
        base_values=[0.25],
        feature_names=("colour", "größe"),
        data=[["red", ""], ["grün", "\U0001f600 wide"]],
    ),
    "intervals": explain(
        values=np.arange(6.0).reshape(1, 3, 2) / 7,
        base_values=[[1.0, 2.0]],
        feature_names=("a", "b", "c"),
        output_names=("no", "yes"),
        half_widths=np.arange(6.0).reshape(1, 3, 2) / 3,
        notes=(KnownNote.SEEDED_NOISE, RowNote("tolerance not reached", (0,))),
    ),
}
KIND = "a kind of file"
LABEL: dict[str, Any] = {"round": 3, "note": None, "event": "größe", "figures": {"loss": 0.1}}
ARRAYS: dict[str, Any] = {
    "layer/weights": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "layer/shift": np.array([np.nan, -0.0, np.inf], np.float32),
    "steps": np.array([7], np.int64),
}
POINTS = np.random.default_rng(1).random((10, 3))


@cache
def learned() -> FastShap:
    def forward(given: Any) -> Any:
        return np.stack([given[:, 0] * given[:, 1], 1 + given[:, 2]], axis=1)

    rows = np.random.default_rng(0).random((100, 3))
    plan = TrainingPlan(steps=5, batch_rows=32, hidden=(4,))
    taught = train_surrogate(wrap(forward), rows, source=Seeded(0), plan=plan)
    return train_explainer(taught, rows, source=Seeded(1), plan=plan)


if __name__ == "__main__":
    for name, explanation in EXPLANATIONS.items():
        explanation.save(FOLDER / f"{name}.voile")
    write_arrays(FOLDER / "round.safetensors", KIND, ARRAYS, LABEL)
    save(learned(), FOLDER / "explainer.safetensors")
    np.save(FOLDER / "explained.npy", learned()(POINTS).values)
    save_recommender(shops.moments(shops.shop(1000)), FOLDER / "shop")
