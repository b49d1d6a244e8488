"""Declared columns and personal levels, from files to books, artefact and report."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.pages import report_html
from tests.unit.app.federate.test_run import CHOSEN, CLINIC, write_files

from voile.app.artefact import Artefact
from voile.app.federate import Job, federate, read_job
from voile.app.report import check_log
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import ProtectedUnit
from voile.datasets import read_protected_table, read_table
from voile.federation.history import event_as_text
from voile.pipelines.shapley_guided_noise import GuidedTask
from voile.pipelines.tables import TableRecords
from voile.records.vault import open_vault

PRIVATE = CLINIC.schema.feature_names[:2]
STRICT, *OTHERS = sorted(CHOSEN)


def write_guided(folder: Path, strict: float | None = 0.5) -> Path:
    config = write_files(folder)
    text = config.read_text().replace("private explainer", "shapley-guided noise", 1)
    text = text.replace("hidden = [16]\n", "")
    columns = ", ".join(f'"{name}"' for name in PRIVATE)
    text = text.replace("[privacy]", f"[privacy]\ncolumns = [{columns}]", 1)
    if strict is not None:
        text = text.replace(f'name = "{STRICT}"', f'name = "{STRICT}"\nepsilon = {strict}', 1)
    config.write_text(text)
    for node in config.parent.glob("nodes/*/node.toml"):
        text = node.read_text().replace(".csv", ".parquet")
        node.write_text(text.replace("[accepts]", f"[accepts]\ncolumns = [{columns}]"))
    for name in CHOSEN:
        table = pa.table(read_table(folder / f"{name}.csv"))
        pq.write_table(table, folder / f"{name}.parquet")
    return config


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(write_guided(tmp_path_factory.mktemp("guided")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


def test_the_artefact_promises_the_weakest_level_for_the_columns(
    job: Job, artefact: Artefact
) -> None:
    (guarantee,) = artefact.guarantees
    assert guarantee.protected.unit is ProtectedUnit.COLUMNS
    assert guarantee.protected.columns == tuple(sorted(PRIVATE))
    assert 0.99 * job.agreement.epsilon <= guarantee.epsilon <= job.agreement.epsilon
    assert artefact.settings["levels"] == {STRICT: 0.5}
    spent = artefact.statement["spent_by_client"]
    assert spent[STRICT]["epsilon"] <= 0.5 < spent[OTHERS[0]]["epsilon"]
    assert 0 <= artefact.figures["contribution"]["rate"] <= 1
    assert all(check_log(artefact, name).failed is None for name in ("server", *CHOSEN))


def test_every_party_is_charged_at_its_own_level(job: Job, artefact: Artefact) -> None:
    for row in artefact.history:
        assert row.event == event_as_text(job.agreement.events_of(row.client)[0])
    for party in job.parties:
        level = job.agreement.epsilon_of(party.name)
        with open_vault(party.folder, job.agreement.keys[party.name].name) as vault:
            (node,) = vault.storage.submit(vault.ledger.nodes)
        assert node.account.epsilon == level
        assert node.account.protected == job.agreement.protected


def test_the_report_says_what_is_protected(artefact: Artefact) -> None:
    page = report_html(artefact)
    assert "log-loss of the model" in page
    assert "black box" not in page
    assert all(name in page for name in PRIVATE)
    assert "contribution" in page
    assert "correlated" in page


def test_a_level_is_part_of_the_agreement_and_what_a_party_accepts(
    job: Job, tmp_path: Path
) -> None:
    levels: list[dict[str, float]] = [{}, {STRICT: 0.5}, {STRICT: 0.25}, {OTHERS[0]: 0.5}]
    agreed = [replace(job.agreement, levels=each) for each in levels]
    assert len({each.digest for each in agreed}) == len(levels)
    greedy = read_job(write_guided(tmp_path, 50.0))
    assert greedy.agreement.weakest_epsilon == 50.0
    with pytest.raises(Refused, match=r"accepts at most .* has .ε = 50"):
        federate(greedy)


@pytest.mark.parametrize("columns", ["", f'columns = ["{CLINIC.schema.feature_names[2]}"]'])
def test_a_party_accepts_columns_that_it_has_listed_and_no_others(
    tmp_path: Path, columns: str
) -> None:
    """What it accepts for whole rows, it does not for a few columns with the rest in public."""
    config = write_guided(tmp_path)
    node = tmp_path / "nodes" / STRICT / "node.toml"
    lines = [line for line in node.read_text().splitlines() if not line.startswith("columns")]
    node.write_text("\n".join(lines).replace("[accepts]", f"[accepts]\n{columns}"))
    with pytest.raises(Refused, match="may become public"):
        federate(read_job(config))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("columns = [", "# columns = [", "protects columns"),
        ('"shapley-guided noise"', '"logistic regression"', "columns are protected by"),
    ],
)
def test_files_that_contradict_themselves_are_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    config = write_guided(tmp_path)
    config.write_text(config.read_text().replace(old, new, 1))
    with pytest.raises(InvalidInput, match=message):
        read_job(config)


def test_other_pipelines_have_one_level(tmp_path: Path) -> None:
    config = write_guided(tmp_path)
    text = config.read_text().replace('"shapley-guided noise"', '"logistic regression"', 1)
    lines = [line for line in text.splitlines() if not line.startswith("columns = ")]
    config.write_text("\n".join(lines))
    with pytest.raises(InvalidInput, match="epsilon of their own"):
        read_job(config)


# --- files ----------------------------------------------------------------------------------------


def test_csv_is_refused_with_a_command_that_converts_it(tmp_path: Path) -> None:
    """A private cell that breaks its line would take the public cells of its row with it."""
    config = write_guided(tmp_path)
    (tmp_path / f"{STRICT}.parquet").unlink()
    node = tmp_path / "nodes" / STRICT / "node.toml"
    node.write_text(node.read_text().replace(".parquet", ".csv"))
    with pytest.raises(InvalidInput, match=rf"{STRICT}\.csv: must be a Parquet file") as refused:
        read_job(config)
    assert "name the new one in node.toml (`data`)" in str(refused.value)
    command = shlex.split(str(refused.value).partition("reports: ")[2])
    assert command[:2] == ["python", "-c"]
    subprocess.run([sys.executable, *command[1:]], cwd=tmp_path, check=True)
    converted = read_protected_table(tmp_path / f"{STRICT}.parquet")
    assert {name: cells.tolist() for name, cells in converted.items()} == {
        name: cells.tolist() for name, cells in read_table(tmp_path / f"{STRICT}.csv").items()
    }


def odd_cells() -> dict[str, Any]:
    """Private columns of three rows, the second of which holds something strange."""
    nan, large = float("nan"), 2**62
    return {
        "comma": pa.array(["50", "C50, left", "50"]),
        "quote": pa.array(["50", '"C50"x', "50"]),
        "line break": pa.array(["50", 'C50\r\nleft"', "50"]),
        "no text": pa.array([b"50", b"\xff\x00,\n", b"50"]),
        "nothing": pa.array([50.0, None, 50.0]),
        "only nothing": pa.nulls(3),
        "no number": pa.array([50.0, nan, 50.0]),
        "infinite": pa.array([50.0, float("inf"), 50.0]),
        "half": pa.array(np.array([50, np.inf, 50], np.float16)),
        "large": pa.array([50, large, 50]),
        "decimal": pa.array([Decimal(50), Decimal(10) ** 37, None], pa.decimal256(76, 0)),
        "truth": pa.array([True, None, False]),
        "list": pa.array([[50], [1, 2], None]),
        "record": pa.array([{"a": 50}, None, {"a": 1}]),
        "moment": pa.array([50, large, 50], pa.timestamp("us")),
        "zoned": pa.array([50, large, 50], pa.timestamp("us", "Europe/Berlin")),
        "day": pa.array([50, 2**31 - 1, 50], pa.date32()),
        "duration": pa.array([50, -large, 50], pa.duration("us")),
        "time": pa.array([50, -5, 50], pa.time64("us")),
        "dictionary": pa.array(["50", "\x00", "50"]).dictionary_encode(),
    }


@pytest.mark.parametrize("kind", odd_cells())
def test_no_private_cell_of_parquet_changes_what_is_public(
    job: Job, tmp_path: Path, kind: str
) -> None:
    """Not even where the public cells of the row cannot be read."""
    private = PRIVATE[0]
    task = job.agreement.tasks_of(STRICT)["guided training"]
    assert isinstance(task, GuidedTask)
    kept = ~task.columns.private

    def seen(cells: Any) -> list[Any]:
        table = read_table(job.parties[0].folder.parents[1] / f"{STRICT}.csv")
        columns = {name: pa.array(column[:3]) for name, column in table.items()}
        unreadable = dict.fromkeys(CLINIC.schema.feature_names, pa.array([None, "?", "5"]))
        found = []
        for others in (columns, columns | unreadable):
            pq.write_table(pa.table(others | {private: cells}), tmp_path / "odd.parquet")
            records = TableRecords.read(
                CLINIC.schema, read_protected_table(tmp_path / "odd.parquet")
            )
            found += [task.inputs(records)[:, kept].tolist(), records.targets.tolist()]
        return found

    assert seen(odd_cells()[kind]) == seen(pa.array(["50", "50", "50"]))
