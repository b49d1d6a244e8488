"""`secure = true`: a federation whose server learns sums of updates only."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.pages import report_html
from tests.unit.app.federate.test_run import CHOSEN, write_files

from voile.app.artefact import Artefact
from voile.app.federate import Job, federate, open_node, read_agreement, read_job
from voile.app.federate.run import run_server
from voile.app.report.figures import contradictions
from voile.core.errors import InvalidInput, Refused
from voile.core.guarantee import Adversary
from voile.federation import Advertised, AnnouncedRound, Closed, Joined, Outcome, SecureSum, Threads
from voile.federation.secure_aggregation import (
    ActiveServer,
    HonestButCurious,
    SignedMessage,
    Sparse,
)
from voile.records.audit_log import RoundShownRecord, SigningKey, canonical_bytes, decode_record

SECURE = "# secure = true  "


def secretly(folder: Path, **changes: str) -> Path:
    """The files of a federation of three, whose updates are added up in secret."""
    file = write_files(folder)
    text = file.read_text().replace(SECURE, "secure = true  ")
    text = text.replace('"private explainer"', '"logistic regression"').replace("hidden =", "# ")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return read_job(secretly(tmp_path_factory.mktemp("secret")))


@pytest.fixture(scope="module")
def artefact(job: Job) -> Artefact:
    return federate(job).artefact


class Watched(Threads):
    """Keeps what nodes answer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.answers: list[Any] = []

    def exchange(self, messages: Any, deadline: float | None = None) -> Any:
        for reply in super().exchange(messages, deadline):
            self.answers.append(reply.content)
            yield reply


def records(artefact: Artefact) -> dict[str, list[bytes]]:
    return {
        name: (artefact.log_folder(name) / "records.jsonl").read_bytes().splitlines()
        for name in CHOSEN
    }


def test_nothing_but_keys_shares_masked_integers_and_logs_leaves_a_party(
    job: Job, tmp_path: Path
) -> None:
    own = replace(
        job,
        parties=tuple(
            replace(p, folder=shutil.copytree(p.folder, tmp_path / p.name)) for p in job.parties
        ),
        server=replace(job.server, folder=tmp_path / "output"),
    )
    shutil.copytree(job.server.folder, tmp_path / "output")
    with ExitStack() as stack:
        nodes = [stack.enter_context(open_node(p, own.agreement)) for p in own.parties]
        transport = Watched(nodes)
        run_server(own.agreement, own.server, transport)
    expected = {Joined, Advertised, SignedMessage, Closed}
    assert {type(answer) for answer in transport.answers} == expected
    assert all(a.statement.arrays == {} for a in transport.answers if type(a) is Advertised)


def test_the_guarantee_names_the_server_that_sees_sums_and_what_that_rests_on(
    artefact: Artefact,
) -> None:
    (guarantee,) = artefact.guarantees
    assert Adversary.SERVER_SEEING_SUMS in guarantee.against
    assert guarantee.computational
    assert any("an active server" in each for each in guarantee.assumptions)
    assert {row.outcome for row in artefact.history} == {Outcome.ANSWERED}


def test_the_report_says_who_sees_what_and_what_a_secure_sum_does_not_do(
    artefact: Artefact,
) -> None:
    page = report_html(artefact)
    assert "Who sees what" in page
    assert "the sum of updates" in page
    assert "it adds no noise" in page
    assert "reads single rows" in page
    assert "3 of 3 parties" in page.replace("\n", " ")
    assert "each was shown the same rounds" in page
    assert 0 < artefact.settings["secure_sum"]["largest_rounding_error"] < 1e-4


def test_every_party_keeps_the_rounds_that_it_was_shown(artefact: Artefact, job: Job) -> None:
    found = {
        name: [
            record for record in map(decode_record, lines) if isinstance(record, RoundShownRecord)
        ]
        for name, lines in records(artefact).items()
    }
    links = [[(each.stage, each.round, each.link) for each in kept] for kept in found.values()]
    assert len(links[0]) == 3
    assert all(each == links[0] for each in links)
    assert {each.agreement for kept in found.values() for each in kept} == {job.agreement.digest}
    assert job.agreement.server_key is not None
    assert contradictions(records(artefact), job.agreement.server_key) == ()


def retold(logs: dict[str, list[bytes]], party: str, sign: Any = None) -> dict[str, list[bytes]]:
    """The log of a party in which round 2 is another one, signed anew where somebody can."""

    def told(record: Any) -> bytes:
        if isinstance(record, RoundShownRecord) and record.round == 2:
            record = replace(record, link=bytes(32))
            if sign is not None:
                shown = AnnouncedRound(
                    record.agreement, record.stage, 2, record.previous.hex(), record.link.hex(),
                    record.begun.hex(),
                )  # fmt: skip
                record = replace(record, signature=sign(shown.text).hex())
        return canonical_bytes(record)

    return {**logs, party: [told(decode_record(line)) for line in logs[party]]}


