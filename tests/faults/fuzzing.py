"""Every parser of voile, fed with broken input: it reads it, or says what is wrong.

An outcome is sound if something was read, or if a `VoileError` was raised (`Malformed` in the parts
of the audit log that anybody can verify with and that know nothing else of voile). Anything else is
a traceback in somebody's terminal.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from tests.contract.stored.saved.make import FOLDER as SAVED
from tests.faults.mutations import (
    EVERYWHERE,
    Mutation,
    json_changed,
    safetensors_changed,
    words_changed,
    zip_changed,
)
from tests.unit.records.audit_log.examples import LOG_KEY, SmallLog, policy, release
from voile.app.artefact import (
    finish,
    load_artefact,
    surrogate_files,
    write_artefact,
)
from voile.app.artefact_manifest import FILES_OF_A_LOG, MANIFEST, log_place
from voile.app.explain.files import origin_from
from voile.app.federate import party_key, read_agreement
from voile.app.model_files import network_files, table_files
from voile.app.starting import header
from voile.attribution import FastShap, Surrogate
from voile.attribution.fastshap import load_explainer, load_surrogate, save
from voile.attribution.fastshap.encoding import Encoding
from voile.attribution.players import Players
from voile.core.errors import Refused, VoileError
from voile.core.explanation import Explanation
from voile.core.guarantee import Adversary, Guarantee, Protected, ProtectedUnit, Relation
from voile.core.schema import Categories, Feature, Label, Numbers, Schema
from voile.datasets import read_protected_table, read_table
from voile.federation.history import HistoryRow, read_history, write_history
from voile.federation.round_log import Outcome
from voile.federation.rounds import Checkpoints, StagePlace
from voile.models import wrap
from voile.models.loading import load_file
from voile.models.wrapped import row_wise
from voile.pipelines.tables import NetworkModel, OutputHead
from voile.privacy.events import Composed, Gaussian, Repeated
from voile.records.audit_log import (
    Policy,
    Receipt,
    decode_record,
    verify_receipt,
    verify_row_receipt,
)
from voile.records.audit_log.canonical import Malformed
from voile.records.audit_log.keys import SigningKey
from voile.records.audit_log.notes import Checkpoint, Note
from voile.records.audit_log.row_receipt import RowTree
from voile.records.audit_log.witness import AddCheckpointRequest
from voile.records.ledger import ReplayKey
from voile.records.ledger.event_text import event_from, event_text
from voile.release import PrivateHistograms
from voile.training import Softmax, perceptron

SCHEMA = Schema(
    "people",
    (
        Feature("age", Numbers(18, 100, whole=True)),
        Feature("income", Numbers(0.0, 1e5)),
        Feature("sex", Categories(("female", "male"))),
    ),
    Label("ill", Categories((0, 1))),
)
PROMISE = Guarantee(
    epsilon=1.0,
    delta=1e-5,
    protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "people v1"),
    against=(Adversary.PUBLIC,),
    computational=True,
    mechanism="noise",
    composition="one release",
)


@dataclass(frozen=True)
class Parser:
    """Something that reads bytes, sound ones for it, and how else they get broken."""

    name: str
    sound: bytes
    read: Callable[[bytes], object]
    ways: tuple[Mutation, ...] = ()

    def broken(self, chance: random.Random) -> bytes:
        way = chance.choice((*EVERYWHERE, *self.ways, *self.ways))
        return way(self.sound, chance)


def fuzz_parsers(folder: Path, inputs: int, *, seed: int = 0) -> int:
    """Feed so many inputs, in turn to all parsers; raises at the first unsound outcome."""
    return feed(parsers(folder), folder, inputs, seed=seed)


def feed(every: Sequence[Parser], folder: Path, inputs: int, *, seed: int = 0) -> int:
    """The same for these parsers."""
    for parser in every:
        parser.read(parser.sound)  # else the rest would show nothing
    for number in range(inputs):
        parser = every[number % len(every)]
        content = parser.broken(random.Random(f"{seed}/{number}"))
        try:
            parser.read(content)
        except (VoileError, Malformed):
            pass
        except Exception as error:
            kept = folder / "unsound"
            kept.write_bytes(content)
            raise AssertionError(f"{parser.name}: input {seed}/{number}: {error!r:.500}") from error
    return inputs


def parsers(folder: Path) -> list[Parser]:
    return [*_tables(folder), *_texts(folder), *_arrays(folder), *_proofs(folder), *_made(folder)]


def through(
    path: Path, read: Callable[[Path], object], mode: int = 0o644
) -> Callable[[bytes], Any]:
    """A reader of files as a reader of bytes."""

    def write_and_read(content: bytes) -> object:
        path.write_bytes(content)
        path.chmod(mode)
        return read(path)

    return write_and_read


# --- tables ---------------------------------------------------------------------------------------


def _tables(folder: Path) -> Iterator[Parser]:
    cells = "age,income,sex,ill\n40,1e3,female,0\n,nan,male,1\n" + '"51",2.5,"male",1\r\n' * 5
    text, open_ways = cells.encode(), (words_changed,)
    yield Parser("open CSV", text, through(folder / "open.csv", _read_open), open_ways)
    yield Parser("header of CSV", text, through(folder / "head.csv", header), open_ways)
    closed = through(folder / "closed.csv", _read_closed)
    yield Parser("protected CSV", text, closed, open_ways)
    columns = {"age": [40, None], "income": [1e3, 2.5], "sex": ["female", "male"], "ill": [0, 1]}
    more = {"list": [[1], None], "when": np.array([1, 2], "datetime64[s]")}
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns | more), buffer)
    data = buffer.getvalue()
    yield Parser("open Parquet", data, through(folder / "open.parquet", _read_open))
    yield Parser("protected Parquet", data, through(folder / "closed.parquet", _read_closed))
    yield Parser("header of Parquet", data, through(folder / "head.parquet", header))
    rows = [HistoryRow("box", 1, "city", Outcome.ANSWERED, event_text(Gaussian(1.0)), 0.5)]
    written = write_history(rows, folder / "h.parquet").read_bytes()
    yield Parser("history", written, through(folder / "history.parquet", read_history))


def _read_open(path: Path) -> object:
    table = read_table(path)
    return SCHEMA.check(table), SCHEMA.rows(table), SCHEMA.labels(table)


def _read_closed(path: Path) -> object:
    table = read_protected_table(path)
    return SCHEMA.null_records(table), SCHEMA.rows(table), SCHEMA.labels(table)


# --- texts that people and programs write ---------------------------------------------------------


def _texts(folder: Path) -> Iterator[Parser]:
    toml = SCHEMA.dumps().encode()
    yield Parser("schema", toml, through(folder / "s.toml", Schema.load), (words_changed,))
    (folder / "schema.toml").write_bytes(toml)
    key = party_key(folder / "city", "example.org/city")
    config = b"""name = "study"
