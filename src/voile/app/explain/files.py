"""Files around an explanation: its numbers in three forms, its receipts, and origins to read in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from voile.app.explain.released import ReleasedExplanation
from voile.app.explain.service import ReleaseService
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput, UnreadableFile
from voile.core.explanation import Explanation
from voile.core.guarantee import Guarantee
from voile.core.input_file import read_json
from voile.core.optional import optional
from voile.core.rendering import draw_picture
from voile.release import PUBLIC, Origin, trained_on, trained_privately

RECEIPT: Final = ".tlog-proof"
ROW_RECEIPT: Final = ".row-proof"
SAVED: Final = (".voile", ".json", ".parquet")
PICTURES: Final = (".png", ".svg", ".pdf")
_PRIVATE: Final = 0o600
"""A receipt holds nonces: whoever reads it can check guesses of what was asked and answered."""
_TRAINED_ON = "trained-on:"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


def save(explanation: Explanation, path: Path, *, private: bool = False) -> Path:
    """By the ending of the name: `.voile` (every bit), `.json`, or `.parquet` (a line a value).

    Args:
        private: for its owner only, whatever it holds.
    """
    check_suffix(path, SAVED)
    content = {".voile": Explanation.to_bytes, ".json": _json, ".parquet": _parquet}
    mode = _PRIVATE if private else _mode(explanation)
    return replace_file(path, content[path.suffix.lower()](explanation), mode=mode)


def check_suffix(path: Path, known: Sequence[str]) -> None:
    """Refuse a name whose ending says nothing about what to write."""
    if path.suffix.lower() not in known:
        raise InvalidInput(
            f"{path}: expected a name that ends in {', '.join(known)}, found {path.suffix!r}"
        )


def draw(explained: ReleasedExplanation, path: Path) -> Path:
    """A picture, by the ending of the name: `.png`, `.svg` or `.pdf`; whole or not at all."""
    check_suffix(path, PICTURES)
    picture = draw_picture(explained, path.suffix[1:].lower())
    return replace_file(path, picture, mode=_mode(explained.explanation))


def _mode(explanation: Explanation) -> int:
    """What holds values of rows, or is drawn from an explanation that does, is its owner's."""
    return 0o644 if explanation.data is None else _PRIVATE


def as_plain(explanation: Explanation) -> dict[str, Any]:
    """Everything in an explanation as plain values for JSON; guarantees first."""
    errors, widths = explanation.standard_errors, explanation.half_widths
    return {
        "guarantees": [guarantee.to_dict() for guarantee in explanation.guarantees],
        "notes": [str(note) for note in explanation.notes],
        "feature_names": list(explanation.feature_names),
        "output_names": list(explanation.output_names),
        "values": explanation.values.tolist(),
        "base_values": explanation.base_values.tolist(),
        "standard_errors": None if errors is None else errors.tolist(),
        "half_widths": None if widths is None else widths.tolist(),
    }


def write_receipts(
    service: ReleaseService, explained: ReleasedExplanation, path: Path
) -> list[Path]:
    """One receipt for one entry; for several, a folder with a receipt and an answer for each.

    With an answer beside it, each can be checked by itself: `voile audit verify RECEIPT --answer`.
    """
    receipts, folder = service.receipts(explained), folder_of_receipts(path)
    if len(receipts) == 1:
        clear_numbered(folder, (SAVED[0], RECEIPT))
        return [replace_file(path, bytes(receipts[0]), mode=_PRIVATE)]
    folder.mkdir(exist_ok=True)
    clear_numbered(folder, (SAVED[0], RECEIPT), beyond=len(receipts))
    written = []
    answered = zip(receipts, explained.entries, strict=True)
    for number, (receipt, entry) in enumerate(answered, start=1):
        entry.explanation.save(folder / f"{number}{SAVED[0]}")
        proof = folder / f"{number}{RECEIPT}"
        written.append(replace_file(proof, bytes(receipt), mode=_PRIVATE))
    return written


