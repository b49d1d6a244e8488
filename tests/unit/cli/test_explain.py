"""`voile explain`, as people type it."""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
import shlex
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from tests.support.pages import row_html
from tests.unit.app.explain.examples import SCHEMA, TRAINED, model

from voile import Explanation, cli
from voile.app import explain_rows
from voile.app.alarms import alarms
from voile.app.explain import ReleasedExplanation, outputs
from voile.app.explain.files import draw
from voile.app.explain.released import NOT_ESTIMATED
from voile.app.explain_rows import named_features
from voile.core.guarantee import Guarantee, RowPart
from voile.core.row_note import filled_note
from voile.core.schema import Categories, Label
from voile.records.audit_log import AuditLog
from voile.records.ledger import ReplayKey
from voile.records.storage import open_storage
from voile.records.vault import PARTS
from voile.release import trained_privately
from voile.views.tables import explanation_table

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

MODEL = "tests.unit.cli.test_explain:SCORE"
SCORE = model()
PUBLIC_ROWS = "income,debt,employed\n2,1,yes\n5,4,no\n8,2,yes\n"
APPLICANTS = "id,income,debt,employed\nada,3,6,no\nbob,9,1,yes\n"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log, two accounts, a schema and files of rows; tests work in copies."""
    folder = tmp_path_factory.mktemp("loans")
    (folder / "loans.toml").write_text(SCHEMA.dumps())
    (folder / "public.csv").write_text(PUBLIC_ROWS)
    (folder / "applicants.csv").write_text(APPLICANTS)
    lines = [f"{a:.2f},{b:.2f},{c}" for a, b, c in customers(np.random.default_rng(1), 60)]
    (folder / "customers.csv").write_text("income,debt,employed\n" + "\n".join(lines) + "\n")
    (folder / "training.json").write_text(json.dumps([TRAINED.to_dict()]))
    key, policy = str(folder / "audit.key"), str(folder / "audit-policy.toml")
    log, beside = str(folder / "log.db"), ("--key", key, "--policy", policy)
    done("audit", "init", log, "--origin", "example.org/loans", *beside)
    customer = ("--dataset", "customers v1", "--epsilon", "5", "--delta", "1e-5")
    done("budget", "open", log, "customers", *customer, *beside)
    person = ("--dataset", "people v1", "--epsilon", "9", "--delta", "1e-5", "--parallel")
    unit = ("--unit", "explained row", "--relation", "replace one")
    done("budget", "open", log, "people", *person, *unit, *beside)
    return folder


def done(*arguments: str) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(list(arguments))
    assert left.value.code == 0


@pytest.fixture
def run(
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    copied(prepared, tmp_path)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, code: int = 0, as_json: bool = True) -> Any:
        with pytest.raises(SystemExit) as left:
            cli.main([*arguments, *(["--json"] if as_json else [])])
        said = capsys.readouterr()
        assert left.value.code == code, said
        return json.loads(said.out) if as_json else said.out

    return call


def copied(prepared: Path, folder: Path) -> None:
    shutil.copytree(prepared, folder, dirs_exist_ok=True)


def customers(draw: np.random.Generator, count: int) -> list[tuple[float, float, str]]:
    return [
        (draw.uniform(0, 10), draw.uniform(0, 10), draw.choice(["yes", "no"])) for _ in range(count)
    ]


def asked(data: str = "applicants.csv", *more: str, origin: str = "public") -> list[str]:
    return ["explain", MODEL, data, "--schema", "loans.toml", "--model-origin", origin, *more]


FREE = ("--background", "public.csv", "--background-origin", "public")
ROW = (*FREE, "--protect", "explained-row", "--account", "people", "--id-column", "id")
BACKGROUND = (
    *("--protect", "background", "--background", "customers.csv"),
    *("--epsilon", "0.5", "--account", "customers"),
)
POPULATION = ("--protect", "population", "--account", "customers", "--epsilon", "0.5")


def test_training_rows_are_protected_for_free(run: Any) -> None:
    said = run(*asked(*("applicants.csv", *FREE), origin="training.json"), "--output", "e.voile")
    assert said["charges"] == []
    assert said["guarantees"] == [TRAINED.to_dict()]
    loaded = Explanation.load("e.voile")
    assert loaded.values.tolist() == said["values"]
    assert said["written"]["receipts"] == ["e.tlog-proof"]
    report = run("audit", "verify", "e.tlog-proof", "--answer", "e.voile")
    assert report["verified"]
    assert report["record"]["kind"] == "post-processing"
    assert report["record"]["rows"] == 2
    assert all(a["consumed"] == 0 for a in run("budget", "show", "log.db")["accounts"])


def test_each_row_of_a_free_call_gets_a_proof(run: Any) -> None:
    run(*asked("applicants.csv", *FREE), "--row-receipts", "proofs")
    own = ("audit", "verify", "proofs/2.row-proof", "--answer")
    said = run(*own, "proofs/2.voile")
    assert said["verified"]
    told = {step["number"]: step["detail"] for step in said["steps"]}
    assert told[9] == "the answer handed in is one row, which step 12 checks"
    assert told[12] == "the row handed in is row 2 of 2"
    assert not run(*own, "proofs/1.voile", code=4)["verified"]
    told = run(*asked("applicants.csv", *FREE), "--row-receipts", "proofs", code=2)
    assert "proofs: exists already" in told["error"]["message"]
    run(*asked("applicants.csv", *FREE), "--row-receipts", "proofs", "--yes")


def test_a_receipt_is_written_again_later(run: Any) -> None:
    said = run(*asked("applicants.csv", *BACKGROUND), "--output", "e.voile")
    again = ("audit", "receipt", "log.db", *said["charges"], "--out", "again.tlog-proof")
    run(*again)
    assert Path("again.tlog-proof").stat().st_mode & 0o777 == 0o600
    assert run("audit", "verify", "again.tlog-proof", "--answer", "e.voile")["verified"]
    assert "kept unless you pass --yes" in run(*again, code=2)["error"]["message"]
    assert "no charge 'x#1'" in run(*again[:3], "x#1", code=2)["error"]["message"]
    run(*again[:-1], "log.db", code=2)


def test_where_the_key_is_elsewhere_a_receipt_waits_for_a_checkpoint(run: Any) -> None:
    key = Path("audit.key").rename("elsewhere.key")
    said = run(*asked("applicants.csv", *BACKGROUND), "--output", "e.voile")
    assert "receipts" not in said["written"]
    assert "once one is" in said["unproved"]
    assert run("audit", "show", "log.db")["unsigned"] == 1
    again = ("audit", "receipt", "log.db", *said["charges"], "--out", "again.tlog-proof")
    assert "`voile audit checkpoint`, where" in run(*again, code=2)["error"]["message"]
    key.rename("audit.key")
    run("audit", "checkpoint", "log.db")
    Path("audit.key").unlink()
    said = run(*asked("applicants.csv", *BACKGROUND), "--output", "e.voile", "--yes")
    assert said["replayed"]
    assert said["written"]["receipts"] == ["e.tlog-proof"]
    assert said["unproved"] == ""
    run(*again)
    for proof in ("again.tlog-proof", "e.tlog-proof"):
        assert run("audit", "verify", proof, "--answer", "e.voile")["verified"]


def test_keys_and_policy_lie_beside_the_database_that_is_named(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another folder the same question is the same question, under the same kept copy."""
    Path("elsewhere").mkdir()
    shutil.copy("log.db", "old.db")
    first = run(*asked("applicants.csv", *BACKGROUND))
    monkeypatch.chdir("elsewhere")
    words = [
        f"../{word}" if Path("..", word).is_file() else word
        for word in asked("applicants.csv", *BACKGROUND)
    ]
    again = run(*words, "--database", "../log.db", "--output", "e.voile")
    assert again["replayed"]
    assert again["charges"] == first["charges"]
    assert again["written"]["receipts"] == ["e.tlog-proof"]
    assert not Path("replay.key").exists()
    assert run("budget", "verify", "../log.db")["steps"][1]["outcome"] == "checked"
    for backup in Path("..").glob("log.db*"):
        backup.unlink()
    shutil.copy("../old.db", "../log.db")
    said = run(*words, "--database", "../log.db", code=4)
    assert "set back" in said["error"]["message"]


