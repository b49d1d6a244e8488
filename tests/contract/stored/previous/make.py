"""Makes `loans.zip` and `study.zip` with the commands of the voile that is installed.

They were made with the version before `Protected` became one value
(docs/decisions/guarantees.md), and are kept as they were: run this only to make
files of another version, elsewhere:

    python make.py FOLDER

The keys in them are for tests: everybody can read them, so they protect and prove nothing.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SCHEMA = """\
name = "loans"

[features.income]
kind = "continuous"
bounds = [0.0, 10.0]
default = 5.0

[features.debt]
kind = "continuous"
bounds = [0.0, 10.0]
default = 5.0
"""
LABEL = """
[label]
name = "repaid"
categories = ["no", "yes"]
"""
CONFIG = """\
name = "study v1"
schema = "schema.toml"

[privacy]
epsilon = 3
delta = 1e-4

[training]
rounds = 2
hidden = [3]
distillation_steps = 10

[[clients]]
name = "coast"
data = "coast.csv"
rows = 120

[[clients]]
name = "valley"
data = "valley.csv"
rows = 120

[[held_out]]
name = "mountain"
data = "mountain.csv"
"""
APPLICANTS = "id,income,debt\nada,3,6\nbob,9,1\n,4,4\n"
PEOPLE = ("--unit", "explained row", "--relation", "replace one", "--parallel")
ASKED = ("explain", "model.onnx", "applicants.csv", "--schema", "loans.toml", "--between", "0", "1")
PUBLIC = (*ASKED, "--model-origin", "public")
OPEN_BACKGROUND = ("--background", "public.csv", "--background-origin", "public")


def main(folder: Path) -> None:
    (folder / "loans").mkdir(parents=True)
    (folder / "study").mkdir()
    make_loans(folder / "loans")
    make_study(folder / "study")
    for name in ("loans", "study"):
        pack(folder / name)


def make_loans(folder: Path) -> None:
    """A log with keys, accounts, charges, a refusal, a renewal; receipts, files and an export."""
    draw = np.random.default_rng(1)
    rows = [f"{income:.2f},{debt:.2f}" for income, debt in draw.uniform(0, 10, size=(30, 2))]
    (folder / "loans.toml").write_text(SCHEMA)
    (folder / "applicants.csv").write_text(APPLICANTS)
    (folder / "public.csv").write_text("income,debt\n2,1\n5,4\n8,2\n")
    (folder / "customers.csv").write_text("\n".join(["income,debt", *rows, ""]))
    onnx.save(model(), folder / "model.onnx")
    voile(folder, "audit", "init", "log.db", "--origin", "example.org/loans")
    promise = ("--epsilon", "5", "--delta", "1e-5")
    customers = ("--dataset", "customers v1", *promise)
    voile(folder, "budget", "open", "log.db", "customers", *customers)
    below = ("--dataset", "customers v1", "--epsilon", "1", "--delta", "1e-6")
    voile(folder, "budget", "open", "log.db", "branch", *below, "--parent", "customers")
    people = ("--dataset", "people v1", "--epsilon", "9", "--delta", "1e-5", *PEOPLE)
    voile(folder, "budget", "open", "log.db", "people", *people)
    paid = (*PUBLIC, "--protect", "background", "--background", "customers.csv")
    one = (*paid, "--account", "branch", "--epsilon", "0.4")
    voile(folder, *one, "--output", "background.voile")
    voile(folder, *one, "--output", "background.json", "--receipt", "json.tlog-proof")
    voile(folder, *one, "--output", "background.parquet", "--receipt", "parquet.tlog-proof")
    voile(folder, *paid, "--account", "branch", "--epsilon", "3", code=3)
    voile(folder, "budget", "renew", "log.db", "branch", "--reason", "a new year")
    population = ("--protect", "population", "--account", "customers", "--epsilon", "0.5")
    whole = ("explain", "model.onnx", "customers.csv", *PUBLIC[3:], *population)
    voile(folder, *whole, "--output", "population.voile")
    each = (*PUBLIC, *OPEN_BACKGROUND, "--protect", "explained-row", "--account", "people")
    voile(folder, *each, "--id-column", "id", "--output", "people.voile")
    free = (*PUBLIC, *OPEN_BACKGROUND, "--row-receipts", "rows")
    voile(folder, *free, "--output", "free.voile")
    voile(folder, "audit", "export", "log.db", "export")
    voile(folder, "budget", "verify", "log.db", "--replay-key", "replay.key")


def make_study(folder: Path) -> None:
    """A small federation, an explanation of its artefact, and what it says about a few rows."""
    (folder / "schema.toml").write_text(SCHEMA + LABEL)
    (folder / "federation.toml").write_text(CONFIG)
    draw = np.random.default_rng(2)
    for name in ("coast", "valley", "mountain"):
        rows = draw.uniform(0, 10, size=(120, 2))
        lines = [f"{a:.1f},{b:.1f},{'yes' if a > b else 'no'}" for a, b in rows]
        (folder / f"{name}.csv").write_text("\n".join(["income,debt,repaid", *lines, ""]))
    (folder / "rows.csv").write_text("income,debt\n3,6\n9,1\n")
    voile(folder, "federate", "federation.toml")
    voile(folder, "explain", "output/artefact", "rows.csv", "--output", "why.voile")


def model() -> onnx.ModelProto:
    """A logistic score of two features."""
    weights = np.array([[0.4], [-0.3]])  # in double precision: known to treat rows one by one
    inputs = [helper.make_tensor_value_info("rows", TensorProto.DOUBLE, [None, 2])]
    outputs = [helper.make_tensor_value_info("score", TensorProto.DOUBLE, [None, 1])]
    nodes = [
        helper.make_node("MatMul", ["rows", "weights"], ["sum"]),
        helper.make_node("Sigmoid", ["sum"], ["score"]),
    ]
    graph = helper.make_graph(
        nodes, "score", inputs, outputs, [numpy_helper.from_array(weights, "weights")]
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def voile(folder: Path, *words: str, code: int = 0) -> None:
    done = subprocess.run([sys.executable, "-m", "voile.cli", *words], cwd=folder, check=False)
    if done.returncode != code:
        raise SystemExit(f"voile {' '.join(words)}: exit code {done.returncode}, not {code}")


def pack(folder: Path) -> None:
    """All but locks and the page of the report, which anybody writes again from the artefact."""
    with zipfile.ZipFile(folder.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.startswith(".") and path.suffix != ".html":
                packed.write(path, path.relative_to(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
