"""Evidence is shown as it was collected: blanks stay visible, and whatever is stated is escaped."""

from __future__ import annotations

import html
import json
from pathlib import Path

from voile.app.evidence.handler import CitedRecord, EvidencePage, RecordsPage
from voile.app.evidence.lines import (
    EvidenceDocument,
    Section,
    Statements,
    missing,
    present,
    to_record,
)
from voile.app.evidence.models import ModelFacts
from voile.views.evidence import document_html, model_card, records_html

SAID = Statements("R. <Muster>", {"b": "desk & phone"})
LINES = (
    present("a", "Log?", "7 records.", to_record(6)),
    SAID.line("b", "Contact?"),
    SAID.line("c", "Purpose?"),
    missing("d", "Attacks?", "run voile assess"),
)
DOCUMENT = EvidenceDocument("x", "Title <x>", "About it.", (Section("One", LINES),))


def test_lines_say_their_standing_and_where_they_come_from() -> None:
    page = document_html(EvidencePage(DOCUMENT))
    assert page.count('class="blank"') == 1
    assert '<a href="records.html#record-6">record 6</a>' in page
    assert "desk &amp; phone" in page
    assert "stated by R. &lt;Muster&gt;" in page
    assert '<span class="standing absent">missing</span> run voile assess' in page
    assert "<h1>Title &lt;x&gt;</h1>" in page


def test_records_have_anchors() -> None:
    facts = {"time": "3", "account": "<clinic>"}
    page = records_html(RecordsPage("log", [CitedRecord(6, "budget opened", 3, facts)]))
    assert 'id="record-6"' in page
    assert "&lt;clinic&gt;" in page
    assert "1970-01-01" in html.unescape(page)


def test_a_card_of_a_model_without_figures_says_so() -> None:
    card = model_card(ModelFacts(name="m", folder=Path("m"), made_by="voile train", guarantees=()))
    assert "tabular" not in card, "it names no columns"
    head = card.split("---\n")[1]
    assert all(json.loads(line.partition(": ")[2]) is not None for line in head.splitlines())
    assert "No figure was charged or measured." in card
    assert "attacked by `voile assess`: not yet" in card
    assert card.count("For you to state: ______") == 5
