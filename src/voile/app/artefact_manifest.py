"""The manifest of an artefact: which files there are, and what they hash to.

Nothing in a manifest says where to read: the names of all files follow from the format and from the
names of the parties. A manifest that lists others is refused, and so is a file that is reached by a
link. What JSON files hold has a form, too; everything that reads an artefact relies on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from voile.core.array_file import check_kind
from voile.core.atomic_file import check_output, check_output_folder, is_left_over, replace_file
from voile.core.errors import InvalidInput, UnreadableFile, VerificationFailed
from voile.core.input_file import read_file, read_json
from voile.federation.stored_text import file_stem
from voile.records.audit_log.publishing import CHECKPOINT_FILE, RECORDS_FILE
from voile.records.vault import POLICY

FORMAT: Final = "voile artefact"
VERSION: Final = 1
MANIFEST: Final = "artefact.json"
LOGS: Final = "logs"
FILES_OF_A_LOG: Final = (RECORDS_FILE, CHECKPOINT_FILE, POLICY)
RECOMMENDER: Final = "recommender.json"
CATALOGUE: Final = "catalogue.json"
MOMENTS: Final = "moments.safetensors"
"""What a recommender consists of, in a folder of its own or in an artefact."""

_Figure = Annotated[float, Field(allow_inf_nan=False)]
_Spent = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class _Reading(_Form):
    epsilon: _Spent
    delta: _Spent


class _Settings(_Form):
    clients: dict[str, Annotated[int, Field(ge=1)]]
    promised: _Reading
    training: dict[str, Any]
    logs: dict[str, str]


class _Manifest(_Form):
    name: str
    settings: _Settings
    files: dict[str, str]


class _Readings(_Form):
    joint: _Reading
    published_sum: _Reading
    stages: dict[str, _Reading]


class Statement(_Form):
    """The form of `guarantees.json`."""

    guarantees: list[dict[str, Any]]
    readings: _Readings
    spent_by_client: dict[str, _Reading]
    not_covered: list[str]


class _Distilled(_Form):
    cosine_to_exact_values_of_the_surrogate: _Figure
    sampled: bool = False


class _TrustFigures(_Form):
    rule: dict[str, _Figure | str]
    verified: bool
    parties: dict[str, list[dict[str, _Figure]]]
    importance: dict[str, _Figure]
    equal_weights_in_rounds: list[int]
    outliers: list[str]
    drifts: list[str]
    rounds: list[dict[str, Any]] = []
    weighted_down: list[str] = []
    alarms: list[str] = []


class _ComparedFigure(_Form):
    figure: _Figure
    low: _Figure
    high: _Figure
    baseline: _Figure
    linear_model: _Figure | None = None


class _Quality(_Form):
    spread: _Figure
    constant: bool
    alarms: list[str]
    figures: dict[str, _ComparedFigure]
    calibration: list[dict[str, _Figure]]


class _Stability(_Form):
    runs: int
    rows: str
    cosine: _Figure
    lowest_cosine: _Figure
    deviations: dict[str, _Figure]


class _Calibration(_Form):
    slope: _Figure
    shift: list[_Figure]
    rows: int


class Figures(_Form):
    """The form of `figures.json`."""

    measured_on: str
    rounds: dict[str, dict[str, list[_Figure]]]
    distilled_explainer: _Distilled | None = None
    trust: _TrustFigures | None = None
    quality: dict[str, _Quality] = {}
    stability: _Stability | None = None
    calibration: _Calibration | None = None


def read_form(path: Path, form: type[BaseModel]) -> dict[str, Any]:
    """What a JSON file of this form holds."""
    return _checked(path, read_json(path), form)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    replace_file(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def write_manifest(
    folder: Path, name: str, settings: Mapping[str, Any], listed: frozenset[str]
) -> None:
    """Write the manifest over these files; last, because it is what makes an artefact."""
    files = {file: file_digest(folder / file) for file in sorted(listed)}
    head = {"format": FORMAT, "version": VERSION, "name": name, "settings": settings}
    write_json(folder / MANIFEST, {**head, "files": files})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder, of a version that this voile reads."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UnreadableFile(f"{folder}: not a finished artefact ({MANIFEST} is missing)")
    head = read_json(path)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise UnreadableFile(f"{path}: not the manifest of an artefact")
    check_kind(path, head, FORMAT, VERSION)
    return _checked(path, head, _Manifest)


def log_place(party: str) -> str:
    """Where the exported log of a party lies inside an artefact."""
    return f"{LOGS}/{file_stem(party)}"


def files_of_logs(parties: Mapping[str, str]) -> frozenset[str]:
    """The files of the logs of these parties; `UnreadableFile` if one is said to lie elsewhere."""
    for party, place in parties.items():
        if place != (where := log_place(party)):
            raise UnreadableFile(
                f"{MANIFEST}: the log of {party!r:.80} lies in {where!r:.80}, found {place!r:.80}"
            )
    return frozenset(f"{place}/{file}" for place in parties.values() for file in FILES_OF_A_LOG)


def check_files(
    folder: Path, files: Mapping[str, str], expected: frozenset[str], manifest: str = MANIFEST
) -> None:
    """`UnreadableFile` unless exactly these are listed; `VerificationFailed` if one changed."""
    if set(files) != expected:
        lost, foreign = sorted(expected - set(files)), sorted(set(files) - expected)
        raise UnreadableFile(
            f"{folder / manifest}: lists other files than an artefact has: missing {lost!r:.200}, "
            f"unknown {foreign!r:.200}"
        )
    home = folder.resolve()
    for name, digest in files.items():
        if (folder / name).resolve() != home / name:
            raise UnreadableFile(f"{folder / name}: expected a file, found a link")
        if not (folder / name).is_file() or file_digest(folder / name) != digest:
            raise VerificationFailed(
                f"{folder / name}: was changed or deleted after it was written"
            )


@dataclass(frozen=True)
class OwnFolder:
    """A folder that one command writes, whole or not at all; the manifest comes last.

    Until then a manifest without anything but format and version says whose folder it is.

    Args:
        what: is in it, in words.
        command: what writes it, and finishes it after an interruption.
        manifest: the name of its manifest.
        kind, version: of the format.
        files: what may lie in it.
    """

    what: str
    command: str
    manifest: str
    kind: str
    version: int
    files: tuple[str, ...]

    @property
    def head(self) -> dict[str, Any]:
        return {"format": self.kind, "version": self.version}

    def is_at(self, folder: Path) -> bool:
        """Whether one lies there, finished or not."""
        try:
            head = read_json(folder / self.manifest)
        except UnreadableFile:
            return False
        return isinstance(head, dict) and head.get("format") == self.kind

    def check_place(self, folder: Path) -> None:
        """Refuse a place where nothing could be written, before anything is charged for it.

        It takes the place of an earlier one, finished or not, and of nothing else.
        """
        check_output_folder(folder)
        inside = sorted(folder.iterdir()) if folder.exists() else []
        found = [path.name for path in inside if not is_left_over(path, self.files)]
        others = [name for name in found if name not in self.files]
        if found and (others or not self.is_at(folder)):
            shown = ", ".join((others or found)[:3])
            raise InvalidInput(
                f"{folder}: holds other files than a {self.what} ({shown}); choose a new folder; "
                "nothing was charged"
            )
        for name in self.files if found else ():
            check_output(folder / name)

    def begin(self, folder: Path, stale: Collection[str] = ()) -> None:
        """Say whose folder it is, and clear away what was left over and what is out of date."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / self.manifest, self.head)
        for path in folder.iterdir():
            if is_left_over(path, self.files) or path.name in stale:
                path.unlink()

    def finish(self, folder: Path, content: Mapping[str, Any], files: Collection[str]) -> None:
        """Write the manifest, with a digest of each of these files."""
        digests = {name: file_digest(folder / name) for name in files}
        write_json(folder / self.manifest, {**self.head, **content, "files": digests})

    def read_head(self, folder: Path) -> dict[str, Any]:
        """The manifest of a finished one."""
        path = folder / self.manifest
        if not path.is_file():
            raise UnreadableFile(f"{folder}: no {self.what} ({self.manifest} is missing)")
        head = read_json(path)
        check_kind(path, head, self.kind, self.version)
        if head.keys() == self.head.keys():
            raise UnreadableFile(
                f"{folder}: training was interrupted; run the same `{self.command}` again, "
                "nothing is paid for twice"
            )
        return dict(head)


def file_digest(path: Path) -> str:
    return hashlib.sha256(read_file(path)).hexdigest()


def _checked(path: Path, content: Any, form: type[BaseModel]) -> dict[str, Any]:
    try:
        form.model_validate(content)
    except (ValidationError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": ()}
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise UnreadableFile(
            f"{path}: not as voile writes it: {where:.200}: {first.get('msg', 'nested too deeply')}"
        ) from None
    found: dict[str, Any] = content
    return found
