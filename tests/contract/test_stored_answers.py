"""Answers of every transparency level, of strongest features and of a recommender stay free.

`stored/answers/` holds what `make.py` in it had the commands of an earlier version write. Nothing
in it may ever have to change. The keys there are for tests.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.stored.answers.make import LEVELS, SHOP, TRAIN
from voile import Explanation, cli
from voile.core.transparency import Level

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

Run = Callable[..., Any]
_FOLDER = Path(__file__).parent / "stored" / "answers"
ANSWERS = {
    **{name: ("levels", words) for name, words in LEVELS.items()},
    **{name: ("shop", words) for name, words in SHOP.items()},
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Any:
        with pytest.raises(SystemExit) as left:
            cli.main([*words, "--json"])
        said = capsys.readouterr()
        assert left.value.code == 0, said
        return json.loads(said.out)

    return call


def unpack(name: str) -> None:
    with zipfile.ZipFile(_FOLDER / f"{name}.zip") as packed:
        packed.extractall()
    for key in Path().glob("*.key"):  # which an archive does not know
        key.chmod(0o600)


def test_every_level_is_among_them() -> None:
    assert {str(level) for level in Level} <= set(LEVELS)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_given_again_for_nothing(run: Run, name: str) -> None:
    home, words = ANSWERS[name]
    unpack(home)
    before, size = Explanation.load(f"{name}.voile"), run("audit", "show", "log.db")["size"]
    said = run(*words, "--output", "again.voile")
    assert said["replayed"]
    assert Explanation.load("again.voile") == before
    assert run("audit", "show", "log.db")["size"] == size
    proofs = [*Path().glob(f"{name}.tlog-proof"), *Path(f"{name}.receipts").glob("*.tlog-proof")]
    assert proofs, "each answer has its receipt, or each of its rows"
    for proof in proofs:
        answer = str(proof.with_suffix(".voile"))
        assert run("audit", "verify", str(proof), "--answer", answer)["verified"]


def test_a_recommender_is_trained_again_for_nothing(run: Run) -> None:
    unpack("shop")
    size = run("audit", "show", "log.db")["size"]
    assert run(*TRAIN, "--output", "again")["replayed"]
    assert run("audit", "show", "log.db")["size"] == size
