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
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from voile.app.federate.agreement import SERVER, origin_of
from voile.app.federate.config import Name, SingleFile
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
from voile.core.toml_text import quoted
from voile.federation.aggregators import MEAN
from voile.federation.stored_text import file_stem

_FEDERATION: Final = """\
# A federation: a model is trained across parties whose rows stay where they are.
# This file is public, and the same for everybody: it is what all parties agree on. Change it, and
# it is another agreement. Run it with: voile federate {file}
# `name` is the label of the federation and of the version of its data. Keys and logs carry it: to
# change it, start again in another folder (voile init ... --name NAME --output FOLDER).
name = {name}
pipeline = {pipeline}  # {others}
schema = {schema}
# secure = true  # the server learns sums of updates only, no single one{noise}
server_key = {server_key}  # that the server signs its log with, and its messages of a secure sum

[privacy]  # promised to each row of each party, for everything that leaves
epsilon = {epsilon}
delta = {delta}  # well below one over the number of rows of a party
relation = {relation}  # "zero-out", or "replace one" at about twice the cost
# members_count = 0.1  # of epsilon, for one count by each party: voile assess --count-members
# records_per_person = 1  # at most so many rows of one person, at all parties together: declared,
# and checked by nobody. Left out, the report says what is promised with 2 and with 5

{training}
# [secure_sum]  # with `secure = true`: against whom
# server = "active"  # or "honest but curious": it follows the protocol
# colluders = 1  # how many parties may work for it
# threshold = 3  # how many survive a round at least; left out: as few as these allow
{parties}"""
_OTHERS: Final = """\
or "logistic regression", "trusted", "shapley-guided noise"
# "full private explainer", as published; without labels: "aggregate", "recommender", "images\""""
_NOISE_STAYS: Final = "; noise stays as it is"
_STATISTICS: Final = "statistics"
_OR_NETWORKS: Final = """\
an additive model from three sums of whole numbers; or a network:
# "private explainer", "full private explainer", "logistic regression", "trusted",
# "shapley-guided noise"; without labels: "aggregate", "recommender", "images\""""
_NOISE_SHARED: Final = """, and
# parties share the noise: a sum has little more than that of one table with all rows"""
_ROUNDS: Final = """\
[training]
rounds = {rounds}  # of each stage
"""
_TRAINING: Final = """\
# participations = 10  # in how many of them a party takes part at most
# hidden = [64, 64]  # widths of the hidden layers
# aggregator = "median"  # withstands faulty parties; "mean" if left out
"""
_PARTY: Final = """
[[parties]]
name = {name}
rows = {rows}  # how many rows it has; public
key = {key}  # that its log is signed with
"""
_SERVER: Final = """\
# What belongs to the server of a federation.
output = {output}  # folder of the run; what may be shown lies in its folder `artefact`
{reference}{steps}
# Rows that are not protected, for the figures of the report: at least one file.
{held_out}
{superlink}"""
_REFERENCE: Final = (
    '# reference = "reference.csv"  # public rows to compare with; left out: drawn from the schema'
)
_STEPS: Final = "# distillation_steps = 3000  # of the fast explainer, which touches no data"
_HELD_OUT: Final = """\
[[held_out]]
name = {name}
data = {data}
"""
_NODE: Final = """\
# What stays with this party: nobody else needs to see it. Its ledger, its log and its keys lie
# beside this file; whoever has `audit.key` can sign in its name.
name = {name}
data = {data}  # CSV or Parquet
{federation}
[accepts]  # the most that it promises to each of its rows, whatever the others agree on
epsilon = {epsilon}
delta = {delta}
# agreement = "..."  # the digest of the one agreement that it takes part in
# columns = ["..."]  # if it is enough to protect these columns, and all others may become public;
# then data must be Parquet

{superlink}"""
_OWN_COPY: Final = """\
# federation = "federation.toml"  # its own copy, for a party on a machine of its own
"""
_NODE_LINK: Final = """\
# [superlink]  # how it reaches the server from a machine of its own: voile node node.toml
# address = "superlink.example:9092"  # host and port, as its certificate names it
# root_certificates = "ca.crt"  # of whoever signed that certificate
# key = "flower.key"  # that the SuperLink knows it by; made if it is missing
"""
_SERVER_LINK: Final = """\
# [superlink]  # for parties on other machines: voile federate ... --superlink HOST:PORT
# root_certificates = "ca.crt"  # of whoever signed the SuperLink's certificate
# secret = "secret"  # that the SuperLink was started with (--superexec-auth-secret-file)
# deadline = 3600  # seconds for one answer; left out: 600, or three times the slowest so far
"""


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
    """A party of a new federation, and how many rows it has, if that is known."""

    name: str
    data: Path
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


