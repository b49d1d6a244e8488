"""Makes `levels.zip` and `shop.zip` with the commands of the voile that is installed.

They hold answers of every transparency level, of the strongest features and of a recommender, made
with the version before the walk of an explanation became one file. They are kept as they were: run
this only to make files of another version, elsewhere:

    python -m tests.contract.stored.answers.make FOLDER

The keys in them are for tests: everybody can read them, so they protect and prove nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from tests.contract.stored.previous.make import OPEN_BACKGROUND, PEOPLE, model, pack, voile
from tests.unit.recommenders import examples as shops

SCHEMA: Final = """\
name = "loans"

[features.income]
kind = "continuous"
bounds = [0.0, 10.0]
default = 5.0
semantic = "earning"

[features.debt]
kind = "continuous"
bounds = [0.0, 10.0]
default = 5.0
semantic = "owing"
"""
_ASKED: Final = ("--schema", "loans.toml", "--between", "0", "1", "--model-origin", "public")
_APPLICANTS: Final = ("explain", "model.onnx", "applicants.csv", *_ASKED)
_CUSTOMERS: Final = ("explain", "model.onnx", "customers.csv", *_ASKED)
_PAID: Final = (
    *(*_APPLICANTS, "--protect", "background", "--background", "customers.csv"),
    *("--account", "customers", "--epsilon", "0.3", "--level"),
)
LEVELS: Final[dict[str, tuple[str, ...]]] = {
    "summary": (*_PAID, "summary"),
    "aggregate": (*_PAID, "aggregate", "--clusters", "clusters.json"),
    "detailed": (*_PAID, "detailed"),
    "granular": (*_PAID, "granular", "--role", "auditor"),
    "top-of-population": (
        *(*_CUSTOMERS, *OPEN_BACKGROUND, "--protect", "population", "--account", "customers"),
        *("--epsilon", "0.3", "--top", "1"),
    ),
    "top-of-rows": (
        *(*_APPLICANTS, *OPEN_BACKGROUND, "--protect", "explained-row"),
        *("--account", "people", "--id-column", "id", "--top", "1"),
    ),
}
_TOLD: Final = (
    *("recommend", "explain", "made", "lines.csv", "--to", "others", "--by-what", "genre"),
    *("--account", "users", "--epsilon", "0.5"),
)
SHOP: Final[dict[str, tuple[str, ...]]] = {
    "top-labels": (*_TOLD, "--user", "7", "--top", "1"),
    "profile": (*_TOLD, "--user", "8", "--delta", "1e-7"),
    "importance": (*_TOLD, "--delta", "1e-7"),
}
TRAIN: Final = (
    *("recommend", "train", "items.csv", "lines.csv", "--account", "users"),
    *("--epsilon", "2", "--delta", "1e-6"),
)


def make_levels(folder: Path) -> None:
    """Accounts over customers and over people, and an answer of each kind."""
    draw = np.random.default_rng(1)
    rows = [f"{income:.2f},{debt:.2f}" for income, debt in draw.uniform(0, 10, size=(30, 2))]
    (folder / "loans.toml").write_text(SCHEMA)
    (folder / "applicants.csv").write_text("id,income,debt\nada,3,6\nbob,9,1\n")
    (folder / "public.csv").write_text("income,debt\n2,1\n5,4\n8,2\n")
    (folder / "customers.csv").write_text("\n".join(["income,debt", *rows, ""]))
    (folder / "clusters.json").write_text(json.dumps({"money": ["income", "debt"]}))
    onnx.save(model(), folder / "model.onnx")
    voile(folder, "audit", "init", "log.db", "--origin", "example.org/loans")
    terms = ("--epsilon", "9", "--delta", "1e-5")
    voile(folder, "budget", "open", "log.db", "customers", "--dataset", "customers v1", *terms)
    voile(folder, "budget", "open", "log.db", "people", "--dataset", "people v1", *terms, *PEOPLE)
    for name, words in LEVELS.items():
        voile(folder, *words, "--output", f"{name}.voile")


def make_shop(folder: Path) -> None:
    """A recommender that was paid for, and what others are told about its users."""
    items, columns = shops.catalogue(), shops.table(800)
    named = zip(items.items, items.titles, items.kinds["genre"], strict=True)
    lines = [f"{item},{title},{'|'.join(genres)}" for item, title, genres in named]
    (folder / "items.csv").write_text("\n".join(["item,title,genre", *lines, ""]))
    pairs = zip(columns["user"].tolist(), columns["item"].tolist(), strict=True)
    (folder / "lines.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in pairs))
    voile(folder, "audit", "init", "log.db", "--origin", "example.org/shop")
    terms = ("--unit", "user", "--dataset", "shop v1", "--epsilon", "9", "--delta", "1e-5")
    voile(folder, "budget", "open", "log.db", "users", *terms, "--parallel")
    voile(folder, *TRAIN, "--output", "made")
    for name, words in SHOP.items():
        voile(folder, *words, "--output", f"{name}.voile")


def main(folder: Path) -> None:
    for name, make in (("levels", make_levels), ("shop", make_shop)):
        (folder / name).mkdir(parents=True)
        make(folder / name)
        pack(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
