"""The model that KServe's documentation asks: flowers, by four lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from voile.core.schema import Feature, Numbers, Schema

NAMES: Final = ("sepal_length", "sepal_width", "petal_length", "petal_width")
SCHEMA: Final = Schema("iris", tuple(Feature(name, Numbers(0, 10), 3.0) for name in NAMES))
_FLOWERS, _KINDS = load_iris(return_X_y=True)
MODEL: Final = LogisticRegression(max_iter=500).fit(_FLOWERS, _KINDS)
TABLES: Final = """
[models.sklearn-iris]
source = "tests.unit.server.iris:MODEL"
origin = "public"
[schemas.iris]
file = "iris.toml"
[backgrounds.iris]
file = "iris.csv"
origin = "public"
[releases.sklearn-iris]
model = "sklearn-iris"
schema = "iris"
background = "iris"
protect = "training"
anonymous = true
"""


def flowers_beside(folder: Path) -> Path:
    """A workspace with a free release of this model, called as in KServe's documentation."""
    (folder / "iris.toml").write_text(SCHEMA.dumps())
    lines = [",".join(NAMES), *(",".join(map(str, row)) for row in _FLOWERS[::15])]
    (folder / "iris.csv").write_text("\n".join(lines) + "\n")
    file = folder / "voile.toml"
    text = file.read_text()
    before, serve, after = text.partition("[serve]")
    file.write_text(before + TABLES + serve + after)
    return folder