def test_two_histories_that_the_server_signed_are_seen(artefact: Artefact, job: Job) -> None:
    key = job.agreement.server_key
    assert key is not None
    server = SigningKey.load(job.server.folder / "audit.key")
    split = contradictions(
        retold(records(artefact), "coast", lambda text: server.sign(text).value), key
    )
    assert any(each.startswith("round 2 of") and "coast" in each for each in split)


def test_a_party_cannot_accuse_the_server_of_what_it_did_not_sign(
    artefact: Artefact, job: Job
) -> None:
    assert job.agreement.server_key is not None
    found = contradictions(retold(records(artefact), "coast"), job.agreement.server_key)
    assert found == ("coast holds a round that the server did not sign",)


def test_the_same_command_again_trains_nothing(job: Job, artefact: Artefact) -> None:
    again = federate(job)
    assert again.artefact.folder == artefact.folder


def test_it_is_another_agreement(job: Job, tmp_path: Path) -> None:
    plain = replace(job.agreement, secure=None)
    others = [
        replace(job.agreement, secure=model)
        for model in (
            HonestButCurious(),
            ActiveServer(1, 3),
            HonestButCurious(graph=Sparse(2, 1, 0)),
        )
    ]
    digests = {each.digest for each in (job.agreement, plain, *others)}
    assert len(digests) == 5
    assert isinstance(job.agreement.protocol, SecureSum)
    text = secretly(tmp_path).read_text()
    file = tmp_path / "plain.toml"
    file.write_text(text.replace("secure = true  ", SECURE))
    assert read_agreement(file).secure is None


def test_a_server_with_another_key_is_refused(job: Job, tmp_path: Path) -> None:
    server = replace(job.server, folder=tmp_path / "elsewhere")
    with pytest.raises(Refused, match="another key"):
        run_server(job.agreement, server, Threads([Nobody("city")]))


class Nobody:
    """Is never asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    def handle(self, message: Any) -> Any:
        raise AssertionError(message)


TABLES: dict[str, tuple[str, str]] = {
    "too few": ('server = "active"\nthreshold = 2', "must survive"),
    "unknown server": ('server = "friendly"', "secure_sum.server"),
    "nobody colludes": ("colluders = 0", "secure_sum.colluders"),
    "too many collude": ("colluders = 3", "must survive"),
    "sparse and active": ("dropouts = 1", "active server"),
    "no sparse graph": ('server = "honest but curious"\ndropouts = 2', "complete graph"),
    "mistyped": ("coluders = 1", "did you mean 'colluders'"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_terms_that_do_not_hold_are_told_with_their_place(kind: str, tmp_path: Path) -> None:
    table, message = TABLES[kind]
    file = secretly(tmp_path, **{"# [secure_sum]": f"[secure_sum]\n{table}\n#"})
    with pytest.raises(InvalidInput, match=message):
        read_agreement(file)


def test_a_table_without_the_word_and_a_word_without_a_key_are_refused(tmp_path: Path) -> None:
    file = secretly(tmp_path, **{"# [secure_sum]": "[secure_sum] #"})
    text = file.read_text()
    file.write_text(text.replace("secure = true  ", SECURE))
    with pytest.raises(InvalidInput, match="secure = true"):
        read_agreement(file)
    file.write_text(text.replace("server_key =", "# "))
    with pytest.raises(InvalidInput, match="server_key"):
        read_agreement(file)


def test_the_mean_is_that_of_a_plain_run_up_to_rounding(job: Job) -> None:
    """Of the same updates: integers for the weights of three hospitals."""
    protocol = job.agreement.protocol
    assert isinstance(protocol, SecureSum)
    names = tuple(protocol.sizes)
    found = protocol.quantisation(names, 100.0)
    draw = np.random.default_rng(1)
    updates = {name: draw.normal(0, 0.1, 50) for name in names}
    words = [found.to_words(updates[name], protocol.weight(name)) for name in names]
    total = found.from_words(np.sum(words, axis=0, dtype=found.dtype))
    weights = [protocol.weight(name) for name in names]
    plain = sum(w * updates[n] for n, w in zip(names, weights, strict=True)) / sum(weights)
    assert np.abs(total / sum(weights) - plain).max() <= protocol.rounding_error(3, 100.0)
