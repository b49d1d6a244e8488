"""`voile recommend`, as people type it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.recommenders.examples import catalogue, table

from voile import cli
from voile.app.assess import assess_subject, find_subject
from voile.app.recommend.handler import NO_HISTORY

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    items = catalogue()
    lines = ["item,title,genre"] + [
        f"{item},{title},{'|'.join(genres)}"
        for item, title, genres in zip(items.items, items.titles, items.kinds["genre"], strict=True)
    ]
    Path("items.csv").write_text("\n".join(lines) + "\n")
    columns = table(800)
    pairs = zip(columns["user"].tolist(), columns["item"].tolist(), strict=True)
    Path("lines.csv").write_text("user,item\n" + "".join(f"{u},{i}\n" for u, i in pairs))

    def call(*arguments: str, code: int = 0, as_json: bool = True) -> Any:
        with pytest.raises(SystemExit) as left:
            cli.main([*arguments, *(["--json"] if as_json else [])])
        said = capsys.readouterr()
        assert left.value.code == code, said
        return json.loads(said.out) if as_json else said.out

    call("audit", "init", "log.db", "--origin", "example.org/shop")
    budget = ("--dataset", "shop 2026", "--epsilon", "6", "--delta", "1e-6", "--parallel")
    call("budget", "open", "log.db", "users", "--unit", "user", *budget)
    return call


TRAIN = ("recommend", "train", "items.csv", "lines.csv", "--account", "users")
PRICE = ("--epsilon", "3", "--delta", "1e-6", "--output", "made")
EXPLAIN = ("recommend", "explain", "made", "lines.csv")


def test_from_interactions_to_a_page(run: Any) -> None:
    shown = run(*TRAIN, *PRICE, "--preview")
    assert "Composed" in shown["event"]
    assert not Path("made").exists()
    trained = run(*TRAIN, *PRICE)
    assert trained["charges"] == ["users#1", "users#2"]
    assert trained["users"] == 800
    assert run(*TRAIN, *PRICE)["charges"] == ["users#1", "users#2"]
    best = run("recommend", "list", "made", "lines.csv", "--user", "7", "--count", "3")
    assert len(best["output_names"]) == 3
    assert best["charges"] == []
    why = run(*EXPLAIN, "--user", "7", "--page", "why.html", "--output", "why.voile")
    assert why["charges"] == []
    assert "Recommended to you" in Path("why.html").read_text()
    assert Path("why.html").stat().st_mode & 0o077 == 0
    assert Path("why.voile").stat().st_mode & 0o077 == 0  # it names what she has bought
    answer = ("--answer", "why.voile", "--policy", "audit-policy.toml")
    assert run("audit", "verify", why["written"]["receipts"][0], *answer)["verified"]
    paid = ("--audience", "others", "--group-by", "genre", "--account", "users", "--epsilon", "0.5")
    named = run(*EXPLAIN, "--user", "7", "--top", "1", *paid)
    assert len(named["charges"]) == 1
    assert len(named["top"][0]) == 1
    over_all = run(*EXPLAIN, *paid, "--delta", "1e-7")
    assert over_all["feature_names"] == ["Comedy", "Drama", "War", "no genre"]
    told = run(*EXPLAIN, "--user", "7", "--preview", *paid, "--delta", "1e-7")
    assert any("PAAS" in each for each in told["remarks"])
    assert run("budget", "verify", "log.db")["verified"]


def test_training_says_what_it_takes_and_what_was_paid_before(run: Any) -> None:
    def fits() -> str:
        said = run(*TRAIN, *PRICE, "--preview", as_json=False)
        assert said.startswith("800 users; nothing was charged")
        return str(said.splitlines()[-1])

    assert re.match(r"fits: uses \d+\.\d% of account 'users'; 0\.0% is used so far", fits())
    too_dear = run(*TRAIN, "--epsilon", "9", *PRICE[2:], "--preview", as_json=False)
    assert "would be refused: " in too_dear
    assert not run(*TRAIN, *PRICE)["replayed"]
    assert fits().startswith("answered before: the same answer is free")
    told = run(*TRAIN, *PRICE, as_json=False)
    assert re.search(r"charges: +answered before, not charged again: users#1, users#2\n", told)
    assert run(*TRAIN, *PRICE)["replayed"]
    told = run(*TRAIN, *PRICE, "--epsilon", "1", "--redraw", as_json=False)
    assert re.search(r"charges: +users#3, users#4\n", told)


def test_a_page_that_was_written_is_named(run: Any) -> None:
    run(*TRAIN, *PRICE)
    assert "page: why.html" in run(*EXPLAIN, "--user", "7", "--page", "why.html", as_json=False)


def test_who_has_no_history_is_told_so_herself_and_others_are_not(run: Any) -> None:
    run(*TRAIN, *PRICE)
    for asked in (("recommend", "list", "made", "lines.csv"), EXPLAIN):
        assert NO_HISTORY in run(*asked, "--user", "nobody")["notes"]
        assert NO_HISTORY not in run(*asked, "--user", "7")["notes"]
    paid = ("--audience", "others", "--group-by", "genre", "--account", "users", "--epsilon", "0.5")
    told = [run(*EXPLAIN, "--user", user, "--top", "1", *paid)["notes"] for user in ("7", "nobody")]
    assert told[0] == told[1]


def test_people_read_a_line_for_each_recommendation(run: Any) -> None:
    run(*TRAIN, *PRICE)
    said = run("recommend", "list", "made", "lines.csv", "--user", "7", as_json=False)
    assert sum("film" in line for line in said.splitlines()) == 10
    assert "against the public and other users" in said
    why = run(*EXPLAIN, "--user", "7", "--group-by", "genre", as_json=False)
    assert "because of" in why
    assert "Drama" in why or "Comedy" in why


def test_refusals_have_their_exit_codes(run: Any) -> None:
    run(*TRAIN, *PRICE)
    paid = ("--account", "users", "--epsilon", "1")
    refused = run(*EXPLAIN, "--user", "7", "--audience", "others", *paid, code=3)
    assert "names her history" in refused["error"]["message"]
    slip = run(*EXPLAIN, "--user", "7", "--audience", "everybody", code=2)
    assert "--audience: expected one of" in slip["error"]["message"]
    slip = run(*EXPLAIN, "--user", "7", "--page", "why.txt", code=2)
    assert "--page writes" in slip["error"]["message"]
    dear = ("--epsilon", "9", "--delta", "1e-6", "--output", "dear")
    assert run(*TRAIN, *dear, code=3)["error"]["kind"] == "BudgetExceeded"
    assert not Path("dear").exists()
    run("recommend", "list", "nothing", "lines.csv", "--user", "7", code=2)
    slip = run(*EXPLAIN, "--user", "7", "--output", "lines.csv", code=2)
    assert "lines.csv" in slip["error"]["message"]


@pytest.mark.parametrize(
    ("option", "written"),
    [
        ("--output", "why.voile"),
        ("--receipt", "why.tlog-proof"),
        ("--page", "why.html"),
    ],
)
def test_nothing_is_overwritten_unasked(run: Any, option: str, written: str) -> None:
    run(*TRAIN, *PRICE)
    Path(written).write_text("mine")
    records = run("audit", "show", "log.db")["size"]
    told = run(*EXPLAIN, "--user", "7", option, written, code=2)["error"]["message"]
    assert f"{written}: exists already" in told
    assert "--yes" in told
    assert Path(written).read_text() == "mine"
    assert run("audit", "show", "log.db")["size"] == records
    run(*EXPLAIN, "--user", "7", option, written, "--yes")
    assert Path(written).read_bytes() != b"mine"


def test_a_recommendation_is_not_written_over_another(run: Any) -> None:
    run(*TRAIN, *PRICE)
    asked = ("recommend", "list", "made", "lines.csv", "--output", "best.voile", "--user")
    run(*asked, "7")
    before = Path("best.voile").read_bytes()
    assert "exists already" in run(*asked, "8", code=2)["error"]["message"]
    assert Path("best.voile").read_bytes() == before
    run(*asked, "8", "--yes")
    assert Path("best.voile").read_bytes() != before


def test_a_recommender_is_not_trained_into_a_folder_of_something_else(run: Any) -> None:
    Path("catalogue.json").write_text("mine")
    said = run(*TRAIN, *PRICE[:-1], ".", code=2)["error"]["message"]
    assert "holds other files than a recommender" in said
    assert Path("catalogue.json").read_text() == "mine"
    assert run("budget", "report", "log.db", "users")["consumed"] == 0


def test_what_a_killed_training_left_is_not_taken_for_something_else(run: Any) -> None:
    """Files that were being written have names of their own until they are whole."""
    Path("made").mkdir()
    left = Path("made/.catalogue.json.0123456789abcdef")
    left.write_text("half")
    run(*TRAIN, *PRICE)
    assert not left.exists()
    other = Path("made/.notes.txt.0123456789abcdef")
    other.write_text("mine")
    assert "other files" in run(*TRAIN, *PRICE, code=2)["error"]["message"]


def test_files_in_the_wrong_order_tell_nothing_about_users(run: Any) -> None:
    swapped = ("recommend", "train", "lines.csv", "items.csv", *TRAIN[4:], *PRICE)
    said = run(*swapped, code=2)["error"]["message"]
    assert "give the public file of items here" in said
    assert "times" not in said


@pytest.mark.parametrize(
    "place",
    [
        ("--output", "made/recommender.json"),
        ("--page", "made/why.html"),
        ("--output", "why.voile", "--receipt", "made/why.tlog-proof"),
    ],
)
def test_what_one_user_is_told_does_not_go_into_the_recommender(
    run: Any, place: tuple[str, ...]
) -> None:
    run(*TRAIN, *PRICE)
    before = {path: path.read_bytes() for path in Path("made").iterdir()}
    run(*EXPLAIN, "--user", "7", *place, code=2, as_json=False)
    assert {path: path.read_bytes() for path in Path("made").iterdir()} == before


def test_a_refused_answer_leaves_nothing_unsigned(run: Any) -> None:
    run(*TRAIN, *PRICE)
    paid = ("--audience", "others", "--group-by", "genre", "--account", "users", "--epsilon", "5.9")
    refused = run(*EXPLAIN, "--user", "7", "--top", "1", *paid, code=3)
    assert refused["error"]["kind"] == "BudgetExceeded"
    shown = run("audit", "show", "log.db", "--last", "1")
    assert shown["records"][0]["kind"] == "refusal"
    assert shown["unsigned"] == 0


def test_answers_say_what_an_assessment_found(run: Any) -> None:
    run(*TRAIN, *PRICE)
    assert run(*EXPLAIN, "--user", "7")["assessed"] is None
    done = assess_subject(find_subject(Path("made")), seconds=0.5)
    found = run(*EXPLAIN, "--user", "7")["assessed"]
    assert found["record"] == done.record
    assert found["verdict"] in {"not refuted", "blind"}