@pytest.mark.parametrize("option", ["--key", "--policy"])
def test_a_key_that_is_named_is_there(run: Any, option: str) -> None:
    """Mistyped, the copy beside the real one would not be asked."""
    said = run(*asked("applicants.csv", *BACKGROUND), option, "nix", code=2)
    assert said["error"]["message"].startswith("nix: there is no such file")
    assert run("budget", "verify", "log.db", option, "nix", code=2)["error"]
    assert run("budget", "show", "log.db")["accounts"][0]["consumed"] == 0


@pytest.mark.parametrize("moved", [("audit.key",), ("audit-policy.toml", "audit.checkpoint"), ()])
def test_the_copies_beside_database_and_policy_are_asked_too(
    run: Any, moved: tuple[str, ...]
) -> None:
    """Whether the key is from another folder, or not here at all."""
    shutil.copy("log.db", "old.db")
    run(*asked("applicants.csv", *BACKGROUND))
    Path("elsewhere").mkdir()
    for name in moved:
        shutil.move(name, f"elsewhere/{name}")
    if "audit.key" not in moved:
        Path("audit.key").unlink()
    for current in Path().glob("log.db*"):
        current.unlink()
    shutil.copy("old.db", "log.db")
    options = {"audit.key": "--key", "audit-policy.toml": "--policy"}
    named = [
        word for name in moved if name in options for word in (options[name], f"elsewhere/{name}")
    ]
    said = run(*asked("applicants.csv", *BACKGROUND), "--redraw", *named, code=4)
    assert "set back" in said["error"]["message"]


def test_the_copy_of_another_log_in_the_folder_is_no_sign_of_tampering(run: Any) -> None:
    beside = ("--key", "second.key", "--policy", "second.toml")
    run("audit", "init", "second.db", "--origin", "example.org/second", *beside)
    customer = ("--dataset", "customers v1", "--epsilon", "5", "--delta", "1e-5")
    run("budget", "open", "second.db", "customers", *customer, *beside)
    run("budget", "open", "second.db", "more", *customer[:1], "x", *customer[2:], *beside)


def test_a_replay_key_is_never_made_anew(run: Any) -> None:
    run(*asked("applicants.csv", *BACKGROUND))
    Path("replay.key").rename("kept.key")
    said = run(*asked("applicants.csv", *BACKGROUND), code=2)["error"]["message"]
    assert said.startswith("replay.key: the replay key of this ledger is missing")
    assert not Path("replay.key").exists()
    assert run(*asked("applicants.csv", *BACKGROUND), "--replay-key", "kept.key")["replayed"]


def test_the_replay_key_of_another_ledger_is_refused(run: Any) -> None:
    """Under it the same question would be charged again, and receipts would open nothing."""
    charge = run(*asked("applicants.csv", *BACKGROUND), "--output", "x.voile")["charges"][0]
    Path("replay.key").rename("kept.key")
    ReplayKey.generate().save(Path("replay.key"))
    before = run("budget", "show", "log.db", "customers")
    for command in (
        asked("applicants.csv", *BACKGROUND),
        asked("applicants.csv", *BACKGROUND, "--redraw"),
        ("audit", "receipt", "log.db", charge, "--out", "proof"),
    ):
        said = run(*command, code=3)["error"]["message"]
        assert said.startswith("replay.key: does not open the stored answers of this ledger")
        assert "\n" not in said
    assert run("budget", "show", "log.db", "customers") == before
    assert not Path("proof").exists()
    own = ("--replay-key", "kept.key")
    assert run(*asked("applicants.csv", *BACKGROUND), *own)["replayed"]
    run("audit", "receipt", "log.db", charge, "--out", "proof", *own)
    run("audit", "verify", "proof", "--answer", "x.voile")


KEPT = ("log.db", "log.db-wal", "audit.key", "audit-policy.toml", "audit.checkpoint", "replay.key")
READ = ("loans.toml", "applicants.csv", "customers.csv", "weights_of_loans.py", "voile.toml")


@pytest.mark.parametrize("name", [*KEPT, *READ])
def test_an_output_overwrites_nothing_that_is_needed(run: Any, name: str) -> None:
    Path("weights_of_loans.py").write_text("B = 2.0\n")
    Path("voile.toml").write_text("")
    before = {path: path.read_bytes() for path in map(Path, (*KEPT, *READ)) if path.exists()}
    said = run(*asked("applicants.csv", *BACKGROUND), "--receipt", name, code=2)
    assert "overwrit" in said["error"]["message"]
    assert {path: path.read_bytes() for path in before} == before
    assert run("budget", "show", "log.db")["accounts"][0]["consumed"] == 0


def test_no_row_overwrites_the_answer(run: Any) -> None:
    Path("proofs").mkdir()
    to = ("--output", "proofs/1.voile", "--row-receipts", "proofs")
    assert "numbered" in run(*asked("applicants.csv", *FREE), *to, code=2)["error"]["message"]


def test_a_signed_log_needs_its_policy(run: Any) -> None:
    for name in ("audit-policy.toml", "audit.checkpoint"):
        Path(name).rename(f"kept-{name}")
    said = run(*asked("applicants.csv", *BACKGROUND), code=2)["error"]["message"]
    assert said.startswith("audit-policy.toml: the log has signed checkpoints")
    assert run("budget", "show", "log.db")["accounts"][0]["consumed"] == 0