schema = "schema.toml"
[privacy]
epsilon = 3
delta = 1e-4
[training]
rounds = 3
hidden = [16]
[[parties]]
name = "city"
rows = 100
"""
    config += f'key = "{key}"\n'.encode()
    agreed = through(folder / "f.toml", read_agreement)
    yield Parser("what a federation agreed on", config, agreed, (words_changed,))
    promises = json.dumps({"guarantees": [PROMISE.to_dict()]}).encode()
    origin = through(folder / "g.json", lambda path: origin_from(str(path)))
    yield Parser("guarantees", promises, origin, (json_changed,))
    event = Composed((Gaussian(1.5), Repeated(Gaussian(2.0), 3)))
    text = event_text(event).encode()
    yield Parser("event", text, lambda c: event_from(c.decode(errors="replace")), (json_changed,))


# --- arrays and networks --------------------------------------------------------------------------


def _arrays(folder: Path) -> Iterator[Parser]:
    learned, chosen = _learned(), (safetensors_changed,)
    yield Parser("explanation", _explanation().to_bytes(), Explanation.from_bytes, chosen)
    stored = (SAVED / "complete.voile").read_bytes()
    yield Parser("explanation, version 1", stored, Explanation.from_bytes, (zip_changed,))
    both = save(learned, folder / "e.safetensors").read_bytes()
    rows = np.array([[40.0, 1e3, 0.0]])
    use = through(folder / "explainer.safetensors", lambda path: load_explainer(path)(rows))
    yield Parser("learned explainer", both, use, chosen)
    use = through(folder / "surrogate.safetensors", lambda p: load_surrogate(p).predict(rows))
    yield Parser("surrogate", both, use, chosen)
    yield _checkpoint(folder)
    yield Parser("ONNX", _onnx(), through(folder / "model.onnx", _model))
    file = through(folder / "zip.onnx", _refused)
    yield Parser("zip in the place of a model", stored, file, (zip_changed,))
    yield from _answers()


def _model(path: Path) -> object:
    model = wrap(load_file(path))
    return row_wise(model), model.predict(np.array([[40.0, 1e3, 0.0]]))


def _refused(path: Path) -> object:
    """A zip is never a model; the sound one must be refused, too."""
    try:
        return load_file(path)
    except Refused as refused:
        return refused


def _answers() -> Iterator[Parser]:
    release = PrivateHistograms(
        np.array([[40.0, 1e3, 0.0]]),
        SCHEMA,
        protected=Protected(ProtectedUnit.ROW, Relation.BLANK_ONE, "people v1"),
        epsilon=1.0,
        delta=1e-5,
        size=5,
    )
    codec = release.codec
    yield Parser("stored rows", codec.pack(release.draw()), codec.unpack)


def _explanation() -> Explanation:
    values = np.arange(6.0).reshape(2, 3, 1)
    return Explanation(
        values=values,
        base_values=np.zeros((2, 1)),
        feature_names=SCHEMA.feature_names,
        data=values[:, :, 0],
        standard_errors=values,
        guarantees=(PROMISE,),
        notes=("a note",),
    )


def _learned() -> FastShap:
    draw = np.random.default_rng(0)
    encoding = Encoding.around_defaults(SCHEMA)
    surrogate = Surrogate(
        encoding=encoding,
        players=Players.from_groups(SCHEMA.feature_names, None),
        head=Softmax(),
        network=perceptron(encoding.width + 3, (4,), 2, draw),
        feature_names=SCHEMA.feature_names,
        output_names=("0", "1"),
        schema=SCHEMA,
    )
    return FastShap(surrogate, perceptron(encoding.width, (4,), 6, draw))


def _checkpoint(folder: Path) -> Parser:
    kept = Checkpoints(folder / "checkpoints", "box", "agreed")
    row = HistoryRow("box", 1, "city", Outcome.ANSWERED, "", 0.5)
    place = StagePlace(
        0,
        {"0.weight": np.zeros((2, 3), np.float32)},
        (("city",),),
        {"first/0.weight": np.zeros((2, 3))},
    )
    kept.begin(place)
    kept.save(replace(place, round=1, rows=(row,), figures=({"accuracy": 0.5},)))
    path = folder / "checkpoints" / "box.1.safetensors"
    read = through(path, lambda _: kept.load())
    return Parser("checkpoint of a federation", path.read_bytes(), read, (safetensors_changed,))


def _onnx() -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((3, 2), np.float32), "weights")
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["y"])]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Softmax", ["y"], ["probabilities"], axis=1)],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 2])],
        [weights],
    )
    opset = [helper.make_opsetid("", 13)]
    content: bytes = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    return content


# --- proofs and keys ------------------------------------------------------------------------------


def _proofs(folder: Path) -> Iterator[Parser]:
    log, ways = SmallLog.of([release(number) for number in range(4)]), (words_changed,)
    receipt, trusted = log.receipt(2, 4), policy()
    yield Parser("receipt", bytes(receipt), lambda c: verify_receipt(c, trusted), ways)
    yield Parser("parts of a receipt", bytes(receipt), Receipt.parse, ways)
    of_row = bytes(RowTree.from_rows([b"a", b"b", b"c"], bytes(32)).receipt(1, receipt))
    yield Parser(
        "receipt of a row", of_row, lambda c: verify_row_receipt(c, trusted, row=b"b"), ways
    )
    text = str(trusted).encode()
    yield Parser("policy", text, lambda c: Policy.parse(c.decode(errors="replace")), ways)
    note = bytes(log.note(4))
    yield Parser("note", note, lambda c: Checkpoint.parse(Note.parse(c).text), ways)
    yield Parser("record", receipt.record, decode_record, (json_changed,))
    asked = b"old 2\n" + log.consistency(2, 4) + b"\n" + note
    yield Parser("request to a witness", asked, AddCheckpointRequest.parse, ways)
    LOG_KEY.save(folder / "sound.key")
    key = (folder / "sound.key").read_bytes()
    yield Parser("signing key", key, through(folder / "log.key", SigningKey.load, 0o600))
    ReplayKey.generate().save(folder / "sound-replay.key")
    key = (folder / "sound-replay.key").read_bytes()
    yield Parser("replay key", key, through(folder / "replay.key", ReplayKey.load, 0o600))


# --- artefacts ------------------------------------------------------------------------------------


def _made(folder: Path) -> Iterator[Parser]:
    made = _artefact(folder / "artefact")
    ways = (json_changed, json_changed)
    for name, read in (
        (MANIFEST, lambda: load_artefact(made)),
        ("guarantees.json", lambda: _opened(made).guarantees),
        ("figures.json", lambda: _opened(made).figures),
    ):
        path = made / name
        yield Parser(name, path.read_bytes(), _restoring(path, read), ways)
    path = made / "black_box.safetensors"
    use = _restoring(path, lambda: _opened(made).model.predict(np.array([[40.0, 1e3, 0.0]])))
    yield Parser("black box", path.read_bytes(), use, (safetensors_changed,))


def _opened(folder: Path) -> Any:
    """As after `load_artefact`: a manifest is not signed, so files may hold anything."""
    head = json.loads((folder / MANIFEST).read_text())
    from voile.app.artefact import Artefact

    return Artefact(folder, head["name"], head["settings"], frozenset(head["files"]))


def _restoring(path: Path, read: Callable[[], object]) -> Callable[[bytes], object]:
    sound = path.read_bytes()

    def write_and_read(content: bytes) -> object:
        path.write_bytes(content)
        try:
            return read()
        finally:
            path.write_bytes(sound)

    return write_and_read


def _artefact(folder: Path) -> Path:
    learned, draw = _learned(), np.random.default_rng(0)
    width = Encoding.around_defaults(SCHEMA).width
    box = NetworkModel(SCHEMA, OutputHead.of_label(SCHEMA), perceptron(width, (4,), 2, draw))
    spent = {"epsilon": 1.0, "delta": 1e-5}
    reference = np.array([[40.0, 1e3, 0.0], [50.0, 2e3, 1.0]])
    files = {
        **table_files(SCHEMA, reference),
        **network_files(box, {}),
        **surrogate_files(learned.surrogate, learned, reference),
    }
    write_artefact(
        folder,
        files,
        guarantees=(PROMISE,),
        statement={
            "readings": {"joint": spent, "published_sum": spent, "stages": {"box": spent}},
            "spent_by_client": {"city": spent},
            "not_covered": ["nothing"],
        },
        figures={
            "measured_on": "2 rows",
            "rounds": {"box": {"accuracy": [0.5]}},
            "distilled_explainer": {"cosine_to_exact_values_of_the_surrogate": 0.9},
        },
        history=(HistoryRow("box", 1, "city", Outcome.ANSWERED, "", 0.0),),
    )
    log = folder / log_place("server")
    log.mkdir(parents=True)
    for name in FILES_OF_A_LOG:
        (log / name).write_bytes(b"")
    logs = {"server": log_place("server")}
    settings = {"clients": {"city": 2}, "promised": spent, "training": {}, "logs": logs}
    finish(folder, "study", settings)
    return folder