def clear_numbered(folder: Path, endings: Sequence[str], *, beyond: int = 0) -> None:
    """Remove what an earlier call wrote about other people, whose numbers this one has not.

    Whoever asked has said that files here may be overwritten. Anything else in the folder is kept.

    Args:
        endings: of the files that are written here.
        beyond: how many of them, numbered from 1, are about to be replaced.
    """
    for path in folder.glob("*"):
        is_own = path.suffix in endings and _NUMBER.fullmatch(path.stem) and not path.is_dir()
        if is_own and not 1 <= int(path.stem) <= beyond:
            path.unlink()


def folder_of_receipts(path: Path) -> Path:
    """Where several receipts go instead of one."""
    return path.with_suffix(".receipts")


def write_row_receipts(
    service: ReleaseService, explained: ReleasedExplanation, folder: Path
) -> list[Path]:
    """For each row of a free call, its explanation and its own proof, numbered from 1."""
    folder.mkdir(parents=True, exist_ok=True)
    clear_numbered(folder, (SAVED[0], ROW_RECEIPT), beyond=len(explained.explanation))
    return list(_row_receipts(service, explained, folder))


def _row_receipts(
    service: ReleaseService, explained: ReleasedExplanation, folder: Path
) -> Iterator[Path]:
    for number, row in enumerate(explained.explanation, start=1):
        row.save(folder / f"{number}{SAVED[0]}")
        proof = service.row_receipt(explained, number - 1)
        yield replace_file(folder / f"{number}{ROW_RECEIPT}", bytes(proof), mode=_PRIVATE)


def names_origin_file(text: str) -> bool:
    """Whether an origin is the name of a file with guarantees, and not stated in words."""
    return text != "public" and not text.startswith(_TRAINED_ON)


def origin_from(text: str) -> Origin:
    """`public`, `trained-on:LABEL[,LABEL]`, or a JSON file with the guarantees of training."""
    if text == "public":
        return PUBLIC
    if text.startswith(_TRAINED_ON):
        labels = [label.strip() for label in text.removeprefix(_TRAINED_ON).split(",")]
        if not all(labels):
            raise InvalidInput(f"expected {_TRAINED_ON}LABEL, found {text!r}")
        return trained_on(*labels)
    path = Path(text)
    if not _is_there(path):
        raise InvalidInput(
            f"expected 'public', '{_TRAINED_ON}LABEL' or a JSON file of guarantees, found {text!r}"
        )
    return trained_privately(*_guarantees(path))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a name, or no text that a file can bear
        return False


def _guarantees(path: Path) -> list[Guarantee]:
    stored = read_json(path)
    found = stored.get("guarantees") if isinstance(stored, dict) else stored
    if not isinstance(found, list) or not found:
        raise UnreadableFile(f"{path}: expected a list of guarantees")
    return [Guarantee.from_dict(each) for each in found]


def _json(explanation: Explanation) -> bytes:
    return (json.dumps(as_plain(explanation), indent=2) + "\n").encode()


def _parquet(explanation: Explanation) -> bytes:
    """A line for each row, feature and output; guarantees and notes in the file's metadata."""
    pyarrow = optional("pyarrow", extra="explain")
    parquet = optional("pyarrow.parquet", extra="explain")
    rows, features, outputs = explanation.shape
    names, results = explanation.feature_names, explanation.output_names
    columns: dict[str, Any] = {
        "row": [row for row in range(rows) for _ in range(features * outputs)],
        "feature": [name for _ in range(rows) for name in names for _ in range(outputs)],
        "output": [name for _ in range(rows * features) for name in results],
        "value": explanation.values.ravel(),
    }
    if explanation.standard_errors is not None:
        columns["standard_error"] = explanation.standard_errors.ravel()
    if explanation.half_widths is not None:
        columns["half_width"] = explanation.half_widths.ravel()
    told = as_plain(explanation)
    said = {name: told[name] for name in ("guarantees", "notes", "base_values")}
    table = pyarrow.table(columns).replace_schema_metadata({"voile": json.dumps(said)})
    buffer = pyarrow.BufferOutputStream()
    parquet.write_table(table, buffer)
    return bytes(buffer.getvalue().to_pybytes())