def test_where_nobody_signs_no_receipt_is_promised(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("alone").mkdir()
    with open_storage("alone/unsigned.db", PARTS) as storage:
        storage.submit(lambda t: AuditLog.create(t, "example.org/unsigned"))
    nobody = ("--database", "alone/unsigned.db")
    said = run(*asked("applicants.csv", *FREE), *nobody, "--receipt", "e.tlog-proof", code=2)
    assert "No signing policy found, so no receipt" in said["error"]["message"]
    said = run(*asked("applicants.csv", *FREE), *nobody, "--page", "why/", code=2)
    assert "No signing policy found, so no receipt" in said["error"]["message"]
    said = run(*asked("applicants.csv", *FREE), *nobody, "--output", "e.voile")
    assert said["unproved"].startswith("none written, because no checkpoint was signed")
    with pytest.raises(SystemExit):
        cli.main([*asked("applicants.csv", *FREE), *nobody])
    said = capsys.readouterr().err
    assert "No signing policy found (alone/audit-policy.toml): nothing is signed, and you" in said
    assert "get no receipt. Create one with `voile audit init`" in said


def test_top_names_the_features_of_each_row(run: Any) -> None:
    people = "id,income,debt,employed\n" + "".join(f"p{n},{n},9,yes\n" for n in range(4))
    Path("four.csv").write_text(people)
    told = run(*asked("four.csv", *ROW, "--top", "1"))
    named = {name for row in told["top"] for name in row}
    assert all(len(row) == 1 for row in told["top"])
    text = run(*asked("four.csv", *ROW, "--top", "1"), as_json=False)
    assert named == {name for name in ("income", "debt", "employed") if f"\u2502 {name}" in text}
    said = run(*asked("four.csv", *ROW, "--top", "0"), code=2)["error"]["message"]
    assert "top" in said
    assert "--top: expected a number of at least 1, found 0" in said


def test_each_row_shows_its_own_top_features() -> None:
    values = np.array([[3.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    whole = Explanation(values=values, base_values=np.zeros(1), feature_names=("a", "b", "c"))
    assert named_features(whole, 1) == [["a"], ["c"]]
    assert named_features(whole, 3) == [["a", "b"], ["c", "b"]]
    table = explanation_table(ReleasedExplanation(whole, ()), 1)
    assert [list(column.cells) for column in table.columns] == [["a", "c"], ["+3", ""], ["", "+2"]]


def test_terminal_picture_and_page_say_the_same(tmp_path: Path) -> None:
    """An estimate of training noise was on pages alone; pictures and tables looked exact."""
    one = Explanation(
        values=np.array([[3.0, 1.0]]),
        base_values=np.array([0.5]),
        feature_names=("a", "b"),
        data=np.array([[7.0, 0.0]]),
        notes=(filled_note("b", 0, [0]),),
    )
    explained = ReleasedExplanation(one, (), deviations={"a": 0.5, "b": 1.0})
    table = explanation_table(explained, None)
    assert [[str(cell) for cell in column.cells] for column in table.columns] == [
        ["a", "b"],
        ["7", "missing (0 was filled in)"],
        ["+3.0 ± 1.0", "(+1.0 ± 2.0)"],
    ]
    assert str(table.caption) == "±: rough estimate; in brackets: cannot be told from zero"
    picture = draw(explained, tmp_path / "why.svg").read_text()
    for words in ("b = missing (0 was filled in)", "+3.0 ± 1.0", "whiskers: rough estimate"):
        assert words in picture
    page = html.unescape(row_html(explained.describe(0)))
    for words in ("missing (0 was filled in)", "+3.0 ± 1.0", "a rough estimate"):
        assert words in page


def test_a_few_rows_are_shown_with_their_values() -> None:
    two = Explanation(
        values=np.array([[3.0], [1.0]]),
        base_values=np.zeros(1),
        feature_names=("a",),
        data=np.array([[7.0], [0.0]]),
        half_widths=np.array([[2.0], [2.0]]),
        notes=(filled_note("a", 0, [1]),),
    )
    table = explanation_table(ReleasedExplanation(two, ()), None)
    assert [[str(cell) for cell in column.cells] for column in table.columns] == [
        ["a"],
        ["+3.0 ± 2.0\n7"],
        ["(+1.0 ± 2.0)\nmissing (0 was filled in)"],
    ]


def test_what_is_not_there_is_said_first(run: Any) -> None:
    for name in ("output/artefact", "model.onnx"):
        said = run("explain", name, "applicants.csv", code=2)["error"]["message"]
        assert said.startswith(f"{name}: no such model or artefact")
    run(*asked("applicants.csv", *FREE), "--output", "e.voile")
    Path("audit-policy.toml").rename("policy.toml")
    said = run("audit", "verify", "e.tlog-proof", code=2)["error"]["message"]
    assert said.startswith("audit-policy.toml: no signing policy found")
    assert "--policy" in said
    Path("empty.csv").write_text("id,income,debt,employed\n")
    said = run(*asked("empty.csv", *FREE), code=2)["error"]["message"]
    assert said == "empty.csv: expected at least one row, found none"
    said = run(*asked("applicants.csv", *FREE, "--id-column", "name"), code=2)["error"]["message"]
    assert said == "applicants.csv: there is no identifier column 'name'"


def test_the_command_that_checks_a_receipt_is_printed_and_works(run: Any) -> None:
    commands = []
    for more in (FREE, ROW, (*FREE, "--row-receipts", "proofs")):
        said = run(*asked("applicants.csv", *more), "--output", "e.voile", "--yes", as_json=False)
        lines = [line for line in said.splitlines() if line.startswith("verify it with: ")]
        assert lines
        commands += [line.removeprefix("verify it with: voile ").split() for line in lines]
        for line in lines:
            assert run(*line.removeprefix("verify it with: voile ").split())["verified"]
    assert ["audit", "verify", "e.receipts/1.tlog-proof", "--answer", "e.receipts/1.voile"] in [
        command[:5] for command in commands
    ]


def test_a_receipt_with_the_wrong_file_does_not_look_forged(run: Any) -> None:
    run(*asked("applicants.csv", *ROW), "--output", "e.voile")
    own = ("audit", "verify", "e.receipts/1.tlog-proof", "--answer")
    said = run(*own, "e.voile", code=2)["error"]["message"]
    assert said.endswith(
        "holds 2 rows, but the receipt is for one row: use --answer e.receipts/1.voile"
    )
    run(*own, "e.receipts/2.voile", code=4)
    Path("e.json").write_text("{}")
    said = run(*own, "e.json", code=2)["error"]["message"]
    assert "saved as .voile" in said


def test_protected_background_is_charged_and_replayed(run: Any) -> None:
    said = run(*asked("applicants.csv", *BACKGROUND), "--output", "e.voile")
    assert len(said["charges"]) == 1
    assert said["guarantees"][0]["dataset"] == "customers v1"
    assert said["half_widths"] is not None
    assert run("audit", "verify", "e.tlog-proof", "--answer", "e.voile")["verified"]
    again = run(*asked("applicants.csv", *BACKGROUND))
    assert again["replayed"]
    assert again["values"] == said["values"]
    fresh = run(*asked("applicants.csv", *BACKGROUND), "--redraw")
    assert fresh["values"] != said["values"]
    assert run("budget", "verify", "log.db")["verified"]


def test_a_preview_charges_nothing_and_draws_nothing(run: Any) -> None:
    said = run(*asked("applicants.csv", *BACKGROUND), "--preview")
    assert said["rows"] == 2
    assert said["guarantees"][0]["dataset"] == "customers v1"
    assert said["half_width"] > said["standard_error"] > 0
    assert all(a["consumed"] == 0 for a in run("budget", "show", "log.db")["accounts"])
    text = run(*asked("applicants.csv", *BACKGROUND), "--preview", as_json=False)
    assert "nothing was charged" in text


def test_a_preview_names_public_columns_that_are_mostly_missing(run: Any) -> None:
    """Of protected rows, here the same ones as a population, nothing is said."""
    Path("gaps.csv").write_text(APPLICANTS.replace("ada,3,", "ada,,"))
    remarks = run(*asked("gaps.csv", *BACKGROUND), "--preview")["remarks"]
    (said,) = (each for each in remarks if "missing" in each)
    assert said.startswith("gaps.csv: column 'income' is missing in 50% of rows")
    assert 'declare a category "missing" or add a column' in said
    assert "missing" not in str(run(*asked("gaps.csv", *POPULATION), "--preview")["remarks"])


def test_the_default_delta_typed_out_is_the_same_question(run: Any) -> None:
    """0.1 * 1e-5 is 1.0000000000000002e-06: typed as 1e-6 it was charged again."""
    first = run(*asked("applicants.csv", *BACKGROUND))
    again = run(*asked("applicants.csv", *BACKGROUND), "--delta", "1e-6")
    assert (again["charges"], again["replayed"]) == (first["charges"], True)
    other = run(*asked("applicants.csv", *BACKGROUND), "--delta", "2e-6")
    assert not other["replayed"]


def test_a_preview_says_that_the_account_cannot_pay(run: Any) -> None:
    """For what was answered before nobody has to."""
    much = (*asked("applicants.csv", *BACKGROUND), "--epsilon")
    assert not any("refused" in each for each in run(*much, "2.8", "--preview")["remarks"])
    run(*much, "2.8")
    (said,) = (each for each in run(*much, "2.9", "--preview")["remarks"] if "refused" in each)
    assert said.startswith("would be refused: ")
    assert "customers" in said
    assert not any("refused" in each for each in run(*much, "2.8", "--preview")["remarks"])
    assert run("audit", "show", "log.db", "--last", "1")["records"][0]["kind"] == "release"


def test_a_call_that_is_partly_answered_before_says_what_was_charged(run: Any) -> None:
    people = Path("applicants.csv").read_text().splitlines()
    Path("first.csv").write_text("\n".join(people[:2]) + "\n")
    (old,) = run(*asked("first.csv", *ROW))["charges"]
    text = " ".join(run(*asked("applicants.csv", *ROW), as_json=False).split())
    assert f"answered before, not charged again: {old}; record" in text
    (new,) = set(run(*asked("applicants.csv", *ROW))["charges"]) - {old}
    assert f"charged: {new}; answered before" in text


def test_the_noise_level_decides_epsilon(run: Any) -> None:
    def epsilon(noise: str) -> float:
        preview = run(*asked("customers.csv", *POPULATION[:-2]), "--preview", "--noise", noise)
        return float(preview["guarantees"][0]["epsilon"])

    assert epsilon("0.05") > epsilon("0.1")
    error = run(*asked("customers.csv", *POPULATION), "--noise", "1", code=2)
    assert "not both" in error["error"]["message"]


def test_a_population_as_importance_and_by_name(run: Any) -> None:
    whole = run(*asked("customers.csv", *POPULATION), "--output", "i.parquet", "--plot", "i.png")
    assert np.shape(whole["values"]) == (1, 3, 1)
    assert Path("i.png").stat().st_size > 1000
    table = pyarrow.parquet.read_table("i.parquet")
    assert table.column("feature").to_pylist() == ["income", "debt", "employed"]
    told = json.loads(table.schema.metadata[b"voile"])
    assert told["guarantees"] == whole["guarantees"]
    named = run(*asked("customers.csv", *POPULATION), *FREE, "--top", "2")
    assert np.abs(np.array(named["values"])).sum() == 2


def test_explained_rows_pay_one_by_one_with_receipts(run: Any) -> None:
    said = run(*asked("applicants.csv", *ROW), "--output", "e.json")
    assert len(said["charges"]) == len(said["records"]) == 2
    assert json.loads(Path("e.json").read_text())["values"] == said["values"]
    for number in (1, 2):
        proof = f"e.receipts/{number}.tlog-proof"
        assert run("audit", "verify", proof, "--answer", f"e.receipts/{number}.voile")["verified"]
    assert run(*asked("applicants.csv", *ROW))["replayed"]
    assert not run(*asked("applicants.csv", *ROW), "--caller", "somebody else")["replayed"]
    named = run(*asked("applicants.csv", *ROW), "--top", "1")
    assert set(np.ravel(named["values"])) <= {0.0, 1.0}


def test_rows_come_from_standard_input_too(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(APPLICANTS.encode()))
    monkeypatch.setattr("sys.stdin", stream)
    assert np.shape(run(*asked("-", *FREE))["values"]) == (2, 3, 1)


def test_rows_come_from_parquet_too(run: Any) -> None:
    columns = {"income": [3.0, 9.0], "debt": [6, 1], "employed": ["no", "yes"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), "applicants.parquet")
    from_csv, from_parquet = (
        run(*asked(f"applicants.{kind}", *FREE))["values"] for kind in ("csv", "parquet")
    )
    assert from_csv == from_parquet


def test_levels_and_roles(run: Any) -> None:
    reader = run(*asked("applicants.csv", *FREE), "--level", "summary", "--role", "reader")
    assert reader["feature_names"] == ["money", "work"]
    error = run(*asked("applicants.csv", *FREE), "--role", "reader", code=3)
    assert "needs the role analyst" in error["error"]["message"]
    pairs = run(*asked("applicants.csv", *FREE), "--level", "granular", "--role", "auditor")
    assert len(pairs["feature_names"]) == 6
    Path("clusters.json").write_text(json.dumps({"all": ["income", "debt", "employed"]}))
    level = ("--level", "aggregate", "--clusters", "clusters.json")
    assert run(*asked("applicants.csv", *FREE), *level)["feature_names"] == ["all"]
    assert len(run(*asked("applicants.csv", *FREE), *level[:2])["feature_names"]) <= 5
    error = run(*asked("applicants.csv", *BACKGROUND), *level[:2], code=3)
    assert "found in protected rows cost budget" in error["error"]["message"]
    assert "explain.paid_clusters" in error["error"]["message"]


def test_people_read_a_table(run: Any) -> None:
    text = run(*asked("applicants.csv", *BACKGROUND), "--output", "e.voile", as_json=False)
    assert "income" in text
    assert "±" in text
    assert "guarantee: (ε = " in text
    assert "receipts: e.tlog-proof" in text
    free = run(*asked("applicants.csv", *FREE), "--top", "1", as_json=False)
    assert "cost nothing" in free
    assert "made from public artefacts only" in free
    many = run(*asked("customers.csv", *FREE), as_json=False)
    assert "mean |attribution|" in many
    assert "60 rows" in many


def test_a_learned_explainer(run: Any) -> None:
    from voile.attribution.fastshap import save, train_explainer, train_surrogate
    from voile.core.randomness import Seeded
    from voile.training import TrainingPlan

    plan = TrainingPlan(steps=5, hidden=(8,))
    rows = np.random.default_rng(0).uniform(0, 10, (50, 3)) * [1, 1, 0]
    learnt = train_surrogate(SCORE, rows, schema=SCHEMA, source=Seeded(1), plan=plan)
    save(train_explainer(learnt, rows, source=Seeded(1), plan=plan), Path("e.safetensors"))
    said = run(*asked("applicants.csv", "--explainer", "e.safetensors"))
    assert any("learned" in note for note in said["notes"])
    error = run(
        *asked("applicants.csv", "--explainer", "e.safetensors", "--level", "summary"), code=3
    )
    assert "knows the level detailed only" in error["error"]["message"]


# --- refusals ------------------------------------------------------------------------------------


def test_beyond_the_budget_is_exit_code_3_and_recorded(run: Any) -> None:
    error = run(*asked("applicants.csv", *BACKGROUND), "--epsilon", "4", code=3)["error"]
    assert error["kind"] == "BudgetExceeded"
    assert error["exit_code"] == 3
    shown = run("audit", "show", "log.db", "--last", "1")
    assert shown["records"][0]["kind"] == "refusal"
    assert shown["unsigned"] == 0
    assert f"\n{shown['size']}\n" in Path("audit.checkpoint").read_text()


@pytest.mark.parametrize(
    ("more", "origin", "reason"),
    [
        (FREE, "trained-on:loans 2025", "nothing can be promised about"),
        (BACKGROUND, "trained-on:customers v1", "trained without differential privacy"),
        (POPULATION, "trained-on:customers v1", "trained without differential privacy"),
        (
            (*BACKGROUND[:-1], "people"),
            "public",
            "for the unit 'row'",
        ),
        (BACKGROUND[:-2], "public", "say which account pays"),
        ((*ROW[:-3], "customers"), "public", "replace one"),
    ],
)
def test_promises_that_cannot_be_kept_are_refused(
    run: Any, more: tuple[str, ...], origin: str, reason: str
) -> None:
    error = run(*asked("applicants.csv", *more, origin=origin), code=3)["error"]
    assert reason in error["message"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (asked("applicants.csv"), "background rows"),
        (asked("customers.csv", *ROW), "no identifier column 'id'"),
        (asked("applicants.csv", *FREE, origin="nowhere.json"), "expected 'public'"),
        (asked("applicants.csv", *FREE, origin="trained-on:"), "trained-on:LABEL"),
        (asked("applicants.csv", *FREE, origin="loans.toml"), "expected JSON"),
        (asked("applicants.csv", *FREE, "--output", "e.txt"), "ends in .voile"),
        (asked("applicants.csv", *FREE, "--level", "deep"), "expected one of"),
        (asked("applicants.csv", *FREE, "--clusters", "x"), "with the level aggregate only"),
        (asked("applicants.csv", *FREE, "--database", "x.db"), "no such database"),
        (asked("loans.toml", *FREE), ""),
    ],
)
def test_bad_input_is_exit_code_2(run: Any, arguments: list[str], reason: str) -> None:
    assert reason in run(*arguments, code=2)["error"]["message"]


def test_nothing_says_by_default_that_background_rows_are_public(run: Any) -> None:
    told = run(*asked("applicants.csv", *FREE))["notes"]
    assert "it is assumed, as stated, that the background rows are public" in told
    for more in (FREE[:2], (*POPULATION, *FREE[:2])):
        error = run(*asked("applicants.csv", *more), code=2)["error"]
        assert "--background-origin" in error["message"]
    origin = (*FREE[:3], "trained-on:customers v1")
    assert "customers v1" in run(*asked("customers.csv", *origin), code=3)["error"]["message"]
    error = run(*asked("customers.csv", *POPULATION, *origin), code=3)["error"]
    assert "trained without differential privacy" in error["message"]
    for less in ((), BACKGROUND):
        error = run(*asked("applicants.csv", *less, *FREE[2:]), code=2)["error"]
        assert "leave it out" in error["message"]


@pytest.mark.parametrize("protect", [POPULATION, (*ROW[4:], "--top", "1")])
def test_protected_rows_are_not_their_own_background(run: Any, protect: tuple[str, ...]) -> None:
    Path("same.csv").symlink_to("applicants.csv")
    for file in ("applicants.csv", "./applicants.csv", "same.csv"):
        more = (*protect, "--background", file, "--background-origin", "public")
        error = run(*asked("applicants.csv", *more), code=3)["error"]
        assert "Leave out --background" in error["message"]


def test_an_artefact_says_itself_what_it_was_made_from() -> None:
    from voile.app.explain import ExplanationSpec
    from voile.app.explain.inputs import background_origin, model_origin
    from voile.core.errors import InvalidInput
    from voile.release import PUBLIC, trained_on

    made: Any = SimpleNamespace(origin=trained_on("patients"), folder=Path("artefact"))
    spec = ExplanationSpec(model="artefact", protect=RowPart.POPULATION)
    assert model_origin(spec, made) == made.origin
    with pytest.raises(InvalidInput, match="leave out --model-origin"):
        model_origin(spec.model_copy(update={"model_origin": "public"}), made)
    assert background_origin(spec, made) == PUBLIC
    assert background_origin(spec.model_copy(update={"background": "rows.csv"}), made) is None


def test_without_a_signing_key_here_it_is_still_on_record(run: Any) -> None:
    Path("audit.key").unlink()
    said = run(*asked("applicants.csv", *FREE), "--output", "e.voile")
    assert "not signed: the signing key is not here" in said["checkpoint"]
    assert "receipts" not in said["written"]
    assert run("audit", "show", "log.db", "--last", "1")["records"][0]["kind"] == "post-processing"


def test_two_classes_are_one_number(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(0)
    rows = draw.uniform(0, 10, (80, 3))
    fitted = LogisticRegression().fit(rows, rows[:, 0] > rows[:, 1])
    monkeypatch.setattr("tests.unit.cli.test_explain.SCORE", fitted)
    assert run(*asked("applicants.csv", *FREE))["output_names"] == ["True"]
    named = run(*asked("applicants.csv", *FREE), "--output-name", "False")
    assert named["output_names"] == ["False"]
    monkeypatch.setattr("tests.unit.cli.test_explain.SCORE", lambda rows: 3 * rows[:, 0])
    said = run(*asked("applicants.csv", *BACKGROUND), "--output-range", "0", "30")
    assert np.shape(said["values"]) == (2, 3, 1)
    error = run(*asked("applicants.csv", *BACKGROUND), "--redraw", code=3)
    assert "declared range" in error["error"]["message"]


def test_one_person_has_one_budget_in_whatever_file(run: Any) -> None:
    """A column of integers becomes floats where one is missing; a CSV file keeps blanks."""
    columns: dict[str, list[Any]] = {"income": [3, 9], "debt": [6, 1], "employed": ["no", "yes"]}
    for name, ids in (("all.parquet", [7, 8]), ("some.parquet", [7, None])):
        pyarrow.parquet.write_table(pyarrow.table({"id": ids, **columns}), name)
    Path("typed.csv").write_text("id,income,debt,employed\n 7,3,6,no\n")
    Path("floats.csv").write_text("id,income,debt,employed\n7.0,3,6,no\n")
    first = run(*asked("all.parquet", *ROW, "--top", "1"))["charges"][0]
    for data in ("some.parquet", "typed.csv", "floats.csv"):
        assert run(*asked(data, *ROW, "--top", "1"))["charges"][0] == first
    Path("fraction.csv").write_text("id,income,debt,employed\n7.5e+00,3,6,no\n")
    said = run(*asked("fraction.csv", *ROW), code=2)
    assert "row 1: an identifier is an integer or a text" in said["error"]["message"]


# --- rows that are not protected -----------------------------------------------------------------


def test_people_with_missing_values_are_explained_and_told_so(run: Any) -> None:
    people = "income,debt,employed\n3,,no\n9,1,\n,nan,yes\n"
    Path("people.csv").write_text(people)
    Path("known.csv").write_text(people.replace("3,,no", "3,1,no"))
    said = run(*asked("people.csv", *FREE), "--output", "e.voile")
    notes = [note for note in said["notes"] if note.startswith("filled in")]
    assert notes == [
        "filled in with the schema's default: 'income' = 4.0 in row 3",
        "filled in with the schema's default: 'debt' = 1.0 in rows 1, 3",
        "filled in with the schema's default: 'employed' = yes in row 2",
    ]
    assert set(notes) <= set(map(str, Explanation.load("e.voile").notes))
    assert "filled in" in run(*asked("people.csv", *FREE), as_json=False)
    charged = run(*asked("people.csv", *BACKGROUND))
    other = run(*asked("known.csv", *BACKGROUND))
    assert not other["replayed"]  # the stored answer would be told with somebody else's notes
    assert "filled in with the schema's default: 'debt' = 1.0 in row 3" in other["notes"]
    assert run(*asked("people.csv", *BACKGROUND))["notes"] == charged["notes"]
    Path("background.csv").write_text("income,debt,employed\n2,1,yes\n5,,no\n")
    more = ("--background", "background.csv", "--background-origin", "public")
    told = run(*asked("applicants.csv", *more))["notes"]
    assert "background: filled in with the schema's default: 'debt' = 1.0 in row 2" in told


def test_the_proof_of_a_row_tells_nothing_about_the_others(run: Any) -> None:
    """What bob left out is bob's affair: ada's slice and ada's proof are the same without it."""
    Path("people.csv").write_text("income,debt,employed\n3,6,no\n9,,\n")
    run(*asked("people.csv", *FREE), "--row-receipts", "proofs")
    ada, bob = Explanation.load("proofs/1.voile"), Explanation.load("proofs/2.voile")
    assert not [note for note in ada.notes if "filled in" in str(note)]
    assert [str(note) for note in bob.notes if "filled in" in str(note)] == [
        "filled in with the schema's default: 'debt' = 1.0 in row 1",
        "filled in with the schema's default: 'employed' = yes in row 1",
    ]
    for row in "12":
        own = ("audit", "verify", f"proofs/{row}.row-proof", "--answer", f"proofs/{row}.voile")
        assert run(*own)["verified"]
    replace(bob, notes=ada.notes).save("unnoted.voile")  # notes are part of what is proved
    run("audit", "verify", "proofs/2.row-proof", "--answer", "unnoted.voile", code=4)


def test_a_value_that_was_filled_in_is_not_shown_as_the_persons_own(run: Any) -> None:
    Path("people.csv").write_text("income,debt,employed\n3,,no\n9,1,yes\n")
    run(*asked("people.csv", *FREE), "--page", "why/")
    ada, bob = (Path(f"why/{n}.html").read_text() for n in (1, 2))
    assert "<td>missing (1 was filled in)</td>" in ada
    assert "<td>3</td>" in ada
    assert "The values on this page are those of the person" not in ada
    assert "missing" not in bob.partition("What is promised")[0]
    assert "The values on this page are those of the person" in bob
    Path("one.csv").write_text("income,debt,employed\n3,,no\n")
    for n, paid in enumerate((FREE, BACKGROUND, BACKGROUND)):  # the last is answered from memory
        run(*asked("one.csv", *paid), "--page", f"{n}.html", "--plot", f"{n}.svg")
        assert "<td>missing (1 was filled in)</td>" in Path(f"{n}.html").read_text()
        assert "<!-- debt = missing (1 was filled in) -->" in Path(f"{n}.svg").read_text()
    assert "missing (1 was filled in)" in run(*asked("one.csv", *FREE), as_json=False)


def test_words_for_nothing_are_missing_values_like_everywhere(run: Any) -> None:
    Path("people.csv").write_text("income,debt,employed\nNA,n/a,NULL\n")
    assert len([n for n in run(*asked("people.csv", *FREE))["notes"] if "filled in" in n]) == 3


def test_nothing_is_said_about_missing_values_of_protected_rows(run: Any) -> None:
    Path("applicants.csv").write_text("id,income,debt,employed\nada,3,,no\n")
    said = run(*asked("applicants.csv", *ROW), "--page", "why.html")
    assert "filled in" not in json.dumps(said) + Path("why.html").read_text()


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("3,many,no", "row 2, column 'debt': 'many' (unreadable)"),
        ("3,11,no", "row 2, column 'debt': '11' (above)"),
        ("3,1,maybe", "row 2, column 'employed': 'maybe' (unknown category)"),
    ],
)
def test_what_is_wrong_with_public_rows_is_told_with_its_place(
    run: Any, line: str, where: str
) -> None:
    Path("people.csv").write_text(f"income,debt,employed\n2,1,yes\n{line}\n")
    message = run(*asked("people.csv", *FREE), code=2)["error"]["message"]
    assert message.startswith("people.csv: ")
    assert where in message
    more = ("--background", "people.csv", "--background-origin", "public")
    message = run(*asked("applicants.csv", *more), code=2)["error"]["message"]
    assert message.startswith("people.csv: ")
    assert where in message


# --- protected rows never raise ------------------------------------------------------------------

STRANGE = [b"nan,inf,perhaps", b",,", b"abc,-1e999,NO", b"caf\xe9,1\x00,yes"]
DAMAGED = [b"", b'"1,2,yes', b"1,2,yes,4", b"\xff\xfe\r"]


def observed(said: dict[str, Any]) -> dict[str, Any]:
    """Everything anybody can see, but what was randomised: numbers, and names in their order.

    An alarm about noise follows from the released numbers alone, so it is computed from them.
    """
    released = Explanation(
        values=said["values"],
        base_values=said["base_values"],
        feature_names=tuple(said["feature_names"]),
        output_names=tuple(said["output_names"]),
        half_widths=said["half_widths"],
        guarantees=tuple(map(Guarantee.from_dict, said["guarantees"])),
        notes=said["notes"],
    )
    assert said.pop("alarms") == list(released.describe().alarms)
    shapes = {name: np.shape(said.pop(name)) for name in ("values", "base_values")}
    notes = [note for note in said["notes"] if not note.startswith("named in this order")]
    return {k: v for k, v in said.items() if k != "top"} | shapes | {"notes": notes}


@pytest.mark.parametrize(
    ("protected", "data", "more"),
    [
        ("customers.csv", "applicants.csv", BACKGROUND),
        ("customers.csv", "customers.csv", POPULATION),
        ("customers.csv", "customers.csv", (*POPULATION, *FREE, "--top", "1")),
        ("applicants.csv", "applicants.csv", ROW),
        ("applicants.csv", "applicants.csv", (*ROW, "--top", "1")),
    ],
)
def test_neighbouring_files_look_alike_from_outside(
    run: Any, prepared: Path, tmp_path: Path, protected: str, data: str, more: tuple[str, ...]
) -> None:
    """One protected row is replaced by strange ones: exit code, text, log and ledger stay alike."""
    header, first, *others = Path(protected).read_bytes().splitlines()
    # Who is explained is said beside what is protected; a line that falls apart is nobody's.
    named = first.split(b",")[0] + b"," if protected.startswith("applicants") else b""
    seen = []
    for line in [first, *(named + each for each in STRANGE), *([] if named else DAMAGED)]:
        copied(prepared, tmp_path)
        Path(protected).write_bytes(b"\n".join([header, line, *others]) + b"\n")
        said = observed(run(*asked(data, *more)))
        log = run("audit", "show", "log.db")["records"]
        told = [{k: v for k, v in each.items() if k not in UNPREDICTABLE} for each in log]
        seen.append((said, told, run("budget", "show", "log.db")["accounts"]))
    assert all(each == seen[0] for each in seen[1:])


UNPREDICTABLE = {"time", "answer", "query"}


@pytest.mark.parametrize("line", ["ada,3,6,no", "ada,3", 'ada,"3"1",6,no', "ada,3,6,no,5"])
def test_who_pays_does_not_depend_on_whether_a_protected_line_can_be_read(
    run: Any, line: str
) -> None:
    for content in ("ada,3,6,no", line):
        Path("one.csv").write_text(f"id,income,debt,employed\n{content}\n")
        run(*asked("one.csv", *ROW), "--redraw")
    acts = run("budget", "history", "log.db", "people")["acts"]
    first, second = (act["account"] for act in acts if act["act"] == "charged")
    assert first == second != "people"


# --- a page for one person ------------------------------------------------------------------------


def one_applicant() -> str:
    Path("one.csv").write_text("id,income,debt,employed\nada,3,6,no\n")
    return "one.csv"


def test_a_page_for_one_person_and_the_one_command_that_checks_it(run: Any) -> None:
    Path("pages").mkdir()
    said = run(*asked(one_applicant(), *FREE, origin="training.json"), "--page", "pages/why.html")
    assert said["written"]["page"] == ["pages/why.html"]
    assert Path("pages/why.html").stat().st_mode & 0o777 == 0o600
    page = Path("pages/why.html").read_text()
    prediction = np.sum(said["values"]) + said["base_values"][0][0]
    for words in (f"{prediction:.4g}", f"{said['base_values'][0][0]:.4g}", "employed", "no</td>",
                  "For each record of", "What this does not say"):  # fmt: skip
        assert words in page
    (command,) = re.findall(r"<pre>(.*)</pre>", page)
    with contextlib.chdir("pages"):
        assert run(*shlex.split(html.unescape(command))[1:])["verified"]


def test_a_page_of_a_protected_row_holds_neither_its_values_nor_a_prediction(run: Any) -> None:
    """Whoever sees the page sees what was released, which does not depend on the row otherwise."""
    secret = "7.654321"
    Path("one.csv").write_text(f"id,income,debt,employed\nada,{secret},6,no\n")
    said = run(*asked("one.csv", *ROW), "--page", "why.html")
    page = Path("why.html").read_text()
    assert "7.654" not in page
    assert "value</th>" not in page
    assert "is what is protected" in page
    total = np.sum(said["values"]) + said["base_values"][0][0]
    assert f"<b>{total:.4g}</b>" not in page
    assert f"<b>{said['base_values'][0][0]:.4g}</b>" not in page


def useless_artefact() -> Any:
    """As far as explanations look into it; its report begins with an alarm."""
    alarm = "it cannot be told from always saying <no>"
    figures = {"quality": {"black box": {"alarms": [alarm]}, "surrogate": {"alarms": ["x"]}}}
    return SimpleNamespace(
        deviations=None,
        additive=None,
        schema=SCHEMA,
        model=SCORE,
        reference=np.array([[2.0, 1.0, 1.0], [5.0, 4.0, 0.0]]),
        reference_invented=False,
        alarms=partial(alarms, figures),
        origin=trained_privately(TRAINED),
        folder=Path("artefact"),
        charged_events=set(),
    )


def test_a_useless_model_is_named_before_anything_it_says(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*asked("applicants.csv", *FREE))["alarms"] == []
    monkeypatch.setattr(explain_rows, "find_artefact", lambda _: useless_artefact())
    typed = ("explain", "artefact", one_applicant(), "--database", "log.db")
    said = run(*typed, "--page", "why.html")
    alarm = "The black box: it cannot be told from always saying <no>."
    assert said["alarms"] == [alarm]
    run(*typed, "--page", "why/")
    for page in ("why.html", "why/1.html"):
        text = Path(page).read_text()
        shown = f'<p class="alarm"><b>Do not use it as it is.</b> {html.escape(alarm)}</p>'
        assert text.index("<h1>") < text.index(shown) < text.index("approved")
    table = run(*typed, as_json=False)
    assert table.index(f"do not use it as it is: {alarm}") < table.index("approved")


def test_an_answer_of_pure_noise_says_so_first(run: Any) -> None:
    """Of three values of noise one lies beyond its ± in 14 % of all draws; of ten draws, never."""
    drowned = (*asked(one_applicant(), *ROW), "--epsilon", "0.01")
    said = next(
        found
        for found in (run(*drowned, "--redraw") for _ in range(10))
        if np.all(np.abs(found["values"]) <= found["half_widths"])
    )
    (alarm,) = said["alarms"]
    assert alarm.startswith(
        "These numbers are mostly noise: 3 of 3 cannot be told from zero. Try the strongest"
    )
    again = run(*drowned, "--page", "why.html", "--plot", "why.svg")
    assert again["values"] == said["values"]
    page = Path("why.html").read_text()
    assert page.index(html.escape(alarm)) < page.index("contribution</th>")
    assert "Do not use it as it is. These numbers are mostly noise" in Path("why.svg").read_text()
    table = run(*drowned, as_json=False)
    assert table.startswith(f"do not use it as it is: {alarm}")


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("categories", "shown"),
    [
        (("no", "yes"), "probability of approved = yes"),
        (("yes", "no"), "probability of approved = yes"),  # the file's own order counts
        (("later", "no", "yes"), "output 1"),
        (("never", "always"), "output 1"),
    ],
)
def test_outputs_of_an_onnx_classifier_have_the_labels_of_the_schema(
    run: Any, categories: tuple[str, ...], shown: str
) -> None:
    linear: Any = pytest.importorskip("sklearn.linear_model")
    rows = np.array([[2.0, 1.0, 1.0], [5.0, 4.0, 0.0], [9.0, 2.0, 1.0]], np.float32)
    fitted = linear.LogisticRegression().fit(rows, ["no", "yes", "yes"])
    made = pytest.importorskip("skl2onnx").to_onnx(fitted, rows[:1], options={"zipmap": False})
    Path("model.onnx").write_bytes(made.SerializeToString())
    Path("labelled.toml").write_text(
        replace(SCHEMA, label=Label("approved", Categories(categories))).dumps()
    )
    typed = ("explain", "model.onnx", one_applicant(), "--schema", "labelled.toml", *FREE)
    free = (*typed, "--model-origin", "public", "--database", "log.db")
    said = run(*free, "--page", "why.html", "--plot", "why.svg")
    assert said["output_names"] == ["output 1"]  # part of what is stored and signed
    for place in ("why.html", "why.svg"):
        assert shown in Path(place).read_text()
    assert shown in " ".join(run(*free, as_json=False).split())


def test_training_noise_that_nobody_estimated_is_noted_everywhere(run: Any) -> None:
    free = asked(one_applicant(), *FREE, origin="training.json")
    table = run(*free, "--page", "why.html", "--plot", "why.svg", as_json=False)
    words = "The model was trained with noise; how far these numbers would move was not estimated."
    assert f"note: {words}" in table
    assert words in Path("why.html").read_text()
    assert words in Path("why.svg").read_text()
    assert words not in run(*asked(one_applicant(), *FREE), as_json=False)


def test_a_note_about_training_noise_goes_where_there_is_no_estimate() -> None:
    values = np.array([[3.0, 1.0]])
    one = Explanation(values=values, base_values=np.array([0.5]), feature_names=("a", "b"))
    unknown = ReleasedExplanation(one, (), trained_with_noise=True)
    assert unknown.describe().notes == (NOT_ESTIMATED,)
    assert NOT_ESTIMATED in unknown._repr_html_()
    assert unknown.explanation.notes == ()  # what is stored and signed stays as it was
    assert replace(unknown, deviations={"a": 0.5, "b": 0.5}).describe().notes == ()
    assert replace(unknown, deviations={"other": 0.5}).describe().notes == (NOT_ESTIMATED,)


@pytest.mark.parametrize("saved", ["why.voile", "why.json", "why.parquet"])
def test_whatever_shows_a_persons_values_is_for_its_owner_only(run: Any, saved: str) -> None:
    places = ("--page", "why.html", "--output", saved, "--plot", "why.svg")
    run(*asked(one_applicant(), *FREE, origin="training.json"), *places)
    assert {Path(name).stat().st_mode & 0o077 for name in ("why.html", saved, "why.svg")} == {0}


def test_a_page_of_several_people_or_of_a_population_is_refused_before_it_is_charged(
    run: Any,
) -> None:
    several = run(*asked("applicants.csv", *BACKGROUND), "--page", "why.html", code=2)
    assert "about one person, found 2 rows" in several["error"]["message"]
    many = run(*asked("customers.csv", *POPULATION), "--page", "why.html", code=2)
    assert "use --plot for importance" in many["error"]["message"]
    run(*asked(one_applicant(), *BACKGROUND), "--page", "why.pdf", code=2)
    run(*asked(one_applicant(), *BACKGROUND), "--page", "one.csv", code=2)
    assert all(a["consumed"] == 0 for a in run("budget", "show", "log.db")["accounts"])
    assert not Path("why.html").exists()


@pytest.mark.parametrize("named", ["why/", "there"])
def test_a_folder_of_pages_has_one_for_each_row_and_a_proof_beside_it(run: Any, named: str) -> None:
    Path("there").mkdir()
    typed = (*asked("applicants.csv", *FREE, origin="training.json"), "--page", named)
    said = run(*typed)
    folder = Path(named)
    assert said["written"]["pages"] == [f"{folder}/1.html", f"{folder}/2.html"]
    names = {f"{n}{end}" for n in (1, 2) for end in (".html", ".voile", ".row-proof")}
    assert {path.name for path in folder.iterdir()} == names
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    first, second = ((folder / f"{n}.html").read_text() for n in (1, 2))
    assert (">3<" in first, ">9<" in first) == (True, False)
    assert (">3<" in second, ">9<" in second) == (False, True)
    for page in (first, second):
        (command,) = re.findall(r"<pre>(.*)</pre>", page)
        with contextlib.chdir(folder):
            assert run(*shlex.split(html.unescape(command))[1:])["verified"]
    assert f"{folder}: exists already" in run(*typed, code=2)["error"]["message"]
    run(*typed, "--yes")


def test_pages_of_people_who_are_not_asked_about_again_do_not_stay(run: Any) -> None:
    run(*asked("applicants.csv", *FREE), "--page", "why/")
    for name in ("why/2.txt", "why/notes.html", "why/02.html"):
        Path(name).write_text("mine")
    Path("why/1.html").write_text("of an earlier version")
    fewer = asked(one_applicant(), *FREE)
    run(*fewer, "--page", "why/", code=2)
    assert Path("why/2.html").exists()
    run(*fewer, "--page", "why/", "--yes")
    own = {"1.html", "1.voile", "1.row-proof"}
    assert {path.name for path in Path("why").iterdir()} == own | {"2.txt", "notes.html", "02.html"}


def test_receipts_of_people_who_are_not_asked_about_again_do_not_stay(run: Any) -> None:
    run(*asked("applicants.csv", *FREE), "--row-receipts", "proofs")
    run(*asked(one_applicant(), *FREE), "--row-receipts", "proofs", "--yes")
    assert {path.name for path in Path("proofs").iterdir()} == {"1.voile", "1.row-proof"}
    run(*asked("applicants.csv", *ROW), "--output", "e.voile")
    assert len(list(Path("e.receipts").iterdir())) == 4
    run(*asked(one_applicant(), *FREE), "--output", "e.voile", "--yes")
    assert not list(Path("e.receipts").iterdir())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (BACKGROUND, "where explanations are free (--protect training)"),
        (BACKGROUND, "Each call is charged, also if the row was explained"),
        (ROW, "where explanations are free (--protect training)"),
        (POPULATION, "use --plot for importance"),
    ],
)
def test_a_folder_of_pages_that_could_not_be_proved_is_refused_before_it_is_charged(
    run: Any, more: tuple[str, ...], said: str
) -> None:
    records = run("audit", "show", "log.db")["size"]
    refused = run(*asked("applicants.csv", *more), "--page", "why/", code=2)
    assert said in refused["error"]["message"]
    assert run("audit", "show", "log.db")["size"] == records
    assert not Path("why").exists()


def test_a_folder_holds_so_many_pages(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MOST_PAGES", 1)
    typed = (*asked("applicants.csv", *FREE), "--page", "why/")
    assert "at most 1 pages, found 2 rows" in run(*typed, code=2)["error"]["message"]
    assert "name of a page" in run(*typed[:-1], "", code=2)["error"]["message"]


def test_a_page_without_a_signature_says_so(run: Any) -> None:
    Path("audit.key").rename("elsewhere.key")
    run(*asked(one_applicant(), *BACKGROUND), "--page", "why.html")
    page = Path("why.html").read_text()
    assert "no receipt beside this page" in page
    assert "± " in page
