"""No line is present without a record or a name; what people state is checked against the keys."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from voile.app.evidence.lines import (
    EvidenceLine,
    Link,
    Standing,
    Statements,
    missing,
    on_record,
    present,
    to_file,
    to_record,
)
from voile.core.errors import InvalidInput

SAYS = 'stated_by = "R. Muster"\n[says]\n"a.b" = "credit scoring"\n"c" = "  "\n'


def statements(tmp_path: Path, text: str) -> Statements:
    path = tmp_path / "statements.toml"
    path.write_text(text)
    return Statements.read(path)


@pytest.mark.parametrize("links", [(), (to_file("card.md"),)])
def test_a_present_line_links_to_a_record_or_names_who_stated_it(links: tuple[Link, ...]) -> None:
    with pytest.raises(InvalidInput, match="present if"):
        present("a", "asked", "found", *links)
    assert present("a", "asked", "found", *links, to_record(3)).standing is Standing.PRESENT


def test_a_line_without_evidence_cannot_link_to_a_record() -> None:
    with pytest.raises(InvalidInput, match="present if"):
        EvidenceLine(key="a", asked="b", standing=Standing.MISSING, found="", links=(to_record(1),))
    assert missing("a", "b", "run voile assess").standing is Standing.MISSING


def test_a_line_is_missing_where_there_is_no_record() -> None:
    assert on_record("a", "b", "found", [], "do this").found == "do this"
    assert [each.record for each in on_record("a", "b", "found", [1, 4], "").links] == [1, 4]


def test_what_is_stated_fills_a_line_and_blanks_do_not(tmp_path: Path) -> None:
    given = statements(tmp_path, SAYS)
    said, blank = given.line("a.b", "purpose"), given.line("c", "contact")
    assert (said.found, said.stated_by) == ("credit scoring", "R. Muster")
    assert (blank.standing, blank.found, blank.stated_by) == (Standing.TO_STATE, "", "")
    given.check_known()


def test_a_common_statement_holds_where_the_own_one_is_blank(tmp_path: Path) -> None:
    text = 'stated_by = "R"\n[says]\n"decision.role" = "advice"\n"decision-2.role" = "none"\n'
    given = statements(tmp_path, text)
    found = [given.line(f"decision-{n}.role", "role", "decision.role").found for n in (1, 2)]
    assert found == ["advice", "none"]
    given.check_known()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SAYS.replace("R. Muster", ""), "stated_by is empty"),
        (SAYS + "[more]\n", "expected stated_by"),
        ('[says]\n"a" = 3\n', "expected stated_by"),
        ("[says", "statements.toml"),
    ],
)
def test_statements_of_another_form_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        statements(tmp_path, text)


def test_a_mistyped_key_is_refused_by_name(tmp_path: Path) -> None:
    given = statements(tmp_path, SAYS)
    given.line("c", "contact")
    with pytest.raises(InvalidInput, match=r"nothing asks for a\.b"):
        given.check_known()


def test_a_statement_about_a_decision_without_a_page_may_stay(tmp_path: Path) -> None:
    text = 'stated_by = "R"\n[says]\n"decision-7-2.role" = "advice"\n'
    given = statements(tmp_path, text)
    with pytest.raises(InvalidInput, match="nothing asks"):
        given.check_known()
    given.line("decision-1.role", "role", "decision.role")
    given.check_known()


def test_the_file_to_fill_in_can_be_read_back(tmp_path: Path) -> None:
    given = statements(tmp_path, SAYS)
    for key in ("a.b", "c", 'with "quotes"'):
        given.line(key, "question")
    text = given.to_toml()
    assert tomllib.loads(text)["says"] == {"a.b": "credit scoring", "c": "", 'with "quotes"': ""}
    assert statements(tmp_path, text) == given
