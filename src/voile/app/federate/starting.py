"""`voile init` for tables: all files of a new federation, each where it belongs.

`federation.toml` is written last: broken off before, the same start goes on. What is there is
compared with what would be written, and keys are not made anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from voile.app.federate import starting_texts as templates
from voile.app.federate.agreement import SERVER, origin_of
from voile.app.federate.config import AssumedServer, Name, SingleFile
from voile.app.federate.files import FEDERATION_FILE, NODE_FILE, NODES, SERVER_FILE
from voile.app.federate.party import party_key
from voile.app.starting import (
    SCHEMA_FILE,
    header,
    one_start_at_a_time,
    schema_text,
)
from voile.app.toml_file import TomlFile
from voile.core.atomic_file import replace_file
from voile.core.errors import InvalidInput
from voile.core.guarantee import Relation
from voile.core.input_file import read_file
from voile.core.schema import Schema
from voile.core.toml_text import quoted
from voile.federation.aggregators import MEAN
from voile.federation.stored_text import file_stem


@dataclass(frozen=True)
class StartedFederation:
    """What was written, from which tables, and what their header holds."""

    schema: Path
    config: Path
    tables: tuple[Path, ...]
    columns: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class SplitFederation:
    """What was written from a federation that stood in one file."""

    config: Path


@dataclass(frozen=True)
class NewParty:
    """A party of a new federation, and how many rows it has, if that is known.

    Args:
        data: the file with its rows; None if it hands them over in Python.
    """

    name: str
    data: Path | None
    rows: int = 0


@dataclass(frozen=True)
class LinkFiles:
    """How a SuperLink is reached, and by whom; see `voile.app.federate.config`."""

    address: str
    root_certificates: Path
    secret: Path


@dataclass(frozen=True)
class Settings:
    """What the files of a new federation say besides its parties."""

    epsilon: float = 2.0
    delta: float = 1e-5
    relation: Relation = Relation.BLANK_ONE
    pipeline: str = "private explainer"
    training: Mapping[str, Any] = field(default_factory=dict)
    output: Path | None = None
    held_out: tuple[tuple[str, Path], ...] = ()
    reference: Path | None = None
    link: LinkFiles | None = None
    secure: AssumedServer | None = None


def default_name(folder: Path) -> str:
    """What a federation in this folder is called, unless somebody says otherwise."""
    name = folder.resolve().name
    return name if fits_as_name(name) else "federation"


def check_name(name: str) -> None:
    """Of a federation."""
    if not fits_as_name(name):
        raise InvalidInput(
            f"a federation has a name of 1 to 64 printable characters without / and \\, found "
            f"{name!r:.80}"
        )


def fits_as_name(name: str) -> bool:
    """Of a federation or of a party."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        return False
    return name.isprintable()


def start_federation(
    files: Sequence[Path], folder: Path, *, label: str | None = None, name: str | None = None
) -> StartedFederation:
    """Write a schema and all files of a federation; never over existing ones.

    Every party gets a folder with its own books and keys; the public halves of the keys stand in
    what all agree on.

    Args:
        files: CSV or Parquet files with equal columns, one of each party.
        folder: where to write.
        label: the column to predict; the last one if not given.
        name: of the federation; that of the folder if not given.
    """
    name = default_name(folder) if name is None else name
    check_name(name)
    if not files:
        raise InvalidInput("at least one data file is needed")
    columns = header(files[0])
    for file in files[1:]:
        if header(file) != columns:
            raise InvalidInput(f"{file}: its columns differ from those of {files[0]}")
    chosen = columns[-1] if label is None else label
    if chosen not in columns:
        raise InvalidInput(f"{files[0]} has no column {chosen!r}; it has {', '.join(columns)}")
    founders = [NewParty(file.stem, file) for file in files]
    schema = folder / SCHEMA_FILE
    settings = Settings(
        pipeline=templates.STATISTICS, held_out=(("held out", folder / "held-out.csv"),)
    )
    texts = {schema: schema_text(name, columns, chosen), **_texts(folder, founders, settings)}
    config = _write(folder, founders, texts, _Agreed(name, schema, settings))
    return StartedFederation(schema, config, tuple(files), columns, chosen)


def split(file: Path, folder: Path) -> Path:
    """Split a federation that stands in one file, as an earlier version had it.

    The schema stays where it is. Parties begin new books: a run that was begun from that file is
    not continued by the new ones.
    """
    old, home = TomlFile.read(file).checked(SingleFile), file.parent
    founders = [NewParty(each.name, home / each.data, each.rows) for each in old.clients]
    settings = Settings(
        epsilon=old.privacy.epsilon,
        delta=old.privacy.delta,
        relation=old.privacy.relation,
        training=old.training.model_dump(exclude_none=True),
        output=home / old.output,
        held_out=tuple((each.name, home / each.data) for each in old.held_out),
        reference=None if old.reference is None else home / old.reference,
    )
    return write_federation(folder, old.name, home / old.schema_file, founders, settings)


def write_federation(
    folder: Path,
    name: str,
    schema: Path | Schema,
    founders: Sequence[NewParty],
    settings: Settings,
) -> Path:
    """Write all files of a federation; its `federation.toml`.

    Args:
        schema: a file that is there already, or a schema, which is written as well.
    """
    texts = _texts(folder, founders, settings)
    if isinstance(schema, Schema):
        texts, schema = {folder / SCHEMA_FILE: schema.dumps(), **texts}, folder / SCHEMA_FILE
    return _write(folder, founders, texts, _Agreed(name, schema, settings))


