"""A workspace, as people type it: `voile init MODEL`, then `voile explain NAME ROWS`."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.app.workspace.examples import MODEL, started, write_files

from voile import cli

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

FILES = ("--schema", "loans.toml", "--model-origin", "public", "--background")
PRIVATE = (*FILES, "customers.csv", "--protect", "background")
PROMISE = ("--dataset", "customers v1", "--epsilon", "5", "--delta", "1e-5")
FREE = (*FILES, "public.csv", "--background-origin", "public")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, code: int = 0) -> Any:
        with pytest.raises(SystemExit) as left:
            cli.main([*arguments, "--json"])
        said = capsys.readouterr()
        assert left.value.code == code, said
        found = json.loads(said.out)
        return found if code == 0 else found["error"]["message"]

    return call


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace over private customers, with the release `approval`; tests work in copies."""
    folder = tmp_path_factory.mktemp("prepared")
    started(folder)
    return folder


@pytest.fixture
def approval(prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)


def test_from_a_model_to_a_private_explanation_in_three_commands(run: Any) -> None:
    said = run("init", MODEL, *PRIVATE, *PROMISE)
    assert (said["workspace"], said["release"]) == ("voile.toml", "SCORE")
    assert "event" in run("explain", "SCORE", "applicants.csv", "--preview")
    answer = run(
        "explain", "SCORE", "applicants.csv", "--output", "why.voile", "--caller", "ward 3"
    )
    assert answer["charges"] == ["customers v1#1"]
    assert answer["written"]["receipts"] == ["why.tlog-proof"]
    assert run("audit", "verify", "why.tlog-proof", "--answer", "why.voile")["verified"]