def default_name(folder: Path) -> str:
    """What a federation in this folder is called, unless somebody says otherwise."""
    name = folder.resolve().name
    return name if _fits(name) else "federation"


def _fits(name: str) -> bool:
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
    if not _fits(name):
        raise InvalidInput(
            f"a federation has a name of 1 to 64 printable characters without / and \\, found "
            f"{name!r:.80}"
        )
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
    settings = Settings(pipeline=_STATISTICS, held_out=(("held out", folder / "held-out.csv"),))
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
    folder: Path, name: str, schema: Path, founders: Sequence[NewParty], settings: Settings
) -> Path:
    """Write all files of a federation whose schema is there already; its `federation.toml`."""
    texts = _texts(folder, founders, settings)
    return _write(folder, founders, texts, _Agreed(name, schema, settings))


@dataclass(frozen=True)
class _Agreed:
    """What `federation.toml` says besides the parties."""

    name: str
    schema: Path
    settings: Settings

    def text(self, folder: Path, server_key: str, parties: str) -> str:
        settings, new = self.settings, self.settings.pipeline == _STATISTICS
        return _FEDERATION.format(
            pipeline=quoted(settings.pipeline),
            others=_OR_NETWORKS if new else _OTHERS,
            noise=_NOISE_SHARED if new else _NOISE_STAYS,
            file=FEDERATION_FILE,
            name=quoted(self.name),
            schema=_from(folder, self.schema),
            server_key=server_key,
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
            parties += _PARTY.format(rows=founder.rows, **named)
        server = party_key(_output(folder, agreed.settings), origin_of(agreed.name, SERVER))
        for path, text in texts.items():
            replace_file(path, text.encode())
        content = agreed.text(folder, quoted(str(server)), parties)
        return replace_file(folder / FEDERATION_FILE, content.encode())


def _training(stated: Mapping[str, Any]) -> str:
    shown = {key: stated[key] for key in ("participations", "hidden") if key in stated}
    if stated.get("aggregator", MEAN) != MEAN:
        shown["aggregator"] = stated["aggregator"]
    lines = [f"{key} = {json.dumps(each)}\n" for key, each in shown.items()]
    rounds = _ROUNDS.format(rounds=stated.get("rounds", 10))
    return rounds + ("".join(lines) or _TRAINING)


def _node_text(founder: NewParty, folder: Path, agreed: Path, settings: Settings) -> str:
    link = settings.link
    copy = _OWN_COPY if link is None else f"federation = {_from(folder, agreed)}\n"
    place = _NODE_LINK if link is None else _link_text(folder, link, address=link.address)
    return _NODE.format(
        federation=copy,
        superlink=place,
        name=quoted(founder.name),
        data=_from(folder, founder.data),
        epsilon=settings.epsilon,
        delta=settings.delta,
    )


def _server_text(folder: Path, settings: Settings) -> str:
    steps, reference = settings.training.get("distillation_steps"), settings.reference
    held_out = (
        _HELD_OUT.format(name=quoted(name), data=_from(folder, data))
        for name, data in settings.held_out
    )
    link = settings.link
    secret = {} if link is None else {"secret": os.path.relpath(link.secret, folder)}
    return _SERVER.format(
        superlink=_SERVER_LINK if link is None else _link_text(folder, link, **secret),
        output=_from(folder, _output(folder, settings)),
        reference=_REFERENCE if reference is None else f"reference = {_from(folder, reference)}",
        steps="\n" + (_STEPS if steps is None else f"distillation_steps = {steps}"),
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