@dataclass(frozen=True)
class _Agreed:
    """What `federation.toml` says besides the parties."""

    name: str
    schema: Path
    settings: Settings

    def text(self, folder: Path, server_key: str, parties: str) -> str:
        settings, new = self.settings, self.settings.pipeline == templates.STATISTICS
        return templates.FEDERATION.format(
            pipeline=quoted(settings.pipeline),
            others=templates.OR_NETWORKS if new else templates.OTHERS,
            noise=templates.NOISE_SHARED if new else templates.NOISE_STAYS,
            file=FEDERATION_FILE,
            name=quoted(self.name),
            schema=_from(folder, self.schema),
            server_key=server_key,
            **_secure_words(settings.secure),
            epsilon=settings.epsilon,
            delta=settings.delta,
            relation=quoted(settings.relation.word),
            training="" if new else _training(settings.training),
            parties=parties,
        )


def _texts(folder: Path, founders: Sequence[NewParty], settings: Settings) -> dict[Path, str]:
    """Of the files that need no key."""
    homes = {_home(folder, founder): founder for founder in founders}
    agreed = folder / FEDERATION_FILE
    nodes = {
        own / NODE_FILE: _node_text(each, own, agreed, settings) for own, each in homes.items()
    }
    return {folder / SERVER_FILE: _server_text(folder, settings), **nodes}


def _output(folder: Path, settings: Settings) -> Path:
    return folder / "output" if settings.output is None else settings.output


def _home(folder: Path, founder: NewParty) -> Path:
    return folder / NODES / file_stem(founder.name)


def _check_new(folder: Path, founders: Sequence[NewParty], texts: Mapping[Path, str]) -> None:
    """Refuse to overwrite anything but what the same start has written."""
    names = [founder.name for founder in founders]
    if len(set(names)) < len(names):
        raise InvalidInput(
            f"parties are named after their files, so the files need different names: {names}"
        )
    nodes, own = folder / NODES, {_home(folder, founder) for founder in founders}
    begun = nodes.is_dir() and not nodes.is_symlink() and own.issuperset(nodes.iterdir())
    ours = {path for path, text in texts.items() if _holds(path, text)}
    for path in (*texts, folder / FEDERATION_FILE, nodes):
        if os.path.lexists(path) and path not in ours and not (path == nodes and begun):
            raise InvalidInput(f"{path}: exists already; move it away or choose another folder")


def _holds(path: Path, text: str) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    return read_file(path) == text.encode()


def _write(
    folder: Path, founders: Sequence[NewParty], texts: Mapping[Path, str], agreed: _Agreed
) -> Path:
    _check_new(folder, founders, texts)
    with one_start_at_a_time(folder):
        _check_new(folder, founders, texts)  # another process may have made them by now
        parties = ""
        for founder in founders:
            key = party_key(_home(folder, founder), origin_of(agreed.name, founder.name))
            named = {"name": quoted(founder.name), "key": quoted(str(key))}
            parties += templates.PARTY.format(rows=founder.rows, **named)
        server = party_key(_output(folder, agreed.settings), origin_of(agreed.name, SERVER))
        for path, text in texts.items():
            replace_file(path, text.encode())
        content = agreed.text(folder, quoted(str(server)), parties)
        return replace_file(folder / FEDERATION_FILE, content.encode())


def _secure_words(secure: AssumedServer | None) -> dict[str, str]:
    """Commented out, unless sums are secret."""
    against = AssumedServer.ACTIVE if secure is None else secure
    (other,) = set(AssumedServer) - {against}
    return {
        "secure": "# " if secure is None else "",
        "server": quoted(against.value),
        "other_server": f"{quoted(other.value)}: {templates.SERVERS[other]}",
    }


def _training(stated: Mapping[str, Any]) -> str:
    shown = {key: stated[key] for key in ("participations", "hidden") if key in stated}
    if stated.get("aggregator", MEAN) != MEAN:
        shown["aggregator"] = stated["aggregator"]
    lines = [f"{key} = {json.dumps(each)}\n" for key, each in shown.items()]
    rounds = templates.ROUNDS.format(rounds=stated.get("rounds", 10))
    return rounds + ("".join(lines) or templates.TRAINING)


def _node_text(founder: NewParty, folder: Path, agreed: Path, settings: Settings) -> str:
    link = settings.link
    copy = templates.OWN_COPY if link is None else f"federation = {_from(folder, agreed)}\n"
    place = templates.NODE_LINK if link is None else _link_text(folder, link, address=link.address)
    return templates.NODE.format(
        federation=copy,
        superlink=place,
        name=quoted(founder.name),
        data=templates.HANDED_OVER
        if founder.data is None
        else f"data = {_from(folder, founder.data)}",
        epsilon=settings.epsilon,
        delta=settings.delta,
    )


def _server_text(folder: Path, settings: Settings) -> str:
    steps, reference = settings.training.get("distillation_steps"), settings.reference
    held_out = (
        templates.HELD_OUT.format(name=quoted(name), data=_from(folder, data))
        for name, data in settings.held_out
    )
    link = settings.link
    secret = {} if link is None else {"secret": os.path.relpath(link.secret, folder)}
    return templates.SERVER.format(
        superlink=templates.SERVER_LINK if link is None else _link_text(folder, link, **secret),
        output=_from(folder, _output(folder, settings)),
        reference=templates.REFERENCE
        if reference is None
        else f"reference = {_from(folder, reference)}",
        steps="\n" + (templates.STEPS if steps is None else f"distillation_steps = {steps}"),
        held_out="\n".join(held_out),
    )


def _link_text(folder: Path, link: LinkFiles, **stated: str) -> str:
    lines = [f"{key} = {quoted(value)}\n" for key, value in stated.items()]
    return f"[superlink]\nroot_certificates = {_from(folder, link.root_certificates)}\n" + "".join(
        lines
    )


def _from(folder: Path, file: Path) -> str:
    """As a file in this folder will look for it."""
    return quoted(os.path.relpath(file, folder))