def test_what_is_printed_comes_next_and_works_from_any_folder(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for more, output in ((PRIVATE + PROMISE, "a study"), (FREE, "free")):
        words = shlex.split(run("init", MODEL, *more, "--output", output)["next"])
        assert ("--preview" in words) == (output == "a study"), "nothing is charged by a hint"
        run(*words[1:])
        with monkeypatch.context() as moved:
            moved.chdir(output)
            run(*words[1:3], "example.csv", *words[4:-2])
    people = (*FREE, "--protect", "explained-row", "--id-column", "id", *PROMISE)
    run(*shlex.split(run("init", MODEL, *people)["next"])[1:])


@pytest.mark.usefixtures("approval")
def test_a_workspace_is_found_from_elsewhere_and_its_answer_is_the_same(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run("explain", "approval", "applicants.csv")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    for named in ("..", "../voile.toml"):
        again = run("explain", "approval", "../applicants.csv", "--workspace", named)
        assert again["replayed"]
        assert again["values"] == first["values"]
    assert list(Path().iterdir()) == []


def test_only_this_folder_is_looked_into(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("init", MODEL, *FREE, "--name", "risk")
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert "no such model" in run("explain", "risk", "../applicants.csv", code=2)
    Path("voile.toml").symlink_to("nowhere")
    assert run("explain", "risk", "../applicants.csv", code=2).startswith("voile.toml: cannot be")


def test_a_name_precedes_a_path_and_a_path_still_works(run: Any) -> None:
    run("init", MODEL, *FREE, "--name", "risk")
    Path("risk").mkdir()
    assert run("explain", "risk", "applicants.csv")["charges"] == []
    as_before = ("explain", MODEL, "applicants.csv", *FREE)
    assert run(*as_before)["values"] == run("explain", "risk", "applicants.csv")["values"]


def test_without_a_workspace_a_name_is_a_model(run: Any) -> None:
    assert "no such model" in run("explain", "risk", "applicants.csv", code=2)
    said = run("explain", "risk", "applicants.csv", "--workspace", "absent", code=2)
    assert said.startswith("absent: cannot be read")


def test_a_name_that_is_not_there_is_told_with_the_nearest(run: Any) -> None:
    run("init", MODEL, *FREE, "--name", "readmission")
    said = run("explain", "readmision", "applicants.csv", code=2)
    assert "no release 'readmision', only 'readmission'; did you mean" in said
    said = run("explain", MODEL, "applicants.csv", "--workspace", ".", code=2)
    assert "no release" in said


@pytest.mark.parametrize(
    "option",
    [
        ("--epsilon", "4"),
        ("--protect", "training"),
        ("--account", "customers v1"),
        ("--schema", "loans.toml"),
        ("--model-origin", "public"),
        ("--background-origin", "public"),
        ("--output-range", "0", "9"),
        ("--id-column", "id"),
        ("--role", "auditor"),
        ("--top", "2"),
        ("--database", "log.db"),
        ("--replay-key", "other.key"),
        ("--policy", "audit-policy.toml"),
    ],
)
@pytest.mark.usefixtures("approval")
def test_what_a_release_states_is_not_said_again(run: Any, option: tuple[str, ...]) -> None:
    said = run("explain", "approval", "applicants.csv", *option, code=2)
    assert said.startswith(f"{option[0]}: 'approval' takes this from voile.toml")
    accounts = run("budget", "show", "log.db")["accounts"]
    assert accounts[0]["consumed"] == 0


@pytest.mark.parametrize("output", ["voile.toml", "log.db", "loans.toml", "customers.csv"])
@pytest.mark.usefixtures("approval")
def test_an_output_overwrites_nothing_of_the_workspace(run: Any, output: str) -> None:
    before = Path(output).read_bytes() if output != "log.db" else b""
    said = run("explain", "approval", "applicants.csv", "--receipt", output, code=2)
    assert "would overwrite" in said
    assert output == "log.db" or Path(output).read_bytes() == before


@pytest.mark.usefixtures("approval")
def test_a_broken_workspace_is_told_before_anything_is_charged(run: Any) -> None:
    text = Path("voile.toml").read_text()
    for old, new, code in (
        ("epsilon = 5.0", "epsilon = 50.0", 2),
        ("[releases.approval]", "[releases.approval]\nepsilom = 1", 2),
        ("[releases.approval]", '[releases.approval]\nrole = "reader"', 3),
        ("customers.csv", "absent.csv", 2),
        ("[models", "[[models", 2),
    ):
        Path("voile.toml").write_text(text.replace(old, new))
        assert run("explain", "approval", "applicants.csv", code=code).startswith("voile.toml")
    Path("voile.toml").write_text(text)
    assert run("explain", "approval", "applicants.csv")["charges"] == ["customers v1#1"]


# --- init -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("customers.csv", "--background", "x.csv"), "--background is for a model"),
        (("customers.csv", "--epsilon", "1"), "--epsilon is for a model, and these are tables"),
        ((MODEL, *FREE, "--label", "income"), "--label is for tables"),
        ((MODEL, MODEL, *FREE), "one model"),
        ((MODEL, *PRIVATE), "say what the account promises"),
        ((MODEL, *PRIVATE, "--dataset", "x", "--epsilon", "1"), "delta: is missing"),
        ((MODEL, *FREE, *PROMISE), "costs nothing"),
        (("model.joblib", *FREE), "no such model"),
        (("absent.onnx", *FREE), "no such model"),
        (("customers.csv", *FREE), "customers.csv"),
        ((".", *FREE), "not a finished artefact"),
        ((MODEL, *FREE, "--storage", "postgresql://a:hidden@b/c"), "do not put a password"),
    ],
)
def test_what_cannot_be_started_is_told_and_leaves_nothing(
    run: Any, words: tuple[str, ...], said: str
) -> None:
    before = sorted(Path().iterdir())
    found = run("init", *words, code=2)
    assert said in found
    assert "hidden" not in found
    assert sorted(Path().iterdir()) == before


def test_a_pickle_is_refused_with_its_reason(run: Any) -> None:
    Path("model.pkl").write_bytes(b"\x80\x04N.")
    assert "would run any code" in run("init", "model.pkl", *FREE, code=3)


def test_nothing_is_written_over(run: Any) -> None:
    run("init", MODEL, *FREE)
    assert run("init", MODEL, *FREE, code=2).startswith("voile.toml: exists already")


def test_tables_start_a_federation_as_before(run: Any) -> None:
    said = run("init", "customers.csv", "public.csv", "--label", "employed")
    assert (said["schema"], said["config"]) == ("schema.toml", "federation.toml")
    Path("rows.txt").write_text("a,b\n1,2\n")
    assert run("init", "rows.txt", "--output", "other")["columns"] == ["a", "b"]


def test_a_module_is_looked_for_where_the_workspace_will_lie(run: Any) -> None:
    """Found here, it would not be found from there, and the account would be open by then."""
    Path("lone_scoring.py").write_text("def risk(rows):\n    return rows[:, 0] * 0\n")
    files = (*PRIVATE, *PROMISE, "--output-range", "0", "1")
    said = run("init", "lone_scoring:risk", *files, "--output", "elsewhere", code=2)
    assert "no module 'lone_scoring'" in said
    assert "move" in said.partition("a workspace looks beside its own file")[2]
    assert not Path("elsewhere").exists()
    shutil.copytree(".", "there", ignore=shutil.ignore_patterns("there"))
    Path("lone_scoring.py").unlink()
    made = run("init", "lone_scoring:risk", *files, "--output", "there")
    assert Path(made["workspace"]).exists()


def test_a_module_that_reads_files_by_the_current_folder_is_told_apart(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = "from pathlib import Path\nPath({}).read_bytes()\n"
    reads += "def risk(rows):\n    return rows[:, 0] * 0\n"
    Path("careless_scoring.py").write_text(reads.format("'public.csv'"))
    Path("careful_scoring.py").write_text(reads.format("__file__).with_name('public.csv'"))
    for name in ("careless", "careful"):
        run("init", f"{name}_scoring:risk", *FREE, "--output-range", "0", "1", "--output", ".")
        Path("voile.toml").rename(f"{name}.toml")
        del sys.modules[f"{name}_scoring"]  # as for another command
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert run(
        "explain", "risk", "../applicants.csv", "--workspace", "../careful.toml", "--preview"
    )
    said = run("explain", "risk", "../applicants.csv", "--workspace", "../careless.toml", code=2)
    assert "the module 'careless_scoring' failed while it was imported: FileNotFoundError" in said
    assert "Path(__file__).parent" in said
