"""A note about some rows goes with those rows and no others."""

from __future__ import annotations

import json

import numpy as np
import pytest

from voile import Explanation
from voile.core.errors import InvalidInput
from voile.core.row_note import KnownNote, Note, RowNote, note_from_plain, note_to_plain
from voile.records.audit_log import explanation_rows

LATE = RowNote("too late", (0, 2, 3))


def explained(*notes: Note, rows: int = 4) -> Explanation:
    values = np.arange(2.0 * rows).reshape(rows, 2)
    return Explanation(
        values=values, base_values=np.zeros(1), feature_names=("a", "b"), notes=notes
    )


def test_a_row_keeps_what_is_noted_about_it() -> None:
    whole = explained("for all", LATE)
    assert [row.notes for row in whole] == [
        ("for all", RowNote("too late", (0,))),
        ("for all",),
        ("for all", RowNote("too late", (0,))),
        ("for all", RowNote("too late", (0,))),
    ]
    assert whole[[3, 1, 0]].notes == ("for all", RowNote("too late", (0, 2)))
    assert whole[:, "a"].notes == whole.notes


def test_a_row_by_itself_has_the_bytes_it_has_among_others() -> None:
    whole = explained("for all", LATE, RowNote("and more", (2,)))
    alone = [next(explanation_rows(row)) for row in whole]
    assert alone == list(explanation_rows(whole))
    bare = list(explanation_rows(explained("for all")))
    assert [mine == theirs for mine, theirs in zip(alone, bare, strict=True)] == [
        False,
        True,
        False,
        False,
    ]


def test_it_is_saved_and_loaded() -> None:
    whole = explained("for all", LATE)
    assert Explanation.from_bytes(whole.to_bytes()) == whole
    assert note_from_plain(json.loads(json.dumps(note_to_plain(LATE)))) == LATE


@pytest.mark.parametrize(
    ("rows", "said"),
    [((0,), "row 1"), ((1, 2, 3, 8), "rows 2-4, 9"), (tuple(range(0, 300, 2)), " and 50 more")],
)
def test_people_count_from_one(rows: tuple[int, ...], said: str) -> None:
    assert str(RowNote("late", rows)).endswith(said)


def test_notes_about_rows_that_are_not_there() -> None:
    for rows in ((), (2, 1), (-1, 1)):
        with pytest.raises(InvalidInput, match="ascending"):
            RowNote("late", rows)
    with pytest.raises(InvalidInput, match="of 3 rows"):
        explained(LATE, rows=3)


def test_a_text_that_says_what_a_known_note_says_is_that_note() -> None:
    """Whether somebody wrote the words, or a file holds them."""
    written = explained(str(KnownNote.SEEDED_NOISE), "for people", LATE)
    assert written.notes[0] is KnownNote.SEEDED_NOISE
    assert written.carries(KnownNote.SEEDED_NOISE)
    assert not written.carries(KnownNote.NOT_CHARGED)
    assert Explanation.from_bytes(written.to_bytes()).carries(KnownNote.SEEDED_NOISE)
    assert written[1:2].carries(KnownNote.SEEDED_NOISE)
    assert not explained("no privacy guarantee").carries(KnownNote.SEEDED_NOISE)
    assert not explained(RowNote(str(KnownNote.ALL_PUBLIC), (0,))).carries(KnownNote.ALL_PUBLIC)


def test_known_notes_are_stored_and_shown_as_their_text() -> None:
    plain = note_to_plain(KnownNote.NOT_CHARGED)
    assert type(plain) is str
    assert note_from_plain(plain) is KnownNote.NOT_CHARGED
    assert f"note: {plain}" in repr(explained(KnownNote.NOT_CHARGED))
    alike = [explained(each) for each in (KnownNote.SUMMED, str(KnownNote.SUMMED))]
    assert alike[0] == alike[1]
    assert [*explanation_rows(alike[0])] == [*explanation_rows(alike[1])]
